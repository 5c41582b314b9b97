// SPDX-License-Identifier: MIT
// model: the data that report_data.cpp wrote, and what every view asks of it. Rows of sites are named by their index; some
// are sums of sites that are not named, by place and type, and the last is page faults outside of malloc's blocks. Sums of rows are
// exact: all figures are whole numbers, and each column adds up to its total.
import { short_name } from "./names";
import type { unit } from "./units";

type numbers = number[];

export interface action {
  kind: string; leaves: boolean; headline: string; place: string; reason: string; change: string; evidence: string[];
  who: string; figures: string; share: number; instead_of: number | null;
  sites: number; site: number | null;
}
export interface thread { id?: number; name?: string; start_ns?: number; end_ns?: number; others?: number }

export interface memory_part { name: string; file: string; line: number; bytes: number; variance: number }
export interface memory_kind { name: string; text: string; bytes: number; parts: memory_part[] }
export interface memory { time_ns: number; resident_bytes: number; untouched: number; kinds: memory_kind[] } // at the live peak

export interface changed { before: numbers; after: numbers; margin: numbers } // margin: half of the interval of 95 %
export interface difference { // since earlier recordings
  recordings: [number, number];
  metrics: { name: string; unit: unit; meaning: string }[];
  totals: Record<string, changed>; // by metric, one value each
  sites: { function: numbers; file: numbers; line: numbers; type: numbers; callers: numbers; values: Record<string, changed> };
  others: { count: number; values: Record<string, changed> }; // call paths that are not in sites
  strings: string[];
}

export interface report {
  format: number;
  meta: Record<string, unknown>;
  mode: "sample" | "full" | "faults";
  prices: Record<string, number>;
  totals: Record<string, number>;
  sites: Record<string, numbers>;
  frames: { function: numbers; file: numbers; line: numbers; module: numbers; inlined: numbers; library: numbers };
  stacks: { parent: numbers; frame: numbers };
  strings: string[];
  nameless: Record<string, string>; // by frame that stands for a file's code without names: the reason, and the way out
  whole: { processor_ns: number; cost_variance: number; allocations_variance: number; bytes_variance: number };
  trouble: { kind: "death" | "peak" | "growth" | "time"; is_memory: boolean; sentence: string };
  sources?: Record<string, (number | string)[]>; // by frame: the first line's number, then lines
  slices: { end_ns: numbers; slice: numbers; row: numbers; allocations: numbers; bytes: numbers; grown: numbers } | null; // null: no events
  details: { sizes: numbers[]; lifetimes: numbers[]; threads: numbers[] };
  lifetimes: numbers[];
  threads: thread[];
  pairs: numbers[];
  counters: Record<string, numbers>;
  memory: memory | null; // null: the profile does not tell
  actions: action[];
  summary: { problem: string; next: string }; // lines; a tab after each figure that stands in a column of its own
  quality: {
    other_faults: number; unseen_faults: number; lost_events: number; unwind_error_rate: number;
    unwind_checked: number; damage: string; detailed_sites: number;
  };
  difference?: difference;
  processes?: { name: string; cost_ns: number; has_data: boolean }[]; // of a merged profile, the costliest first
}

export const enum kind { site, rest, outside }

export interface metric { id: string; label: string; head: string; what: unit; columns: string[]; help: string; variance?: string[] } // head: in tables, where room is short; variance: of the sampling

export const metrics: metric[] = [
  { id: "cost", label: "True cost", head: "True cost", what: "ns", columns: ["malloc_ns", "fault_ns", "unmap_ns"],
    variance: ["malloc_variance", "kernel_variance"], help: "Time in malloc and free, and what the kernel does for it afterwards" },
  { id: "hidden", label: "Hidden cost", head: "Hidden", what: "ns", columns: ["fault_ns", "unmap_ns"],
    variance: ["kernel_variance"], help: "What a timer around malloc and free does not see: first touches, zeroing, unmapping" },
  { id: "malloc", label: "Malloc time", head: "Malloc", what: "ns", columns: ["malloc_ns"],
    variance: ["malloc_variance"], help: "User time in malloc and free, by the price list" },
  { id: "bytes", label: "Bytes requested", head: "Requested", what: "bytes", columns: ["bytes"], variance: ["bytes_variance"], help: "Asked for over the whole run" },
  { id: "allocations", label: "Allocations", head: "Calls", what: "count", columns: ["allocations"], variance: ["allocations_variance"], help: "Successful calls" },
  { id: "live", label: "Live at the end", head: "At the end", what: "bytes", columns: ["live_bytes"],
    help: "Asked for and not freed when the program ended" },
  { id: "peak", label: "Live at the peak", head: "At the peak", what: "bytes", columns: ["bytes_at_peak"],
    help: "Live at the moment when the whole program's live bytes were highest" },
  { id: "temporary", label: "Temporary allocations", head: "Temporary", what: "count", columns: ["lifo_frees"],
    help: "Freed by the thread that allocated them, before it allocated or freed another block" },
  { id: "faults", label: "Page faults", head: "Faults", what: "count", columns: ["faults"], variance: ["faults_variance"], help: "On blocks of the site" },
  { id: "untouched", label: "Untouched bytes", head: "Untouched", what: "bytes", columns: ["untouched_bytes"],
    help: "In blocks that were freed: asked for, and not in memory then" },
];

// Of the selected part of the run; only where the profile has every call.
export const span_metrics: metric[] = [
  { id: "span_bytes", label: "Requested in the selection", head: "Requested in it", what: "bytes", columns: ["span_bytes"], help: "In the part of the run that is selected in the timeline" },
  { id: "span_calls", label: "Allocations in the selection", head: "Calls in it", what: "count", columns: ["span_calls"], help: "In the part of the run that is selected in the timeline" },
  { id: "span_grown", label: "Growth in the selection", head: "Growth in it", what: "bytes", columns: ["span_grown"], help: "Live at the end of the selection, and not at its beginning; 0 where it shrank" },
];

const sample_metric: metric = { id: "samples", label: "Samples", head: "Samples", what: "count", columns: ["samples"], help: "" };

export function metric_of(id: string): metric {
  return [...metrics, ...span_metrics].find((one) => one.id === id) ?? (id === "samples" ? sample_metric : metrics[0]!);
}

export class model {
  readonly rows: number;
  private readonly cached = new Map<string, Float64Array>();
  private readonly shorts = new Map<number, string>();

  constructor(readonly data: report) {
    this.rows = data.sites.kind!.length;
    if (data.slices) this.select_slices(0, data.slices.end_ns.length);
  }

  // Sums the slices from..to-1 (indices) into the columns of span_metrics.
  select_slices(from: number, to: number): void {
    const { slice, row, allocations, bytes, grown } = this.data.slices!;
    const sums = { span_calls: new Array<number>(this.rows).fill(0), span_bytes: new Array<number>(this.rows).fill(0),
      span_grown: new Array<number>(this.rows).fill(0) };
    slice.forEach((at, cell) => {
      if (at < from || at >= to) return;
      sums.span_calls[row[cell]!]! += allocations[cell]!;
      sums.span_bytes[row[cell]!]! += bytes[cell]!;
      sums.span_grown[row[cell]!]! += grown[cell]!;
    });
    sums.span_grown = sums.span_grown.map((one) => Math.max(0, one));
    for (const [name, column] of Object.entries(sums)) {
      this.data.sites[name] = column;
      this.data.totals[name] = column.reduce((so_far, one) => so_far + one, 0);
      this.cached.delete(name);
    }
  }

  text(number: number): string { return this.data.strings[number] ?? ""; }
  figure(row: number, column: string): number { return this.data.sites[column]![row] ?? 0; }
  total(column: string): number { return this.data.totals[column] ?? 0; }
  kind_of(row: number): kind { return this.data.sites.kind![row]!; }
  type_of(row: number): string { return this.text(this.data.sites.type![row]!); }

  // One value per row.
  values(of: metric): Float64Array {
    let made = this.cached.get(of.id);
    if (!made) {
      made = new Float64Array(this.rows);
      for (const name of of.columns) {
        const column = this.data.sites[name]!;
        for (let row = 0; row < this.rows; ++row) made[row]! += column[row]!;
      }
      this.cached.set(of.id, made);
    }
    return made;
  }
  value(row: number, id: string): number { return this.values(metric_of(id))[row]!; }
  // Of the sampling; 0 where the figure is exact, or its error not known.
  variance(row: number, id: string): number {
    return (metric_of(id).variance ?? []).reduce((sum, name) => sum + (this.data.sites[name]?.[row] ?? 0), 0);
  }
  total_of(of: metric): number { return of.columns.reduce((sum, name) => sum + this.total(name), 0); }

  // Frames of a row's call path, innermost first.
  frames_of(row: number): number[] {
    const found: number[] = [];
    for (let node = this.data.sites.stack![row]!; node !== 0; node = this.data.stacks.parent[node]!) {
      found.push(this.data.stacks.frame[node]!);
    }
    return found;
  }
  function_of(frame: number): string { return this.text(this.data.frames.function[frame]!); }
  module_of(frame: number): string { return this.text(this.data.frames.module[frame]!); }
  place_of(frame: number): string {
    const file = this.text(this.data.frames.file[frame]!);
    const line = this.data.frames.line[frame]!;
    return file === "" ? "" : line > 0 ? `${file}:${line}` : file;
  }
  short_of_text(number: number): string {
    let made = this.shorts.get(number);
    if (made === undefined) {
      made = short_name(this.text(number));
      this.shorts.set(number, made);
    }
    return made;
  }
  short_of(frame: number): string { return this.short_of_text(this.data.frames.function[frame]!); }
  // Whether what a reader looks for stands further out, in the code that called this function.
  in_library(frame: number): boolean { return this.data.frames.library[frame] === 1; }

  // The frame that a row is called by: the innermost that does not allocate for others; -1 where there is none at all.
  place(row: number): number { return this.data.sites.place![row]!; }
  title_of(row: number): string {
    if (this.kind_of(row) === kind.outside) return "Outside of malloc's blocks";
    const frame = this.place(row);
    if (frame >= 0) return this.short_of(frame);
    return this.kind_of(row) === kind.rest ? "Smaller sites" : "Unknown call path";
  }
  // The next functions outside of a row's place, each once where a compiler has split or a function has called itself.
  callers_of(row: number, most: number): string[] {
    const frames = this.frames_of(row);
    const place = this.place(row);
    const at = frames.findIndex((frame) => frame === place || (place in this.data.nameless &&
      this.function_of(frame).startsWith("?? (") && this.module_of(frame) === this.module_of(place)));
    const names = frames.slice(at).map((frame) => this.short_of(frame));
    return names.filter((name, index) => index > 0 && name !== names[index - 1]).slice(0, most);
  }
  // The whole of all shares of times: the program's processor time without the recorder's; 0 where it was not recorded.
  cpu_ns(): number { return this.data.whole.processor_ns; }
}
