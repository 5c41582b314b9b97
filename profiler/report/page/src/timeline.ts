// SPDX-License-Identifier: MIT
// timeline: resident and live memory, and page faults, over time; a part of it can be selected, by dragging or by two
// sliders, and shows its figures.
import uPlot from "uplot";
import { button, el, section } from "./dom";
import type { model } from "./model";
import { state } from "./state";
import { colour, on_theme_change } from "./theme";
import { show_bytes, show_count, show_ns, show_share } from "./units";

const memory_height = 200;
const faults_height = 130;

// Growth per second up to each row, over at least half a percent of the run: two readings may lie microseconds apart, and a
// rate between these would hide all others.
function rates_of(seconds: number[], totals: number[]): number[] {
  const least = (seconds.at(-1) ?? 0) / 200;
  let first = -1; // the row before the span; -1: the start
  return seconds.map((end, row) => {
    while (first + 1 < row && end - seconds[first + 1]! >= least) ++first;
    const span = end - (first < 0 ? 0 : seconds[first]!);
    return span > 0 ? (totals[row]! - (first < 0 ? 0 : totals[first]!)) / span : 0;
  });
}

class timeline_view {
  private readonly seconds: number[];
  private readonly rates: number[]; // faults per second
  private charts: uPlot[] = [];
  private from = 0; // rows
  private to: number;
  private readonly chart_place = el("div", { class: "charts" });
  private readonly figures = el("div", {});
  private readonly heading = el("h3", { role: "status" });
  private readonly sliders: HTMLInputElement[];
  private timer = 0;
  private is_told = false; // others show a part of the run

  constructor(private readonly m: model, place: HTMLElement) {
    const { time_ns, faults } = m.data.counters;
    this.seconds = time_ns!.map((one) => one / 1e9);
    this.rates = rates_of(this.seconds, faults!);
    this.to = this.seconds.length - 1;
    this.sliders = ["From", "To"].map((label, index) => this.slider(label, index));
    place.append(this.chart_place,
      el("div", { class: "controls" },
        ...this.sliders.map((one, index) => el("label", { class: "field grow" }, el("span", {}, index === 0 ? "From" : "To"), one)),
        button("Whole run", () => this.select(0, this.seconds.length - 1))),
      this.heading, this.figures,
      el("p", { class: "quiet" }, m.data.slices
        ? "The table of call sites and the flame graph follow the selection. They know parts of the run that are as long as " +
          `${show_ns(m.data.slices.end_ns[0]!)}.`
        : "The table of call sites and the flame graph stay those of the whole run: the profile holds sums for each call path, and not " +
          "single calls. tarn profile --mode full records these, and both follow the selection."));
    this.draw();
    on_theme_change(() => this.draw());
    // A click alone clears what the chart shows as selected; what is selected stays.
    this.chart_place.addEventListener("click", () => this.mark());
    this.chart_place.addEventListener("dblclick", () => this.select(0, this.seconds.length - 1));
    new ResizeObserver(() => this.fit()).observe(this.chart_place);
    this.select(0, this.to);
  }

  private slider(label: string, index: number): HTMLInputElement {
    const last = this.seconds.length - 1;
    const made = el("input", { type: "range", min: 0, max: last, step: 1, value: index === 0 ? 0 : last, "aria-label": `${label}, seconds` });
    made.addEventListener("input", () => {
      const value = Number(made.value);
      if (index === 0) this.select(Math.min(value, last - 1), Math.max(this.to, value + 1));
      else this.select(Math.min(this.from, Math.max(0, value - 1)), Math.max(1, value));
    });
    return made;
  }

  private axes(show: (value: number) => string): uPlot.Axis[] {
    const ink = colour("ink-2");
    const grid = { stroke: colour("line"), width: 1 };
    const ticks = { show: false };
    const font = "11px system-ui, sans-serif";
    return [
      { stroke: ink, grid: { show: false }, ticks, font, size: 26, values: (_, values) => values.map((one) => `${one} s`) },
      { stroke: ink, grid, ticks, font, size: 76, values: (_, values) => values.map((one) => (one === 0 ? "0" : show(one))) },
    ];
  }

  private chart(height: number, series: uPlot.Series[], data: number[][], show: (value: number) => string, binary: boolean): uPlot {
    const incrs: number[] = [];
    for (let power = 0; power < 50; ++power) incrs.push(2 ** power);
    const axes = this.axes(show);
    if (binary) axes[1]!.incrs = incrs;
    return new uPlot({
      width: Math.max(200, this.chart_place.clientWidth), height, axes,
      scales: { x: { time: false }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.05 : 1] } },
      series: [{ label: "Time", value: (_, value) => (value === null ? "–" : `${value.toFixed(1)} s`) },
        ...series.map((one) => ({ ...one, value: (_: uPlot, value: number | null) => (value === null ? "–" : show(value)) }))],
      cursor: { sync: { key: "tarn" }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
      legend: { live: true },
      hooks: { setSelect: [(plot) => this.dragged(plot)] },
    }, [this.seconds, ...data] as uPlot.AlignedData, this.chart_place);
  }

  private draw(): void {
    for (const one of this.charts) one.destroy();
    const { resident_bytes, live_bytes } = this.m.data.counters;
    const line = (label: string, name: string, fill = false): uPlot.Series => ({
      label, stroke: colour(name), width: 1.5, points: { show: false }, fill: fill ? colour(`${name}-soft`) : undefined });
    this.charts = [
      this.chart(memory_height, [line("Resident", "resident"), line("Live heap", "malloc", true)],
        [resident_bytes!, live_bytes!], show_bytes, true),
      this.chart(faults_height, [line("Page faults per second", "fault", true)], [this.rates],
        (value) => show_count(value), false),
    ];
    this.mark();
  }

  private fit(): void {
    const width = this.chart_place.clientWidth;
    if (width < 50 || this.charts[0]?.width === width) return;
    this.charts.forEach((one, index) => one.setSize({ width, height: index === 0 ? memory_height : faults_height }));
    this.mark();
  }

  private dragged(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width < 3) return;
    const from = plot.posToIdx(left);
    const to = plot.posToIdx(left + width);
    this.select(from, Math.max(to, from + 1));
  }

  private select(from: number, to: number): void {
    const last = this.seconds.length - 1;
    this.from = Math.max(0, Math.min(from, last - 1));
    this.to = Math.max(this.from + 1, Math.min(to, last));
    this.sliders[0]!.value = String(this.from);
    this.sliders[1]!.value = String(this.to);
    this.sliders[0]!.setAttribute("aria-valuetext", `${this.seconds[this.from]!.toFixed(1)} seconds`);
    this.sliders[1]!.setAttribute("aria-valuetext", `${this.seconds[this.to]!.toFixed(1)} seconds`);
    this.mark();
    this.show_figures();
    this.tell();
  }

  // The table and the flame graph follow, once the selection rests.
  private tell(): void {
    const { slices } = this.m.data;
    clearTimeout(this.timer);
    if (slices === null) return;
    const is_whole = this.from === 0 && this.to === this.seconds.length - 1;
    if (is_whole && !this.is_told) return;
    this.timer = setTimeout(() => {
      const slice_at = (row: number) => this.m.data.counters.time_ns![row]! / slices.end_ns[0]!;
      const last = slices.end_ns.length;
      const first = is_whole ? 0 : Math.min(last - 1, Math.floor(slice_at(this.from)));
      const end = is_whole ? last : Math.max(first + 1, Math.min(last, Math.ceil(slice_at(this.to))));
      this.m.select_slices(first, end);
      this.is_told = !is_whole;
      const seconds = (slice: number) => (slice === 0 ? 0 : slices.end_ns[slice - 1]! / 1e9).toFixed(2);
      state.set_span(is_whole ? null : `${seconds(first)} s to ${seconds(end)} s`,
        (row) => this.m.value(row, "span_calls") > 0 || this.m.value(row, "span_grown") > 0);
    }, 150);
  }

  // The selection, on all charts; none for the whole run.
  private mark(): void {
    const whole = this.from === 0 && this.to === this.seconds.length - 1;
    this.chart_place.classList.toggle("whole", whole);
    for (const one of this.charts) {
      const left = one.valToPos(this.seconds[this.from]!, "x");
      const width = one.valToPos(this.seconds[this.to]!, "x") - left;
      one.setSelect({ left: whole ? 0 : left, width: whole ? 0 : width, top: 0, height: one.bbox.height / devicePixelRatio }, false);
    }
  }

  private show_figures(): void {
    const { counters } = this.m.data;
    const whole = this.from === 0 && this.to === this.seconds.length - 1;
    // The first row stands for all that was before it.
    const before = (name: string) => (this.from === 0 ? 0 : counters[name]![this.from]!);
    const grown = (name: string) => counters[name]![this.to]! - before(name);
    const span = this.seconds[this.to]! - (this.from === 0 ? 0 : this.seconds[this.from]!);
    const most = (name: string) => counters[name]!.slice(this.from, this.to + 1).reduce((high, one) => Math.max(high, one), 0);
    const cpu = grown("user_ns") + grown("system_ns");
    const per_second = (value: number) => `${show_count(value)} (${show_count(value / Math.max(span, 1e-9))} per s)`;
    const rows: [string, string, string][] = [
      ["CPU time, with the recorder's", `${show_ns(cpu)}, ${show_share(grown("system_ns"), cpu)} in the kernel`, "cpu"],
      ["Allocations", per_second(grown("allocations")), "allocations"],
      ["Frees", per_second(grown("frees")), "frees"],
      ["Page faults", per_second(grown("faults")), "faults"],
      ["of them seen by fault events", show_share(grown("seen_faults"), grown("faults")), "seen_faults"],
      ["Faults that read from disk", show_count(grown("major_faults")), "major_faults"],
      ["Resident, from – to – highest", [counters.resident_bytes![this.from]!, counters.resident_bytes![this.to]!, most("resident_bytes")].map(show_bytes).join(" – "), "resident"],
      ["Live heap, from – to – highest", [counters.live_bytes![this.from]!, counters.live_bytes![this.to]!, most("live_bytes")].map(show_bytes).join(" – "), "live"],
    ];
    this.heading.textContent = whole ? `Whole run, ${span.toFixed(1)} s`
      : `${this.seconds[this.from]!.toFixed(1)} s to ${this.seconds[this.to]!.toFixed(1)} s, ${span.toFixed(1)} s`;
    const list = el("dl", { class: "pairs wide" });
    for (const [name, value, id] of rows) list.append(el("dt", {}, name), el("dd", { "data-window": id }, value));
    this.figures.replaceChildren(list);
  }
}

export function show_timeline(m: model): void {
  const place = section("timeline", "Over time", "Drag over a chart, or move the sliders, to select a part of the run.");
  if ((m.data.counters.time_ns?.length ?? 0) < 2) {
    place.append(el("p", { class: "empty" }, "The run was too short for a timeline: fewer than two readings."));
    return;
  }
  void new timeline_view(m, place);
}
