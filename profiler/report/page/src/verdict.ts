// SPDX-License-Identifier: MIT
// verdict: what allocation costs, beside what a timer around malloc and free would have said; key figures; and what to
// do about it.
import { bar, button, el, replace, section } from "./dom";
import { type action, metric_of, type model } from "./model";
import { state } from "./state";
import { exact, show_bytes, show_count, show_estimate, show_ns, show_share } from "./units";

interface part { id: string; label: string; column: string }

const parts: part[] = [
  { id: "malloc", label: "in malloc and free", column: "malloc_ns" },
  { id: "fault", label: "first touch of pages", column: "fault_ns" },
  { id: "unmap", label: "returning pages to the system", column: "unmap_ns" },
];

function stacked_bar(label: string, shown: part[], m: model, whole: number): HTMLElement {
  const track = el("span", { class: "stack", "aria-hidden": "true" });
  for (const one of shown) {
    const fill = el("i", { class: `part-${one.id}` });
    fill.style.width = `${whole > 0 ? (100 * m.total(one.column)) / whole : 0}%`;
    track.append(fill);
  }
  const sum = shown.reduce((so_far, one) => so_far + m.total(one.column), 0);
  return el("div", { class: "split" }, el("span", { class: "split-label" }, label), track,
    el("strong", { title: exact(sum, "ns") }, show_ns(sum)));
}

function sentence(m: model): HTMLElement {
  const cost = m.total_of(metric_of("cost"));
  const hidden = m.total_of(metric_of("hidden"));
  const cpu = m.cpu_ns();
  const line = el("p", { class: "lead" });
  if (cost === 0) {
    replace(line, "No cost of memory allocation was recorded.");
    return line;
  }
  line.append("Memory allocation costs ", el("strong", {}, show_estimate(cost, m.data.whole.cost_variance, "ns")));
  if (cpu > 0) line.append(`, ${show_share(cost, cpu, 1.96 * Math.sqrt(m.data.whole.cost_variance))} of ${show_ns(cpu)} of CPU time`);
  line.append(hidden * 100 < cost
    ? ". A timer around malloc and free would have seen nearly all of it."
    : `. A timer around malloc and free misses ${show_share(hidden, cost)} of it: ${show_ns(hidden)} in the kernel.`);
  return line;
}

function key_figures(m: model): HTMLElement {
  const { resident_bytes } = m.data.counters;
  const peak_resident = (resident_bytes ?? []).reduce((most, one) => Math.max(most, one), 0);
  const checked = m.total("checked_bytes");
  const untouched = m.total("untouched_bytes");
  const figures: [string, string, string][] = [
    ["Allocations", show_estimate(m.total("allocations"), m.data.whole.allocations_variance, "count"), exact(m.total("allocations"), "count")],
    ["Requested", show_estimate(m.total("bytes"), m.data.whole.bytes_variance, "bytes"), exact(m.total("bytes"), "bytes")],
    ["Live at the peak", show_bytes(m.total("bytes_at_peak")), exact(m.total("bytes_at_peak"), "bytes")],
    ["Live at the end", show_bytes(m.total("live_bytes")), exact(m.total("live_bytes"), "bytes")],
    ["Peak resident", peak_resident > 0 ? show_bytes(peak_resident) : "–", exact(peak_resident, "bytes")],
    ["Page faults", show_count(m.total("faults")), exact(m.total("faults"), "count")],
    ["Never touched", checked > 0 ? show_share(untouched, checked) : "–",
      `${exact(untouched, "bytes")} of ${exact(checked, "bytes")} that were looked at`],
  ];
  const list = el("dl", { class: "figures" });
  for (const [name, value, title] of figures) {
    list.append(el("div", { title }, el("dt", {}, name), el("dd", {}, value)));
  }
  return list;
}

function evidence(one: action): HTMLElement | null {
  if (one.evidence.length === 0 && !one.change) return null;
  return el("details", {}, el("summary", {}, one.change ? "Evidence, and how" : "Evidence"),
    one.evidence.length > 0 ? el("ul", {}, ...one.evidence.map((line) => el("li", {}, line))) : null,
    one.change ? el("pre", {}, one.change) : null);
}

function action_item(one: action): HTMLElement {
  const figures = el("p", { class: "action-figures" },
    one.figures ? el("span", {}, bar(one.share), el("strong", {}, one.figures)) : null,
    one.who ? el("span", { class: "grade" }, one.who) : null,
    one.instead_of === null ? null : el("span", {}, `instead of ${one.instead_of + 1}: not both`));
  const row = one.site;
  return el("li", {}, el("p", { class: "action-title" }, one.headline), one.leaves ? null : figures,
    one.reason ? el("p", {}, one.reason) : null, evidence(one),
    row === null ? null : button(one.sites > 1 ? `Show the most expensive of its ${one.sites} sites` : "Show the site",
      () => state.reveal(row), { class: "link" }));
}

function actions(m: model): HTMLElement {
  const place = el("div", { class: "actions" }, el("h3", {}, "What to do"));
  if (m.data.actions.length === 0) {
    place.append(el("p", {}, "Leave it: no change was found that would be worth the effort."));
    return place;
  }
  const items = m.data.actions.map((one) => action_item(one));
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
  return place;
}

export function show_verdict(m: model): void {
  const place = section("verdict", "What memory allocation costs");
  const cost = m.total_of(metric_of("cost"));
  const split = el("div", { class: "splits" },
    stacked_bar("A timer around malloc and free", parts.slice(0, 1), m, cost),
    stacked_bar("True cost", parts, m, cost));
  const legend = el("ul", { class: "legend" });
  for (const one of parts) {
    const value = m.total(one.column);
    legend.append(el("li", { title: exact(value, "ns") }, el("i", { class: `part-${one.id}`, "aria-hidden": "true" }),
      `${one.label}: `, el("strong", {}, show_ns(value)), ` ${show_share(value, cost)}`));
  }
  const { kind, sentence: trouble } = m.data.trouble;
  if (kind !== "time" && trouble !== "") place.append(el("p", { class: "lead" }, `${trouble.slice(0, 1).toUpperCase()}${trouble.slice(1)}.`));
  place.append(sentence(m), split, legend, key_figures(m), actions(m));
}
