// SPDX-License-Identifier: MIT
// sites: the tables of places, call paths and types, with their filters. Sums stand below, so that it can be seen that they agree
// with the verdict.
import { bar, button, choice, el, replace, section, switcher, type content } from "./dom";
import { rows_details } from "./detail";
import { kind, type metric, metric_of, type model, span_metrics } from "./model";
import { state } from "./state";
import { type column, data_table } from "./table";
import { exact, show, show_bytes, show_estimate, show_share } from "./units";

// A figure of a group of rows.
type sum_of = (group: number, id: string) => number;

// Of the sum of all rows, which is not that of the rows' variances.
function whole_variance(m: model, id: string): number {
  const { cost_variance, allocations_variance, bytes_variance } = m.data.whole;
  return { cost: cost_variance, allocations: allocations_variance, bytes: bytes_variance }[id] ?? 0;
}

function figure_column(m: model, one: metric, of: sum_of, variance_of: sum_of): column {
  const said = (group: number) => show_estimate(of(group, one.id), variance_of(group, one.id), one.what);
  return {
    id: one.id, label: one.head, help: `${one.label}. ${one.help}`,
    sort_by: (group) => of(group, one.id),
    is_uncertain: (group) => of(group, one.id) <= 1.96 * Math.sqrt(variance_of(group, one.id)),
    cell: said,
    title: (group) => exact(of(group, one.id), one.what),
    sum: (groups) => {
      const sum = groups.reduce((so_far, group) => so_far + of(group, one.id), 0);
      return el("span", { title: exact(sum, one.what), "data-sum": one.id, "data-value": sum },
        show_estimate(sum, sum === m.total_of(one) ? whole_variance(m, one.id) : 0, one.what));
    },
  };
}

function sample_column(of: sum_of): column {
  return {
    id: "samples", label: "Samples", help: "That the estimates of this row rest on",
    sort_by: (group) => of(group, "samples"), cell: (group) => show(of(group, "samples"), "count"),
    sum: (groups) => show(groups.reduce((sum, group) => sum + of(group, "samples"), 0), "count"),
  };
}

function figure_columns(m: model, of: sum_of, variance_of: sum_of): column[] {
  const cost = metric_of("cost");
  const whole = m.cpu_ns() || m.total_of(cost);
  const columns = ["cost", "hidden", "malloc", "allocations", "temporary", "bytes", "peak", "live", "faults", "untouched"]
    .map((id) => figure_column(m, metric_of(id), of, variance_of));
  const said_cost = columns[0]!.cell;
  columns[0]!.cell = (group) => [bar(m.total_of(cost) > 0 ? of(group, "cost") / m.total_of(cost) : 0),
    el("span", { class: "beside" }, said_cost(group) as string)];
  columns.splice(1, 0, {
    id: "share", label: "Share", help: "Of the program's processor time, without the recorder's",
    sort_by: (group) => of(group, "cost"),
    cell: (group) => show_share(of(group, "cost"), whole, 1.96 * Math.sqrt(variance_of(group, "cost"))),
    sum: (groups) => show_share(groups.reduce((sum, group) => sum + of(group, "cost"), 0), whole),
  });
  if (m.data.slices) columns.unshift(...span_metrics.map((one) => ({ ...figure_column(m, one, of, variance_of), part: true })));
  if (m.data.mode === "sample") columns.splice(columns.findIndex((one) => one.id === "allocations"), 0, sample_column(of));
  const bytes = columns.findIndex((one) => one.id === "bytes");
  columns.splice(bytes + 1, 0, {
    id: "mean", label: "Mean", help: "Bytes requested per allocation",
    sort_by: (group) => of(group, "bytes") / Math.max(1, of(group, "allocations")),
    cell: (group) => show_bytes(of(group, "bytes") / Math.max(1, of(group, "allocations"))),
  });
  return columns;
}

// One way to look at the rows: each in a group of its own, or together by place or type.
class grouped_table {
  readonly table: data_table;
  private readonly groups: number[][];
  private kept: number[][] = []; // of each group, the rows that pass the filters

  constructor(private readonly m: model, head: string, caption: string, key: (row: number) => string | number,
    private readonly name: (rows: readonly number[]) => content[], title: (row: number) => string) {
    const found = new Map<string | number, number[]>();
    for (let row = 0; row < m.rows; ++row) {
      const group = found.get(key(row));
      if (group) group.push(row);
      else found.set(key(row), [row]);
    }
    this.groups = [...found.values()];
    const first = (group: number) => this.groups[group]![0]!;
    const types = (group: number) => {
      const all = new Set(this.kept[group]!.map((row) => m.type_of(row)));
      const [one] = all;
      return all.size === 1 ? one! : `${all.size} types`;
    };
    this.table = new data_table({
      caption, sort: "cost", details: (group) => rows_details(m, this.kept[group]!),
      columns: [
        { id: "name", label: head, text: true, sort_by: (group) => title(first(group)).toLowerCase(),
          cell: (group) => this.name(this.kept[group]!), title: (group) => this.full_name(first(group)),
          sum: (groups) => this.sum_label(groups) },
        ...figure_columns(m, (group, id) => this.kept[group]!.reduce((sum, row) => sum + m.value(row, id), 0),
          (group, id) => this.kept[group]!.reduce((sum, row) => sum + m.variance(row, id), 0)),
        ...(head === "Type" ? [] : [{
          id: "type", label: "Type", text: true, help: "What is allocated there, where that is known",
          sort_by: (group: number) => types(group).toLowerCase() || "\uffff",
          cell: (group: number) => el("span", { class: "type" }, types(group) || "–"), title: types }]),
      ],
    });
  }

  private full_name(row: number): string {
    const frame = this.m.place(row);
    return frame < 0 ? "" : [this.m.function_of(frame), this.m.place_of(frame)].filter(Boolean).join("\n");
  }
  private sum_label(groups: readonly number[]): string {
    const count = groups.reduce((sum, group) =>
      sum + this.kept[group]!.reduce((so_far, row) => so_far + this.m.figure(row, "sites"), 0), 0);
    const all = this.m.total("sites");
    return count === all ? `All ${all.toLocaleString("en-US")} sites` : `${count.toLocaleString("en-US")} of ${all.toLocaleString("en-US")} sites`;
  }

  show(has: Uint8Array): void {
    this.kept = this.groups.map((rows) => rows.filter((row) => has[row]));
    this.table.set_rows(this.groups.map((_, group) => group).filter((group) => this.kept[group]!.length > 0));
  }
  reveal(row: number): void { this.table.reveal(this.groups.findIndex((rows) => rows.includes(row))); }
}

function count_of_paths(m: model, rows: readonly number[]): string {
  const count = rows.reduce((sum, row) => sum + m.figure(row, "sites"), 0);
  return count <= 1 ? "" : `${count.toLocaleString("en-US")} call paths`;
}

function place_name(m: model, rows: readonly number[]): content[] {
  const frame = m.place(rows[0]!);
  const where = frame < 0 ? "" : m.place_of(frame).replace(/^.*\//, "") || m.module_of(frame);
  return [el("span", { class: "name" }, m.title_of(rows[0]!)),
    el("span", { class: "sub" }, [where, count_of_paths(m, rows), m.data.nameless[frame]].filter(Boolean).join(", "))];
}

function path_name(m: model, [row]: readonly number[]): content[] {
  if (m.kind_of(row!) !== kind.site) return place_name(m, [row!]);
  const [caller] = m.callers_of(row!, 1);
  return [el("span", { class: "name" }, m.title_of(row!)), el("span", { class: "sub" }, caller ? `from ${caller}` : "")];
}

function type_name(m: model, row: number): string {
  return m.kind_of(row) === kind.outside ? m.title_of(row) : m.type_of(row) || "Type not known";
}

function grouped_tables(m: model): Map<string, grouped_table> {
  const { frames } = m.data;
  // A line is one place, whether it was inlined or not.
  const place_key = (row: number) => {
    const frame = m.place(row);
    return frame < 0 ? `${m.kind_of(row)}` : `${frames.function[frame]},${frames.file[frame] || frames.module[frame]},${frames.line[frame]}`;
  };
  return new Map([
    ["places", new grouped_table(m, "Place", "Places in the program that allocate", place_key, (rows) => place_name(m, rows),
      (row) => m.title_of(row))],
    ["sites", new grouped_table(m, "Call path", "Sites: call paths that allocate", (row) => row, (rows) => path_name(m, rows),
      (row) => m.title_of(row))],
    ["types", new grouped_table(m, "Type", "Types: what is allocated", (row) => type_name(m, row),
      (rows) => [el("span", { class: "name" }, type_name(m, rows[0]!)), el("span", { class: "sub" }, count_of_paths(m, rows))],
      (row) => type_name(m, row))],
  ]);
}

export class sites_view {
  private readonly tables: Map<string, grouped_table>;
  private readonly status = el("p", { class: "status", role: "status" });
  private readonly chip = el("span", {});
  private readonly search = el("input", {
    type: "search", id: "search", placeholder: "Function, file, type or module", autocomplete: "off", spellcheck: "false" });
  private found: Uint8Array[] = []; // by word that is searched for: the rows that have it
  private module = "";
  private size = "";

  constructor(private readonly m: model) {
    this.tables = grouped_tables(m);
    this.build();
    this.update();
    state.on_filter(() => this.update());
    state.on_span((text) => {
      for (const one of this.tables.values()) one.table.show_part(text !== null, text === null ? "cost" : "span_bytes");
    });
    state.on_reveal((row) => this.reveal(row));
  }

  private build(): void {
    const place = section("sites", "Call sites", "Every place that allocates, with the full cost of its blocks, wherever it arises. Open a row for call " +
      "paths, sizes and lifetimes.");
    const modules = new Map<string, number>();
    for (let row = 0; row < this.m.rows; ++row) {
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
    const tables = el("div", {}, ...[...this.tables.values()].map((one) => one.table.element));
    const choose = (value: string) => {
      for (const [id, one] of this.tables) one.table.element.hidden = id !== value;
    };
    choose("places");
    const kinds = switcher("Rows", [{ value: "places", text: "Places" }, { value: "sites", text: "Call paths" },
      { value: "types", text: "Types" }], "places", choose);
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
    const frame = this.m.place(row);
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
    return Uint8Array.from({ length: m.rows }, (_, row) => in_path[sites.stack![row]!]! || (in_text[sites.type![row]!]! ? 1 : 0) ||
      (m.title_of(row).toLowerCase().includes(word) ? 1 : 0));
  }

  private fits(row: number): boolean {
    if (!this.found.every((one) => one[row])) return false;
    if (this.module && this.module_of(row) !== this.module) return false;
    if (this.size) {
      const large = this.m.figure(row, "large");
      if (this.m.kind_of(row) === kind.outside) return false;
      if (this.size === "large" ? large === 0 : large >= this.m.figure(row, "allocations")) return false;
    }
    return state.filter?.has(row) ?? true;
  }

  private update(): void {
    this.found = this.search.value.toLowerCase().split(/\s+/).filter(Boolean).map((word) => this.rows_with(word));
    const has = Uint8Array.from({ length: this.m.rows }, (_, row) => (this.fits(row) ? 1 : 0));
    for (const one of this.tables.values()) one.show(has);
    const cost = metric_of("cost");
    const kept = has.reduce((sum, one) => sum + one, 0);
    const part = has.reduce((sum, one, row) => sum + one * this.m.value(row, cost.id), 0);
    this.status.textContent = kept === this.m.rows ? ""
      : `${kept.toLocaleString("en-US")} of ${this.m.rows.toLocaleString("en-US")} call paths, ` +
        `${show_share(part, this.m.cpu_ns() || this.m.total_of(cost))} of the processor time`;
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
    this.tables.get("sites")!.reveal(row);
  }
}
