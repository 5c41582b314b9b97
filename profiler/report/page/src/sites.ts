// SPDX-License-Identifier: MIT
// sites: the tables of sites and of types, with their filters. Sums stand below, so that it can be seen that they agree
// with the verdict.
import { bar, button, choice, el, replace, section, switcher, type content } from "./dom";
import { site_details } from "./detail";
import { kind, type metric, metric_of, type model } from "./model";
import { state } from "./state";
import { type column, data_table } from "./table";
import { exact, show, show_bytes, show_share } from "./units";

// A figure of a group of rows: of one row in the table of sites, of all rows of a type in that of types.
type sum_of = (group: number, id: string) => number;

function figure_column(one: metric, of: sum_of): column {
  return {
    id: one.id, label: one.head, help: `${one.label}. ${one.help}`,
    sort_by: (group) => of(group, one.id),
    cell: (group) => show(of(group, one.id), one.what),
    title: (group) => exact(of(group, one.id), one.what),
    sum: (groups) => {
      const sum = groups.reduce((so_far, group) => so_far + of(group, one.id), 0);
      return el("span", { title: exact(sum, one.what), "data-sum": one.id, "data-value": sum }, show(sum, one.what));
    },
  };
}

function figure_columns(m: model, of: sum_of): column[] {
  const cost = metric_of("cost");
  const whole = m.total_of(cost);
  const columns = ["cost", "hidden", "malloc", "allocations", "bytes", "peak", "live", "faults", "untouched"]
    .map((id) => figure_column(metric_of(id), of));
  columns[0]!.cell = (group) => [bar(whole > 0 ? of(group, "cost") / whole : 0),
    el("span", { class: "beside" }, show(of(group, "cost"), "ns"))];
  columns.splice(1, 0, {
    id: "share", label: "Share", help: "Of the true cost",
    sort_by: (group) => of(group, "cost"), cell: (group) => show_share(of(group, "cost"), whole),
    sum: (groups) => show_share(groups.reduce((sum, group) => sum + of(group, "cost"), 0), whole),
  });
  const bytes = columns.findIndex((one) => one.id === "bytes");
  columns.splice(bytes + 1, 0, {
    id: "mean", label: "Mean", help: "Bytes requested per allocation",
    sort_by: (group) => of(group, "bytes") / Math.max(1, of(group, "allocations")),
    cell: (group) => show_bytes(of(group, "bytes") / Math.max(1, of(group, "allocations"))),
  });
  return columns;
}

function site_name(m: model, row: number): content[] {
  const frame = m.title_frame(row);
  const frames = m.kind_of(row) === kind.site ? m.frames_of(row) : [];
  const inner = frames[0];
  const via = inner !== undefined && inner !== frame ? ` via ${m.short_of(inner)}` : "";
  const place = frame >= 0 ? m.place_of(frame).replace(/^.*\//, "") || m.module_of(frame) : "";
  return [el("span", { class: "name" }, m.title_of(row)), el("span", { class: "sub" }, `${place}${via}`)];
}

export class sites_view {
  private readonly rows: number[];
  private readonly types: number[][];
  private kept = new Set<number>(); // the rows that pass the filters
  private readonly sites: data_table;
  private readonly type_table: data_table;
  private readonly status = el("p", { class: "status", role: "status" });
  private readonly chip = el("span", {});
  private readonly search = el("input", {
    type: "search", id: "search", placeholder: "Function, file, type or module", autocomplete: "off", spellcheck: "false" });
  private found: Uint8Array[] = []; // by word that is searched for: the rows that have it
  private module = "";
  private size = "";

  constructor(private readonly m: model) {
    this.rows = Array.from({ length: m.rows }, (_, row) => row);
    this.types = this.group_by_type();
    this.sites = new data_table({
      caption: "Sites: call paths that allocate", sort: "cost", details: (row) => site_details(m, row),
      columns: [
        { id: "site", label: "Site", text: true, sort_by: (row) => m.title_of(row).toLowerCase(),
          cell: (row) => site_name(m, row), title: (row) => this.full_name(row), sum: (rows) => this.sum_label(rows) },
        ...figure_columns(m, (row, id) => m.value(row, id)),
        { id: "type", label: "Type", text: true, help: "What is allocated there, where that is known",
          sort_by: (row) => m.type_of(row).toLowerCase() || "\uffff",
          cell: (row) => el("span", { class: "type" }, m.type_of(row) || "–"), title: (row) => m.type_of(row) },
      ],
    });
    this.type_table = new data_table({
      caption: "Types: what is allocated", sort: "cost", details: (group) => this.sites_of_type(group),
      columns: [
        { id: "type", label: "Type", text: true, sort_by: (group) => this.type_name(group).toLowerCase(),
          cell: (group) => [el("span", { class: "name" }, this.type_name(group)),
            el("span", { class: "sub" }, this.count_of_sites(group))],
          sum: (groups) => `${groups.length.toLocaleString("en-US")} types` },
        ...figure_columns(m, (group, id) => this.kept_of(group).reduce((sum, row) => sum + m.value(row, id), 0)),
      ],
    });
    this.build();
    this.update();
    state.on_filter(() => this.update());
    state.on_reveal((row) => this.reveal(row));
  }

  private group_by_type(): number[][] {
    const groups = new Map<string, number[]>();
    for (const row of this.rows) {
      const key = this.m.kind_of(row) === kind.site ? `t${this.m.type_of(row)}` : `k${row}`;
      const group = groups.get(key);
      if (group) group.push(row);
      else groups.set(key, [row]);
    }
    return [...groups.values()];
  }
  private type_name(group: number): string {
    const row = this.types[group]![0]!;
    return this.m.kind_of(row) === kind.site ? this.m.type_of(row) || "Type not known" : this.m.title_of(row);
  }
  private kept_of(group: number): number[] { return this.types[group]!.filter((row) => this.kept.has(row)); }
  private count_of_sites(group: number): string {
    const count = this.kept_of(group).reduce((sum, row) => sum + this.m.figure(row, "sites"), 0);
    return count === 0 ? "" : count === 1 ? "1 site" : `${count.toLocaleString("en-US")} sites`;
  }
  private sites_of_type(group: number): HTMLElement {
    const list = el("ul", { class: "detail plain" });
    const rows = this.kept_of(group).sort((a, b) => this.m.value(b, "cost") - this.m.value(a, "cost"));
    for (const row of rows.slice(0, 20)) {
      list.append(el("li", {}, button(this.m.title_of(row), () => this.reveal(row), { class: "link" }),
        ` ${show(this.m.value(row, "cost"), "ns")}, ${show_bytes(this.m.value(row, "bytes"))} requested`));
    }
    if (rows.length > 20) list.append(el("li", {}, `and ${rows.length - 20} more`));
    return list;
  }

  private full_name(row: number): string {
    const frame = this.m.title_frame(row);
    return frame < 0 ? "" : [this.m.function_of(frame), this.m.place_of(frame)].filter(Boolean).join("\n");
  }
  private sum_label(rows: readonly number[]): string {
    const count = rows.reduce((sum, row) => sum + this.m.figure(row, "sites"), 0);
    return rows.length === this.rows.length ? `All ${count.toLocaleString("en-US")} sites` : `${count.toLocaleString("en-US")} sites shown`;
  }

  private build(): void {
    const place = section("sites", "Who pays", "Every call path that allocates, with all its cost, wherever that is paid. Open a row for its " +
      "call path, sizes and lifetimes.");
    const modules = new Map<string, number>();
    for (const row of this.rows) {
      const name = this.module_of(row);
      if (name) modules.set(name, (modules.get(name) ?? 0) + this.m.value(row, "cost"));
    }
    const by_cost = [...modules].sort((a, b) => b[1] - a[1]).map(([name]) => ({ value: name, text: name }));
    this.search.addEventListener("input", () => this.update());
    this.search.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || this.search.value === "") return;
      this.search.value = "";
      this.update();
    });
    document.addEventListener("keydown", (event) => this.shortcut(event));
    const tables = el("div", {}, this.sites.element, this.type_table.element);
    this.type_table.element.hidden = true;
    const kinds = switcher("Rows", [{ value: "sites", text: "Sites" }, { value: "types", text: "Types" }], "sites", (value) => {
      this.sites.element.hidden = value !== "sites";
      this.type_table.element.hidden = value !== "types";
    });
    place.append(el("div", { class: "controls" }, kinds,
      el("label", { class: "field grow" }, el("span", {}, "Filter"), this.search),
      choice("Module", [{ value: "", text: "All modules" }, ...by_cost], "", (value) => { this.module = value; this.update(); }),
      choice("Blocks", [{ value: "", text: "All sizes" }, { value: "small", text: "Below 64 KiB" },
        { value: "large", text: "64 KiB and more" }], "", (value) => { this.size = value; this.update(); }),
      this.chip), this.status, tables);
  }

  private shortcut(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
    event.preventDefault();
    this.search.focus();
    this.search.select();
  }

  private module_of(row: number): string {
    const frame = this.m.kind_of(row) === kind.site ? this.m.title_frame(row) : -1;
    return frame < 0 ? "" : this.m.module_of(frame);
  }
  // Which rows have the word in their type, title or anywhere in their call path. By node of the tree, so that what paths
  // share is looked at once.
  private rows_with(word: string): Uint8Array {
    const { m } = this;
    const { frames, stacks, strings, sites } = m.data;
    const in_text = strings.map((text) => text.toLowerCase().includes(word));
    const in_frame = frames.function.map((name, frame) => in_text[name]! || in_text[frames.module[frame]!]! ||
      m.place_of(frame).toLowerCase().includes(word));
    const in_path = new Uint8Array(stacks.parent.length);
    for (let node = 1; node < in_path.length; ++node) {
      in_path[node] = in_path[stacks.parent[node]!]! || (in_frame[stacks.frame[node]!]! ? 1 : 0);
    }
    return Uint8Array.from(this.rows, (row) => in_path[sites.stack![row]!]! || (in_text[sites.type![row]!]! ? 1 : 0) ||
      (m.title_of(row).toLowerCase().includes(word) ? 1 : 0));
  }

  private fits(row: number): boolean {
    if (!this.found.every((one) => one[row])) return false;
    if (this.module && this.module_of(row) !== this.module) return false;
    if (this.size) {
      const large = this.m.figure(row, "large");
      if (this.m.kind_of(row) !== kind.site) return false;
      if (this.size === "large" ? large === 0 : large >= this.m.figure(row, "allocations")) return false;
    }
    return state.filter?.has(row) ?? true;
  }

  private update(): void {
    this.found = this.search.value.toLowerCase().split(/\s+/).filter(Boolean).map((word) => this.rows_with(word));
    const rows = this.rows.filter((row) => this.fits(row));
    this.kept = new Set(rows);
    this.sites.set_rows(rows);
    const groups = this.types.map((_, group) => group);
    this.type_table.set_rows(groups.filter((group) => this.kept_of(group).length > 0));
    const cost = metric_of("cost");
    const part = rows.reduce((sum, row) => sum + this.m.value(row, "cost"), 0);
    this.status.textContent = rows.length === this.rows.length ? ""
      : `${rows.length.toLocaleString("en-US")} of ${this.rows.length.toLocaleString("en-US")} rows, ` +
        `${show_share(part, this.m.total_of(cost))} of the true cost`;
    const { filter } = state;
    replace(this.chip, filter && button(`${filter.text} ✕`, () => state.set_filter(null),
      { class: "chip", "aria-label": `Remove the filter: ${filter.text}` }));
  }

  private reveal(row: number): void {
    document.querySelector<HTMLInputElement>("#sites input[type=radio][value=sites]")?.click();
    if (!this.fits(row)) {
      this.search.value = "";
      this.found = [];
      this.module = "";
      this.size = "";
      for (const list of document.querySelectorAll<HTMLSelectElement>("#sites .controls select")) list.value = "";
      state.set_filter(null);
    }
    this.sites.reveal(row);
  }
}
