// SPDX-License-Identifier: MIT
// difference: what changed since an earlier recording, in total and by call path, with the interval of each change. Figures and
// intervals are those of `tarn diff`.
import { choice, el, replace, section } from "./dom";
import type { changed, difference, model } from "./model";
import { short_name } from "./names";
import { data_table } from "./table";
import { exact, narrow, show } from "./units";

interface change { before: number; after: number; margin: number }

const at = (of: changed, row: number): change => ({ before: of.before[row]!, after: of.after[row]!, margin: of.margin[row]! });
const amount = (one: change): number => one.after - one.before;
const is_certain = (one: change): boolean => Math.abs(amount(one)) > one.margin;

function percent(one: change): string {
  if (one.before === 0) return one.after === 0 ? "–" : "new";
  if (one.after === 0) return "gone";
  const value = (100 * amount(one)) / one.before;
  return `${value < 0 ? "-" : "+"}${Math.abs(value).toFixed(1)}${narrow}%`;
}
function interval(one: change): string {
  if (one.before === 0) return "";
  const value = (100 * one.margin) / one.before;
  return one.margin === 0 ? "exact" : value > 100 ? `± >100${narrow}%` : `± ${value.toFixed(1)}${narrow}%`;
}
const signed = (value: number, text: string): string => `${value < 0 ? "-" : "+"}${text}`;
// More of any of these figures is worse.
const mood = (one: change): string => (!is_certain(one) ? "chance" : amount(one) > 0 ? "worse" : "better");

class difference_view {
  private readonly found: difference;
  private metric = 0;
  private readonly place = el("div", {});

  constructor(m: model, place: HTMLElement) {
    this.found = m.data.difference!;
    const used = this.found.metrics.map((one, index) => ({ value: String(index), text: `${one.name}: ${one.meaning}`,
      disabled: at(this.found.totals[one.name]!, 0).before === 0 && at(this.found.totals[one.name]!, 0).after === 0 }));
    place.append(this.totals(),
      el("div", { class: "controls" }, choice("By call path", used, "0", (value) => { this.metric = Number(value); this.draw(); })), this.place);
    this.draw();
  }

  private totals(): HTMLElement {
    const rows = this.found.metrics.map(({ name, unit, meaning }) => {
      const one = at(this.found.totals[name]!, 0);
      return el("tr", { title: meaning }, el("th", { scope: "row" }, name), el("td", {}, show(one.before, unit)), el("td", {}, show(one.after, unit)),
        el("td", { class: mood(one), "data-change": name, "data-value": amount(one) }, percent(one)), el("td", {}, interval(one)));
    });
    return el("div", { class: "scroll" }, el("table", { class: "totals" }, el("caption", { class: "quiet" }, "Totals before and after"),
      el("thead", {}, el("tr", {}, ...["", "Before", "After", "Change", "Interval"].map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, ...rows)));
  }

  private name(row: number): HTMLElement[] {
    const { sites, strings } = this.found;
    const file = strings[sites.file[row]!]!.replace(/^.*\//, "");
    const callers = strings[sites.callers[row]!]!.replaceAll(" < ", " ‹ ");
    const line = sites.line[row]!;
    const place = [file === "" ? "" : line > 0 ? `${file}:${line}` : file, callers && `‹ ${callers}`, strings[sites.type[row]!]];
    return [el("span", { class: "name" }, short_name(strings[sites.function[row]!]!)), el("span", { class: "sub" }, place.filter(Boolean).join(" "))];
  }

  private draw(): void {
    const { name, unit } = this.found.metrics[this.metric]!;
    const values = this.found.sites.values[name]!;
    const others = at(this.found.others.values[name]!, 0);
    const of = (row: number) => at(values, row);
    const sum = (rows: readonly number[], value: (one: change) => number) => rows.reduce((so_far, row) => so_far + value(of(row)), 0);
    const table = new data_table({
      caption: "Call paths that changed", sort: "change", piece: 20,
      columns: [
        { id: "name", label: "Call path", text: true, sort_by: (row) => this.found.strings[this.found.sites.function[row]!]!.toLowerCase(),
          cell: (row) => this.name(row), title: (row) => this.found.strings[this.found.sites.function[row]!]!,
          sum: (rows) => `${rows.length.toLocaleString("en-US")} call paths` },
        { id: "change", label: "Change", help: "By the greatest change; what may be chance stands at the end",
          sort_by: (row) => Math.abs(amount(of(row))), is_uncertain: (row) => !is_certain(of(row)),
          cell: (row) => el("span", { class: mood(of(row)) }, signed(amount(of(row)), show(Math.abs(amount(of(row))), unit))),
          title: (row) => exact(amount(of(row)), unit), sum: (rows) => { const all = sum(rows, amount); return signed(all, show(Math.abs(all), unit)); } },
        { id: "before", label: "Before", sort_by: (row) => of(row).before, cell: (row) => show(of(row).before, unit),
          sum: (rows) => show(sum(rows, (one) => one.before), unit) },
        { id: "after", label: "After", sort_by: (row) => of(row).after, cell: (row) => show(of(row).after, unit),
          sum: (rows) => show(sum(rows, (one) => one.after), unit) },
        { id: "percent", label: "Percent", sort_by: (row) => (of(row).before > 0 ? amount(of(row)) / of(row).before : Number.MAX_VALUE),
          cell: (row) => percent(of(row)) },
        { id: "interval", label: "Interval", help: "In 95 of 100 cases", sort_by: (row) => of(row).margin, cell: (row) => interval(of(row)) },
      ],
    });
    table.set_rows(Array.from({ length: this.found.sites.line.length }, (_, row) => row).filter((row) => of(row).before > 0 || of(row).after > 0));
    replace(this.place, table.element, this.found.others.count === 0 ? null
      : el("p", { class: "quiet" }, `${this.found.others.count.toLocaleString("en-US")} more call paths, whose change may be chance: ` +
        `${show(others.before, unit)} before, ${show(others.after, unit)} after.`));
  }
}

export function show_difference(m: model): void {
  const place = document.getElementById("difference")!;
  if (!m.data.difference) {
    place.remove();
    document.querySelector('nav a[href="#difference"]')?.remove();
    return;
  }
  const [before, after] = m.data.difference.recordings;
  section("difference", "What changed", `${before} earlier recording${before === 1 ? "" : "s"}, ${after} later. A change whose interval holds zero may be chance. ` +
    "All other sections are of the later recording.");
  void new difference_view(m, place);
}
