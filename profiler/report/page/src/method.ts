// SPDX-License-Identifier: MIT
// method: how the figures were made and what limits them; and what this page is made of.
import { el, section } from "./dom";
import type { model } from "./model";
import { exact, show_bytes, show_count, show_ns, show_share } from "./units";
import third_party from "../THIRD-PARTY.txt";

const modes = {
  full: "full: every call was recorded, so that counts are exact.",
  sample: "sample: blocks were sampled by their bytes; counts and bytes of sites are estimates, each from its samples.",
  faults: "faults: page faults only, without looking at malloc; works for programs of any language and linkage.",
};

function text_of(m: model, name: string): string {
  const value = m.data.meta[name];
  if (value === undefined || value === null) return "";
  if (typeof value !== "object") return String(value);
  return Object.entries(value).map(([key, one]) => `${key} ${String(one)}`).join(", "); // {"signal": 11}
}
function number_of(m: model, name: string): number {
  const value = m.data.meta[name];
  return typeof value === "number" ? value : 0;
}

// As a shell would take it.
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export function show_program(m: model): void {
  const place = document.getElementById("program")!;
  const words = Array.isArray(m.data.meta.arguments) ? m.data.meta.arguments.map(String) : [];
  const program = text_of(m, "program");
  const command = words.length > 0 ? words.map(quoted).join(" ") : program;
  const start = number_of(m, "start");
  const facts = [
    start > 0 ? new Date(start * 1000).toISOString().replace("T", " ").slice(0, 16) + " UTC" : "",
    number_of(m, "duration_ns") > 0 ? `ran for ${show_ns(number_of(m, "duration_ns"))}` : "",
    number_of(m, "processes") > 1 ? `${number_of(m, "processes")} processes` : text_of(m, "pid") ? `process ${text_of(m, "pid")}` : "", `mode ${m.data.mode}`,
    text_of(m, "allocator") ? `malloc: ${text_of(m, "allocator")}` : ""];
  place.append(el("h1", { title: program }, (words[0] || program).replace(/^.*\//, "") || "A program"),
    el("p", { class: "command" }, el("code", {}, command)), el("p", { class: "facts" }, facts.filter(Boolean).join(" · ")));
  if (m.data.quality.damage) {
    place.append(el("p", { class: "notice", role: "alert" }, `The profile's file is damaged: ${m.data.quality.damage}. What could be read is shown; ` +
      "figures may be too low."));
  }
  const lost = m.data.quality.lost_events;
  if (lost > 0) {
    place.append(el("p", { class: "notice", role: "alert" }, `${show_count(lost)} events were lost: figures are too low, and some blocks may seem to ` +
      "live for ever."));
  }
}

function quality_rows(m: model): [string, string][] {
  const { quality } = m.data;
  const faults = m.total("faults");
  const rows: [string, string][] = [["Mode", modes[m.data.mode]]];
  if (m.data.mode === "sample") {
    rows.push(["Sampling", `every ${show_bytes(number_of(m, "sample_bytes"))} on average` +
      (number_of(m, "fault_period") > 1 ? `; one page fault in ${number_of(m, "fault_period")}` : "")]);
    rows.push(["Samples behind the figures", show_count(m.total("samples"))]);
  }
  rows.push(["Privilege", text_of(m, "privilege") || "not recorded"]);
  rows.push(["Events lost", quality.lost_events > 0 ? exact(quality.lost_events, "count") : "none"]);
  rows.push(["Unwinding", quality.unwind_checked > 0
    ? `${show_share(quality.unwind_error_rate, 1)} of ${show_count(quality.unwind_checked)} call paths that were checked were wrong`
    : "not checked"]);
  rows.push(["Faults outside of blocks", `${show_count(quality.other_faults)} on stacks, images and the allocator's own data` +
    `, ${show_share(quality.other_faults, faults)} of all`]);
  rows.push(["Faults that were not seen", `${show_count(quality.unseen_faults)}, ${show_share(quality.unseen_faults, faults)} of all: counted, but not ` +
    "to be assigned"]);
  rows.push(["File", quality.damage ? `damaged: ${quality.damage}` : "whole"]);
  return rows;
}

function price_rows(m: model): [string, string][] {
  const names: [string, string][] = [["fault", "First touch of a page"], ["huge_fault", "First touch of a huge page"],
    ["costly_fault", "First touch of memory the host must back"], ["unmap_page", "Returning a page to the system"],
    ["zero_page", "Zeroing a page"], ["malloc_pair", "malloc and free of 64 bytes"]];
  return names.filter(([id]) => (m.data.prices[id] ?? 0) > 0).map(([id, name]) => [name, show_ns(m.data.prices[id]!)]);
}

function system_rows(m: model): [string, string][] {
  const names: [string, string][] = [["allocator", "malloc"], ["kernel", "Kernel"], ["thp", "Transparent huge pages"],
    ["page_bytes", "Page size, bytes"], ["exit", "End of the program"], ["tarn_version", "tarn"]];
  return names.map(([id, name]) => [name, text_of(m, id)] as [string, string]).filter(([, value]) => value !== "");
}

function list(heading: string, rows: [string, string][]): HTMLElement {
  const made = el("dl", { class: "pairs wide" });
  for (const [name, value] of rows) made.append(el("dt", {}, name), el("dd", {}, value));
  return el("div", {}, el("h3", {}, heading), made);
}

export function show_method(m: model): void {
  const place = section("method", "How it was measured, and what limits it");
  const refused = Array.isArray(m.data.meta.refused) ? m.data.meta.refused.map(String) : [];
  place.append(
    el("p", {}, "The true cost of a site is its time in malloc and free, plus the first touch of the pages under its blocks, plus giving " +
      "them back, each at this machine's price. Page faults belong to the site that allocated the block, wherever the program touched it."),
    el("div", { class: "columns" }, list("Quality", quality_rows(m)), list("Price list, measured before the run", price_rows(m)),
      list("System", system_rows(m))));
  if (refused.length > 0) {
    place.append(el("h3", {}, "What the system refused"), el("ul", {}, ...refused.map((one) => el("li", {}, one))));
  }
  const named = m.data.sites.kind!.filter((one) => one === 0).length;
  const all = m.total("sites");
  const detailed = m.data.quality.detailed_sites;
  place.append(el("p", { class: "quiet" },
    named < all ? `${named.toLocaleString("en-US")} of ${all.toLocaleString("en-US")} sites are named one by one; the others are in the sums as one row. `
      : `All ${all.toLocaleString("en-US")} sites are named one by one. `,
    detailed < named ? `Sizes, lifetimes and threads are there for the ${detailed.toLocaleString("en-US")} most expensive ones.` : ""));
}

export function show_about(): void {
  const place = section("about", "About this page");
  place.append(el("p", {}, "Made by tarn report. The page needs no network; its content security policy forbids access to it."),
    el("details", {}, el("summary", {}, "Licences of what it contains"), el("pre", { class: "licences" }, third_party)));
}
