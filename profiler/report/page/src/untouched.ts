// SPDX-License-Identifier: MIT
// untouched: memory that was asked for and never used: it costs address space and rounding, or hides a size that is too
// large.
import { bar, el, section } from "./dom";
import { rows_details } from "./detail";
import type { model } from "./model";
import { data_table } from "./table";
import { exact, show_bytes, show_count, show_share } from "./units";

export function show_untouched(m: model): void {
  const place = section("untouched", "Held but never touched");
  const checked = m.total("checked_bytes");
  const untouched = m.total("untouched_bytes");
  if (checked === 0) {
    place.append(el("p", { class: "empty" }, "No block that was freed was looked at for this."));
    return;
  }
  place.append(el("p", {}, `${show_bytes(untouched)} of ${show_bytes(checked)} in blocks that were looked at when they were freed were not ` +
    `in memory then: ${show_share(untouched, checked)}.`));
  const rows = Array.from({ length: m.rows }, (_, row) => row).filter((row) => m.figure(row, "untouched_bytes") > 0);
  if (rows.length === 0) return;
  const mean = (row: number) => m.figure(row, "bytes") / Math.max(1, m.figure(row, "allocations"));
  const table = new data_table({
    caption: "Sites whose memory is not used", sort: "untouched", piece: 12, details: (row) => rows_details(m, [row]),
    columns: [
      { id: "site", label: "Site", text: true, sort_by: (row) => m.title_of(row).toLowerCase(),
        cell: (row) => el("span", { class: "name" }, m.title_of(row)),
        title: (row) => (m.place(row) >= 0 ? m.function_of(m.place(row)) : ""),
        sum: (shown) => `${shown.length.toLocaleString("en-US")} rows` },
      { id: "untouched", label: "Never touched", sort_by: (row) => m.figure(row, "untouched_bytes"),
        cell: (row) => [bar(m.figure(row, "untouched_bytes") / untouched), el("span", { class: "beside" }, show_bytes(m.figure(row, "untouched_bytes")))],
        title: (row) => exact(m.figure(row, "untouched_bytes"), "bytes"),
        sum: (shown) => {
          const sum = shown.reduce((so_far, row) => so_far + m.figure(row, "untouched_bytes"), 0);
          return el("span", { title: exact(sum, "bytes"), "data-value": sum }, show_bytes(sum));
        } },
      { id: "share", label: "Of what it asked for",
        sort_by: (row) => m.figure(row, "untouched_bytes") / Math.max(1, m.figure(row, "checked_bytes")),
        cell: (row) => show_share(m.figure(row, "untouched_bytes"), m.figure(row, "checked_bytes")) },
      { id: "checked", label: "Looked at", sort_by: (row) => m.figure(row, "checked_bytes"),
        cell: (row) => show_bytes(m.figure(row, "checked_bytes")) },
      { id: "mean", label: "Mean size", sort_by: mean, cell: (row) => show_bytes(mean(row)) },
      { id: "allocations", label: "Allocations", sort_by: (row) => m.figure(row, "allocations"),
        cell: (row) => show_count(m.figure(row, "allocations")) },
      { id: "live", label: "Live at the end", sort_by: (row) => m.figure(row, "live_bytes"),
        cell: (row) => show_bytes(m.figure(row, "live_bytes")) },
    ],
  });
  table.set_rows(rows);
  place.append(table.element);
}
