// SPDX-License-Identifier: MIT
// detail: one site's call path, figures, sizes, lifetimes and threads, for the tables' open rows.
import { bar, el } from "./dom";
import { kind, type model } from "./model";
import { exact, show_bytes, show_count, show_ns, show_power, show_share, type unit } from "./units";

const evidences = ["", "from the allocator's template argument", "from the constructor that follows (heuristic)",
  "from the object's vtable (heuristic)"];

function call_path(m: model, row: number): HTMLElement {
  const list = el("ol", { class: "path" });
  const frames = m.frames_of(row);
  const title = m.title_frame(row);
  for (const frame of frames) {
    const inlined = m.data.frames.inlined[frame] ? " (inlined)" : "";
    const place = [m.place_of(frame), m.module_of(frame)].filter((text) => text !== "").join(" · ");
    list.append(el("li", { class: frame === title ? "title" : m.in_library(frame) ? "library" : "" },
      el("code", {}, m.function_of(frame)), el("span", {}, `${inlined} ${place}`)));
  }
  if (frames.length === 0) list.append(el("li", {}, "The call path is not known."));
  return list;
}

function figures(m: model, row: number): HTMLElement {
  const list = el("dl", { class: "pairs" });
  const put = (name: string, value: string, title = "") =>
    list.append(el("dt", {}, name), el("dd", title ? { title } : {}, value));
  const of = (column: string) => m.figure(row, column);
  const plain = (name: string, column: string, what: unit) => {
    if (of(column) > 0) {
      put(name, what === "ns" ? show_ns(of(column)) : what === "bytes" ? show_bytes(of(column)) : show_count(of(column)),
        exact(of(column), what));
    }
  };
  const share = (name: string, column: string, whole: string) => {
    if (of(whole) > 0) put(name, show_share(of(column), of(whole)), `${exact(of(column), "count")} of ${exact(of(whole), "count")}`);
  };
  if (m.type_of(row)) put("Type", m.type_of(row), evidences[m.figure(row, "evidence")] ?? "");
  plain("Malloc and free", "malloc_ns", "ns");
  plain("First touch", "fault_ns", "ns");
  plain("Giving back", "unmap_ns", "ns");
  plain("Events behind the figures", "samples", "count");
  plain("Allocations", "allocations", "count");
  plain("Frees", "frees", "count");
  plain("Requested", "bytes", "bytes");
  if (of("usable_bytes") > of("bytes") && of("bytes") > 0) {
    put("Rounded up by", show_share(of("usable_bytes") - of("bytes"), of("bytes")), exact(of("usable_bytes") - of("bytes"), "bytes"));
  }
  plain("Peak of this site", "peak_bytes", "bytes");
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

function sizes(m: model, row: number): HTMLElement | null {
  const found = m.data.details.sizes.filter((one) => one[0] === row).slice(0, 10);
  return bars("Sizes", found.map(([, size, count, is_exact]) => ({
    label: is_exact ? (size! < 100_000 ? `${size!.toLocaleString("en-US")} B` : show_bytes(size!)) : `from ${show_bytes(size!)}`,
    value: count!,
    text: `${show_count(count!)}, ${show_share(count!, m.figure(row, "allocations"))}`,
  })));
}

function lifetimes(m: model, row: number): HTMLElement | null {
  const counts = new Map<number, number>();
  for (const [site, lifetime, , count] of m.data.details.lifetimes) {
    if (site === row) counts.set(lifetime!, (counts.get(lifetime!) ?? 0) + count!);
  }
  // Three powers of two are about one of ten.
  const coarse = new Map<number, number>();
  for (const [power, count] of counts) {
    const place = Math.floor(power / 3) * 3;
    coarse.set(place, (coarse.get(place) ?? 0) + count);
  }
  return bars("Lifetimes", [...coarse].sort((a, b) => a[0] - b[0]).map(([power, count]) => ({
    label: `${show_power(power, "ns")} to ${show_power(power + 3, "ns")}`,
    value: count,
    text: `${show_count(count)}, ${show_share(count, m.figure(row, "frees"))}`,
  })));
}

export function thread_name(m: model, number: number): string {
  const one = m.data.threads[number];
  if (!one) return "unknown";
  if (one.others) return `${one.others} other threads`;
  return one.name ? `${one.name} (${one.id})` : `thread ${one.id}`;
}

function threads(m: model, row: number): HTMLElement | null {
  const found = m.data.details.threads.filter((one) => one[0] === row).sort((a, b) => b[3]! - a[3]!).slice(0, 6);
  if (found.length === 1 && found[0]![1] === found[0]![2] && m.data.threads.length === 1) return null;
  return bars("Threads", found.map(([, from, to, count]) => ({
    label: from === to ? `${thread_name(m, from!)}, its own` : `${thread_name(m, from!)} → ${thread_name(m, to!)}`,
    value: count!,
    text: show_count(count!),
  })));
}

export function site_details(m: model, row: number): HTMLElement {
  if (m.kind_of(row) === kind.outside) {
    return el("p", { class: "detail" }, "Page faults on stacks, images of programs and libraries, the allocator's own data, and those " +
      "that the fault events did not show. They cost the program as much, but no call of malloc has caused them.");
  }
  if (m.kind_of(row) === kind.rest) {
    return el("p", { class: "detail" }, "Sites whose figures are too small to be named one by one, summed up. The profile's " +
      "file holds them all: tarn sites shows them.");
  }
  return el("div", { class: "detail" },
    el("div", { class: "detail-path" }, el("h3", {}, "Call path, innermost first"), call_path(m, row)),
    el("div", {}, el("h3", {}, "Figures"), figures(m, row)),
    el("div", { class: "detail-bars" }, sizes(m, row), lifetimes(m, row), threads(m, row)));
}
