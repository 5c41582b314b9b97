// SPDX-License-Identifier: MIT
// table: rows that can be sorted by column, opened for details, and shown piece by piece. The first column names the row.
// Invariant: what stands in the body is a piece of `order` from its beginning, in its order.
import { append, button, el, replace, type content } from "./dom";

export interface column {
  id: string;
  label: string;
  help?: string;
  text?: boolean; // sorted by text, ascending at first
  part?: boolean; // shown only while a part of the run is selected
  sort_by: (row: number) => number | string;
  is_uncertain?: (row: number) => boolean; // its figure may be nothing; sorted by it, such rows are folded into one
  cell: (row: number) => content | content[];
  title?: (row: number) => string;
  sum?: (rows: readonly number[]) => content;
}

export interface table_options {
  caption: string;
  columns: column[];
  sort: string; // a column's id
  details?: (row: number) => HTMLElement;
  piece?: number;
}

const class_of = (one: column): string => (one.text ? "text" : one.part ? "part-of-run" : "");

export class data_table {
  readonly element: HTMLElement;
  private readonly body = el("tbody", {});
  private readonly foot = el("tfoot", {});
  private readonly more = el("div", { class: "more" });
  private readonly heads = new Map<string, HTMLTableCellElement>();
  private readonly open_rows = new Set<number>();
  private folded = 0; // rows at the end of `order` that the others' row stands for, until it is opened
  private readonly piece: number;
  private order: number[] = [];
  private shown = 0;
  private sorted: string;
  private ascending: boolean;

  constructor(private readonly options: table_options) {
    this.piece = options.piece ?? 50;
    this.sorted = options.sort;
    this.ascending = this.column_of(options.sort).text ?? false;
    const head = el("tr", {});
    for (const one of options.columns) head.append(this.head_of(one));
    this.element = el("div", { class: "table" },
      el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": options.caption },
        el("table", {}, el("caption", { class: "quiet" }, options.caption), el("thead", {}, head), this.body, this.foot)),
      this.more);
    this.body.addEventListener("keydown", (event) => this.move_focus(event));
  }

  set_rows(rows: readonly number[]): void {
    this.order = [...rows];
    this.sort();
  }

  // Brings the row into what is shown, opens it and moves the focus there.
  reveal(row: number): void {
    const place = this.order.indexOf(row);
    if (place < 0) return;
    this.open_rows.add(row);
    if (place >= this.order.length - this.folded) this.folded = 0;
    this.fill(Math.max(this.shown, place + 1));
    const toggle = this.body.querySelector<HTMLButtonElement>(`button[data-row="${row}"]`);
    toggle?.scrollIntoView({ block: "center" });
    toggle?.focus({ preventScroll: true });
  }

  private column_of(id: string): column { return this.options.columns.find((one) => one.id === id)!; }

  private head_of(one: column): HTMLElement {
    const sort = button(one.label, () => this.sort_by(one.id), one.help ? { title: one.help } : {});
    const cell = el("th", { scope: "col", class: class_of(one) }, sort);
    this.heads.set(one.id, cell);
    return cell;
  }

  sort_by(id: string): void {
    if (this.sorted === id) {
      this.ascending = !this.ascending;
    } else {
      this.sorted = id;
      this.ascending = this.column_of(id).text ?? false;
    }
    this.sort();
  }

  // For a part of the run, or the whole run again.
  show_part(is_part: boolean, sorted: string): void {
    this.element.classList.toggle("of-part", is_part);
    this.sorted = sorted;
    this.ascending = false;
    this.sort();
  }

  private sort(): void {
    const { sort_by } = this.column_of(this.sorted);
    const keys = new Map(this.order.map((row) => [row, sort_by(row)]));
    const sign = this.ascending ? 1 : -1;
    this.order.sort((left, right) => {
      const a = keys.get(left)!;
      const b = keys.get(right)!;
      return (a < b ? -sign : a > b ? sign : 0) || left - right;
    });
    // Folded are those that are not open, so that a row that is revealed stays.
    const { is_uncertain } = this.column_of(this.sorted);
    const others = is_uncertain ? this.order.filter((row) => is_uncertain(row) && !this.open_rows.has(row)) : [];
    this.folded = others.length > 1 ? others.length : 0;
    if (this.folded > 0) {
      const apart = new Set(others);
      this.order = [...this.order.filter((row) => !apart.has(row)), ...others];
    }
    for (const [id, cell] of this.heads) {
      if (id === this.sorted) cell.setAttribute("aria-sort", this.ascending ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    }
    this.fill(this.piece);
  }

  private fill(count: number): void {
    const single = this.order.length - this.folded;
    this.shown = Math.min(count, single);
    const rows: Node[] = [];
    for (const row of this.order.slice(0, this.shown)) rows.push(...this.row_of(row));
    if (this.folded > 0 && this.shown === single) rows.push(this.others_row(this.order.slice(single)));
    this.body.replaceChildren(...rows);
    this.show_sums();
    this.show_more();
  }

  private show_sums(): void {
    if (!this.options.columns.some((one) => one.sum)) return;
    const sums = el("tr", {});
    this.options.columns.forEach((one, index) => {
      sums.append(el(index === 0 ? "th" : "td", index === 0 ? { scope: "row" } : { class: class_of(one) }, one.sum?.(this.order)));
    });
    this.foot.replaceChildren(sums);
  }

  // One row for rows whose figure may be nothing, with their number and sums.
  private others_row(others: readonly number[]): HTMLElement {
    const made = el("tr", { class: "others" });
    this.options.columns.forEach((one, index) => {
      const open = () => { this.folded = 0; this.fill(this.shown + 200); };
      made.append(index === 0
        ? el("th", { scope: "row" }, button(`Others: ${others.length.toLocaleString("en-US")} whose figure may be nothing`, open))
        : el("td", { class: class_of(one) }, one.sum?.(others)));
    });
    return made;
  }

  private show_more(): void {
    const left = this.order.length - this.folded - this.shown;
    replace(this.more);
    if (this.order.length === 0) this.more.append(el("p", { class: "empty" }, "No rows."));
    if (left <= 0) return;
    this.more.append(button(`Show ${Math.min(left, 200).toLocaleString("en-US")} more`, () => this.fill(this.shown + 200)),
      el("span", {}, `${this.shown.toLocaleString("en-US")} of ${this.order.length.toLocaleString("en-US")} rows`));
  }

  private row_of(row: number): Node[] {
    const made = el("tr", {});
    this.options.columns.forEach((one, index) => {
      const inner = one.cell(row);
      const attributes = { class: class_of(one), title: one.title?.(row) };
      const cell = index === 0 ? el("th", { scope: "row", ...attributes }) : el("td", attributes);
      append(cell, Array.isArray(inner) ? inner : [inner]);
      made.append(cell);
    });
    const first = made.firstElementChild!;
    if (!this.options.details) return [made];
    const is_open = this.open_rows.has(row);
    const toggle = el("button", {
      type: "button", class: "toggle", "data-row": row, "aria-expanded": String(is_open),
    }, ...[...first.childNodes]);
    toggle.addEventListener("click", () => this.toggle(row, made, toggle));
    first.replaceChildren(toggle);
    return is_open ? [made, this.details_of(row)] : [made];
  }

  private details_of(row: number): HTMLElement {
    return el("tr", { class: "details" },
      el("td", { colspan: this.options.columns.length }, this.options.details!(row)));
  }

  private toggle(row: number, made: HTMLElement, toggle: HTMLElement): void {
    const is_open = !this.open_rows.delete(row);
    if (is_open) {
      this.open_rows.add(row);
      made.after(this.details_of(row));
    } else {
      made.nextElementSibling?.remove();
    }
    toggle.setAttribute("aria-expanded", String(is_open));
  }

  // Up, down, home and end go from row to row.
  private move_focus(event: KeyboardEvent): void {
    const toggles = [...this.body.querySelectorAll<HTMLButtonElement>("button.toggle")];
    const at = toggles.indexOf(event.target as HTMLButtonElement);
    if (at < 0) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: toggles.length - 1 }[event.key];
    if (to === undefined || toggles[to] === undefined) return;
    event.preventDefault();
    toggles[to].focus();
  }
}
