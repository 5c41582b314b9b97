// SPDX-License-Identifier: MIT
// memory: what resident memory consisted of at the live peak, by kind, without remainder; each kind with its largest
// sites or files.
import { bar, el, section } from "./dom";
import type { memory_part, model } from "./model";
import { short_name } from "./names";
import { exact, show_bytes, show_estimate, show_ns, show_share } from "./units";

function part_row(part: memory_part): HTMLElement {
  const file = part.file.slice(part.file.lastIndexOf("/") + 1);
  const place = file === "" ? "" : part.line > 0 ? `${file}:${part.line}` : file;
  return el("li", { title: part.name },
    el("strong", { title: exact(part.bytes, "bytes") }, show_estimate(part.bytes, part.variance, "bytes")), " ",
    part.name.startsWith("/") ? part.name : short_name(part.name), place === "" ? null : el("span", { class: "quiet" }, `  ${place}`));
}

export function show_memory(m: model): void {
  const place = section("memory", "Where the memory is");
  const memory = m.data.memory;
  if (memory === null) {
    const is_merged = (m.data.processes ?? []).length > 0 || "processes" in m.data.meta;
    place.append(el("p", { class: "empty" }, is_merged
      ? "A merged profile does not tell: its processes had most memory at different moments, and share pages that each of them counts. " +
        "The report of each process's own file shows it."
      : "This recording does not contain what resident memory consisted of."));
    return;
  }
  const sum = memory.kinds.reduce((so_far, kind) => so_far + kind.bytes, 0);
  place.append(el("p", {}, `At ${show_ns(memory.time_ns)}, ${m.data.trouble.kind === "death" && m.data.trouble.is_memory ? "the last reading" : "when most was in use"}, ` +
    `${show_bytes(memory.resident_bytes)} were resident` +
    (memory.untouched > 0 ? `, without ${show_bytes(memory.untouched)} of live blocks that were never touched` : "") + ":"));
  const rows = memory.kinds.filter((kind) => kind.bytes > 0).map((kind) => el("tr", { "data-kind": kind.name },
    el("td", { class: "number", title: exact(kind.bytes, "bytes"), "data-value": kind.bytes }, show_bytes(kind.bytes)),
    el("td", { class: "number" }, show_share(kind.bytes, sum)),
    el("td", {}, bar(sum > 0 ? kind.bytes / sum : 0)),
    el("td", {}, kind.parts.length === 0 ? kind.text
      : el("details", {}, el("summary", {}, kind.text), el("ul", {}, ...kind.parts.map(part_row))))));
  place.append(el("div", { class: "scroll" }, el("table", { id: "memory-table" },
    el("caption", { class: "quiet" }, "Resident memory by kind"),
    el("thead", {}, el("tr", {}, ...["Bytes", "Share", "", "What"].map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, ...rows),
    el("tfoot", {}, el("tr", {}, el("td", { class: "number", "data-value": sum }, show_bytes(sum)), el("td", {}), el("td", {}),
      el("td", {}, "sum of all mappings"))))));
}
