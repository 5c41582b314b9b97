// SPDX-License-Identifier: MIT
// detail: call paths, figures, sizes, lifetimes and threads of one site, or of several together, for the tables' open rows.
import { bar, button, el } from "./dom";
import { kind, metric_of, type model } from "./model";
import { state } from "./state";
import { exact, narrow, show, show_bytes, show_count, show_ns, show_power, show_share, type unit } from "./units";

const evidences = ["", "from the allocator's template argument", "from the constructor that follows (heuristic)",
  "from the object's vtable (heuristic)"];

function call_path(m: model, row: number): HTMLElement {
  const list = el("ol", { class: "path" });
  const frames = m.frames_of(row);
  const title = m.place(row);
  for (const frame of frames) {
    const inlined = m.data.frames.inlined[frame] ? " (inlined)" : "";
    const place = [m.place_of(frame), m.module_of(frame)].filter((text) => text !== "").join(" · ");
    list.append(el("li", { class: frame === title ? "title" : m.in_library(frame) ? "library" : "" },
      el("code", {}, m.function_of(frame)), el("span", {}, `${inlined} ${place}`)));
  }
  if (frames.length === 0) list.append(el("li", {}, "The call path is not known."));
  return list;
}

// What the lines of each file cost, by "file,line"; all call paths to a line together.
const costs_of_lines = new WeakMap<model, Map<string, number>>();
function costs_by_line(m: model): Map<string, number> {
  let made = costs_of_lines.get(m);
  if (made === undefined) {
    made = new Map();
    const { file, line } = m.data.frames;
    const costs = m.values(metric_of("cost"));
    for (let row = 0; row < m.rows; ++row) {
      const frame = m.place(row);
      if (frame < 0 || line[frame] === 0) continue;
      const key = `${file[frame]},${line[frame]}`;
      made.set(key, (made.get(key) ?? 0) + costs[row]!);
    }
    costs_of_lines.set(m, made);
  }
  return made;
}

// The lines around a place, where the report has them, each with what it costs.
function source(m: model, frame: number): HTMLElement | null {
  const found = m.data.sources?.[String(frame)];
  if (found === undefined) return null;
  const list = el("ol", { class: "source", start: String(found[0]) });
  found.slice(1).forEach((text, index) => {
    const line = Number(found[0]) + index;
    const cost = costs_by_line(m).get(`${m.data.frames.file[frame]},${line}`) ?? 0;
    list.append(el("li", line === m.data.frames.line[frame] ? { class: "place" } : {},
      el("span", { class: "line-cost" }, cost > 0 ? show_ns(cost) : ""), el("code", {}, String(text))));
  });
  return el("div", {}, el("h3", {}, `Source with each line's cost, ${m.place_of(frame)}`), list);
}

// Of several rows: the dearest paths, each by its next callers.
function call_paths(m: model, rows: readonly number[]): HTMLElement {
  const most = 12;
  const list = el("ol", { class: "path" });
  const dearest = [...rows].sort((a, b) => m.value(b, "cost") - m.value(a, "cost") || m.value(b, "bytes") - m.value(a, "bytes"));
  for (const row of dearest.slice(0, most)) {
    const figures = `${show_ns(m.value(row, "cost"))}, ${show_count(m.figure(row, "allocations"))} calls, ` +
      `${show_bytes(m.figure(row, "bytes"))}`;
    if (m.kind_of(row) !== kind.site) {
      list.append(el("li", {}, `${m.figure(row, "sites").toLocaleString("en-US")} smaller sites`, el("span", {}, figures)));
      continue;
    }
    const callers = m.callers_of(row, 3);
    const words = callers.length > 0 ? `from ${callers.join(" ‹ ")}` : m.title_of(row);
    list.append(el("li", {}, button(words, () => state.reveal(row), { class: "link" }), el("span", {}, figures)));
  }
  if (rows.length > most) list.append(el("li", {}, `and ${(rows.length - most).toLocaleString("en-US")} more`));
  return list;
}

function figures(m: model, rows: readonly number[]): HTMLElement {
  const list = el("dl", { class: "pairs" });
  const put = (name: string, value: string, title = "") =>
    list.append(el("dt", {}, name), el("dd", title ? { title } : {}, value));
  const of = (column: string) => rows.reduce((sum, row) => sum + m.figure(row, column), 0);
  const plain = (name: string, column: string, what: unit) => {
    if (of(column) > 0) put(name, show(of(column), what), exact(of(column), what));
  };
  const share = (name: string, column: string, whole: string) => {
    if (of(whole) > 0) put(name, show_share(of(column), of(whole)), `${exact(of(column), "count")} of ${exact(of(whole), "count")}`);
  };
  const types = new Set(rows.map((row) => m.type_of(row)));
  const [type] = types;
  if (types.size === 1 && type) put("Type", type, evidences[m.figure(rows[0]!, "evidence")] ?? "");
  plain("Malloc and free", "malloc_ns", "ns");
  plain("First touch", "fault_ns", "ns");
  plain("Giving back", "unmap_ns", "ns");
  // The standard error of a sum of independent samples.
  const samples = of("samples");
  if (m.data.mode === "sample" && samples > 0) {
    put("Samples behind the figures", `${show_count(samples)}, so ±${Math.round(100 / Math.sqrt(samples))}${narrow}%`,
      "One standard error of counts and bytes; figures of few samples may be far off");
  }
  plain("Allocations", "allocations", "count");
  plain("Frees", "frees", "count");
  plain("Requested", "bytes", "bytes");
  if (of("usable_bytes") > of("bytes") && of("bytes") > 0) {
    put("Rounded up by", show_share(of("usable_bytes") - of("bytes"), of("bytes")), exact(of("usable_bytes") - of("bytes"), "bytes"));
  }
  if (rows.length === 1) plain("Peak of this site", "peak_bytes", "bytes"); // several need not peak at once
  plain("Live at the program's peak", "bytes_at_peak", "bytes");
  plain("Live at the end", "live_bytes", "bytes");
  if (of("frees") > 0) put("Mean lifetime", show_ns(of("lifetime_ns") / of("frees")));
  share("Freed by another thread", "foreign_frees", "frees");
  share("Freed last in, first out", "lifo_frees", "frees");
  share("Freed in batches", "batch_frees", "frees");
  plain("Page faults", "faults", "count");
  plain("of them in the kernel", "kernel_faults", "count");
  if (of("checked_bytes") > 0) {
    put("Never touched", `${show_bytes(of("untouched_bytes"))}, ${show_share(of("untouched_bytes"), of("checked_bytes"))}`,
      `of ${exact(of("checked_bytes"), "bytes")} that were looked at`);
  }
  plain("Blocks of 64 KiB and more", "large", "count");
  plain("Grown by realloc", "reallocs", "count");
  plain("Copied by realloc, at most", "realloc_bytes", "bytes");
  plain("calloc", "callocs", "count");
  plain("mmap calls", "maps", "count");
  plain("Mapped", "mapped_bytes", "bytes");
  return list;
}

interface bar_row { label: string; value: number; text: string }

function bars(heading: string, rows: bar_row[]): HTMLElement | null {
  if (rows.length === 0) return null;
  const most = Math.max(...rows.map((one) => one.value));
  const list = el("ul", { class: "bars" });
  for (const one of rows) {
    list.append(el("li", {}, el("span", {}, one.label), bar(one.value / most), el("span", {}, one.text)));
  }
  return el("div", {}, el("h3", {}, heading), list);
}

// Adds up what `value` gives by `key`.
function sums_by<Key>(found: readonly number[][], key: (one: number[]) => Key, value: (one: number[]) => number): Map<Key, number> {
  const sums = new Map<Key, number>();
  for (const one of found) sums.set(key(one), (sums.get(key(one)) ?? 0) + value(one));
  return sums;
}

function sizes(m: model, rows: ReadonlySet<number>, all: number): HTMLElement | null {
  const found = m.data.details.sizes.filter((one) => rows.has(one[0]!));
  const label = (size: number, is_exact: number) => (is_exact === 0 ? `from ${show_bytes(size)}`
    : size < 100_000 ? exact(size, "bytes") : show_bytes(size));
  const counts = sums_by(found, (one) => label(one[1]!, one[3]!), (one) => one[2]!);
  return bars("Sizes", [...counts].sort((a, b) => b[1] - a[1]).slice(0, 10).map(([name, count]) =>
    ({ label: name, value: count, text: `${show_count(count)}, ${show_share(count, all)}` })));
}

function lifetimes(m: model, rows: ReadonlySet<number>, all: number): HTMLElement | null {
  const found = m.data.details.lifetimes.filter((one) => rows.has(one[0]!));
  // Three powers of two are about one of ten.
  const counts = sums_by(found, (one) => Math.floor(one[1]! / 3) * 3, (one) => one[3]!);
  return bars("Lifetimes", [...counts].sort((a, b) => a[0] - b[0]).map(([power, count]) => ({
    label: `${show_power(power, "ns")} to ${show_power(power + 3, "ns")}`,
    value: count,
    text: `${show_count(count)}, ${show_share(count, all)}`,
  })));
}

export function thread_name(m: model, number: number): string {
  const one = m.data.threads[number];
  if (!one) return "unknown";
  if (one.others) return `${one.others} other threads`;
  return one.name ? `${one.name} (${one.id})` : `thread ${one.id}`;
}

function threads(m: model, rows: ReadonlySet<number>): HTMLElement | null {
  if (m.data.threads.length === 1) return null;
  const found = m.data.details.threads.filter((one) => rows.has(one[0]!));
  const label = (from: number, to: number) =>
    (from === to ? `${thread_name(m, from)}, its own` : `${thread_name(m, from)} → ${thread_name(m, to)}`);
  const counts = sums_by(found, (one) => label(one[1]!, one[2]!), (one) => one[3]!);
  return bars("Threads", [...counts].sort((a, b) => b[1] - a[1]).slice(0, 6).map(([name, count]) =>
    ({ label: name, value: count, text: show_count(count) })));
}

export function rows_details(m: model, rows: readonly number[]): HTMLElement {
  const first = rows[0]!;
  if (m.kind_of(first) === kind.outside) {
    return el("p", { class: "detail" }, "Page faults on stacks, images of programs and libraries, the allocator's own data, and those " +
      "that the fault events did not show. They cost the program as much, but no call of malloc has caused them.");
  }
  const sum = (column: string) => rows.reduce((so_far, row) => so_far + m.figure(row, column), 0);
  const set = new Set(rows);
  const path = rows.length === 1 && m.kind_of(first) === kind.site
    ? el("div", { class: "detail-path" }, el("h3", {}, "Call path, innermost first"), call_path(m, first))
    : el("div", { class: "detail-path" }, el("h3", {}, "Call paths, most expensive first"), call_paths(m, rows));
  // Rows that are shown together have one place, or none.
  const places = new Set(rows.map((row) => m.place(row)));
  const lines = places.size === 1 ? source(m, m.place(first)) : null;
  if (lines !== null) path.append(lines);
  return el("div", { class: "detail" }, path, el("div", {}, el("h3", {}, "Figures"), figures(m, rows)),
    el("div", { class: "detail-bars" }, sizes(m, set, sum("allocations")), lifetimes(m, set, sum("frees")), threads(m, set)));
}
