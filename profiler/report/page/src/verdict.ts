// SPDX-License-Identifier: MIT
// verdict: the first screen. What the terminal's summary says, in its words and figures: whether memory is the problem, and
// where; beside it what to do. Then what the cost consists of, and key figures.
import { bar, button, el, section } from "./dom";
import { type action, metric_of, type model } from "./model";
import { state } from "./state";
import { exact, narrow, show_bytes, show_share } from "./units";

interface part { id: string; label: string; column: string }

const parts: part[] = [
  { id: "malloc", label: "in malloc and free", column: "malloc_ns" },
  { id: "fault", label: "first touch of pages", column: "fault_ns" },
  { id: "unmap", label: "returning pages to the system", column: "unmap_ns" },
];

// No line breaks between a figure, its margin and its unit.
const whole_units = (text: string): string =>
  text.replace(/(\d) (?=(?:%|B|[KMGT]iB|ns|us|ms|s)(?![\w/]))/g, `$1${narrow}`).replaceAll(" ± ", "\u00a0±\u00a0");

const sentence_case = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

// A line of the summary with figures in columns: the first two stay columns, others stand below the name.
function figure_row(cells: string[]): HTMLElement {
  const text = cells.at(-1)!;
  const figures = cells.slice(0, -1).map((one) => one.trim());
  while (figures.length < 2) figures.unshift("");
  const more = figures.slice(2).filter(Boolean).join(", ");
  return el("tr", {}, ...figures.slice(0, 2).map((one) => el("td", {}, whole_units(one))),
    el("th", { scope: "row", class: text.startsWith("  ") ? "part" : "" }, el("span", { class: "name" }, whole_units(text.trim())),
      more ? el("span", { class: "sub" }, whole_units(more)) : null));
}

// The summary's lines: sentences; and rows of figures, which stand together, each with the hint that follows it.
function problem(m: model): HTMLElement {
  const place = el("div", { class: "problem" });
  let rows: HTMLElement | null = null;
  m.data.summary.problem.split("\n").filter(Boolean).forEach((line, index) => {
    const cells = line.split(/\t/);
    const is_hint = /^ {10}/.test(line);
    if (cells.length > 1) {
      if (rows === null) {
        rows = el("tbody", {});
        place.append(el("table", { class: "where" }, el("caption", { class: "quiet" }, "Where"), rows));
      }
      rows.append(figure_row(cells));
    } else if (is_hint && rows !== null) {
      const [, head, rest] = /^([^:]{1,40}): (.*)$/.exec(line.trim()) ?? ["", "no name", line.trim()];
      rows.lastElementChild?.lastElementChild?.append(el("details", { class: "sub" }, el("summary", {}, head), rest));
    } else {
      rows = null;
      const text = whole_units(line.trim());
      place.append(el("p", { class: index === 0 ? "lead" : "" }, sentence_case(text)));
    }
  });
  return place;
}

// What the cost consists of; its amounts are in the summary.
function cost_bar(m: model): HTMLElement | null {
  const cost = m.total_of(metric_of("cost"));
  if (cost === 0) return null;
  const track = el("span", { class: "stack", "aria-hidden": "true" });
  const legend = el("ul", { class: "legend" });
  for (const one of parts) {
    const value = m.total(one.column);
    const fill = el("i", { class: `part-${one.id}` });
    fill.style.width = `${(100 * value) / cost}%`;
    track.append(fill);
    legend.append(el("li", { title: exact(value, "ns"), "data-part": one.id, "data-value": value },
      el("i", { class: `part-${one.id}`, "aria-hidden": "true" }), `${one.label}: `, el("strong", {}, show_share(value, cost))));
  }
  const hidden = m.total_of(metric_of("hidden"));
  return el("div", { class: "split" }, el("h3", {}, "What the cost consists of"), track, legend,
    el("p", { class: "quiet" }, `A timer around malloc and free sees the first part; it misses ${show_share(hidden, cost)}.`));
}

function key_figures(m: model): HTMLElement {
  const { resident_bytes } = m.data.counters;
  const told = Number(m.data.meta.peak_resident_bytes) || 0;
  const peak_resident = (resident_bytes ?? []).reduce((most, one) => Math.max(most, one), told);
  const checked = m.total("checked_bytes");
  const untouched = m.total("untouched_bytes");
  const figures: [string, string, string][] = [
    ["Live at the peak", show_bytes(m.total("bytes_at_peak")), exact(m.total("bytes_at_peak"), "bytes")],
    ["Live at the end", show_bytes(m.total("live_bytes")), exact(m.total("live_bytes"), "bytes")],
    ["Peak resident", peak_resident > 0 ? show_bytes(peak_resident) : "–", exact(peak_resident, "bytes")],
    ["Never touched", checked > 0 ? show_share(untouched, checked) : "–",
      `${exact(untouched, "bytes")} of ${exact(checked, "bytes")} that were looked at`],
  ];
  const list = el("dl", { class: "figures" });
  for (const [name, value, title] of figures) {
    list.append(el("div", { title }, el("dt", {}, name), el("dd", {}, value)));
  }
  return list;
}

// Why, with the evidence, and how; closed, so that all of what can be done fits on the first screen.
function reasons(one: action): HTMLElement | null {
  if (one.evidence.length === 0 && !one.change && !one.reason) return null;
  return el("details", {}, el("summary", {}, one.change ? "Why, and how" : "Why"),
    one.reason ? el("p", {}, one.reason) : null,
    one.evidence.length > 0 ? el("ul", {}, ...one.evidence.map((line) => el("li", {}, line))) : null,
    one.change ? el("pre", {}, one.change) : null);
}

function action_item(one: action): HTMLElement {
  const row = one.site;
  const figures = el("p", { class: "action-figures" },
    one.figures && !one.headline.includes(one.figures) ? el("span", {}, one.share > 0 ? bar(one.share) : null, el("strong", {}, whole_units(one.figures))) : null,
    one.who ? el("span", { class: "grade" }, one.who) : null,
    one.instead_of === null ? null : el("span", { class: "grade" }, `instead of ${one.instead_of + 1}: not both`),
    row === null ? null : button(one.sites > 1 ? `Show the most expensive of its ${one.sites} sites` : "Show the site",
      () => state.reveal(row), { class: "link" }));
  return el("li", {}, el("p", { class: "action-title" }, one.headline), one.leaves ? null : figures, reasons(one));
}

function actions(m: model): HTMLElement {
  const place = el("div", { class: "actions" },
    el("h3", {}, m.data.trouble.is_memory ? "What to do about its time" : "What to do"));
  const items = m.data.actions.map((one) => action_item(one));
  if (items.length === 0) place.append(el("p", {}, "Leave it: no change was found that would be worth the effort."));
  const most = 5;
  const list = el("ol", {}, ...items.slice(0, most));
  place.append(list);
  if (items.length > most) {
    const more = button(`Show ${items.length - most} more`, () => {
      list.append(...items.slice(most));
      more.remove();
    });
    place.append(more);
  }
  for (const line of m.data.summary.next.split("\n").filter(Boolean)) place.append(el("p", {}, sentence_case(whole_units(line.trim()))));
  return place;
}

export function show_verdict(m: model): void {
  const place = section("verdict", "Summary");
  place.append(el("div", { class: "first" }, problem(m), actions(m)), cost_bar(m) ?? "", key_figures(m));
}
