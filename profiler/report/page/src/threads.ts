// SPDX-License-Identifier: MIT
// threads: which thread frees what which thread allocated. Blocks that change threads cost an allocator most.
import { thread_name } from "./detail";
import { el, section } from "./dom";
import type { model } from "./model";
import { exact, show_bytes, show_count, show_share } from "./units";

function matrix(m: model): HTMLElement {
  const used = new Set<number>();
  const cells = new Map<string, number[]>();
  let most = 1;
  for (const one of m.data.pairs) {
    used.add(one[0]!).add(one[1]!);
    cells.set(`${one[0]},${one[1]}`, one);
    most = Math.max(most, one[2]!);
  }
  const numbers = [...used].sort((a, b) => a - b);
  const head = el("tr", {}, el("th", { scope: "col" }, "allocated by ↓ freed by →"));
  for (const to of numbers) head.append(el("th", { scope: "col", class: "turned" }, el("span", {}, thread_name(m, to))));
  const body = el("tbody", {});
  for (const from of numbers) {
    const line = el("tr", {}, el("th", { scope: "row" }, thread_name(m, from)));
    for (const to of numbers) {
      const one = cells.get(`${from},${to}`);
      const cell = el("td", { class: from === to ? "own" : "", title: one ? `${exact(one[2]!, "count")} blocks, ${exact(one[3]!, "bytes")}` : undefined });
      if (one) {
        cell.textContent = show_count(one[2]!);
        const share = Math.max(0.05, Math.min(1, 1 + Math.log10(one[2]! / most) / 4));
        cell.style.setProperty("--heat", `${Math.round(share * 70)}%`);
      }
      line.append(cell);
    }
    body.append(line);
  }
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Threads" },
    el("table", { class: "matrix" }, el("caption", { class: "quiet" }, "Blocks, by the thread that allocated and the one that freed them"),
      el("thead", {}, head), body));
}

export function show_threads(m: model): void {
  const place = section("threads", "Which thread frees whose memory");
  let own = 0;
  let others = 0;
  let bytes = 0;
  for (const [from, to, count, size] of m.data.pairs) {
    if (from === to) own += count!;
    else {
      others += count!;
      bytes += size!;
    }
  }
  if (m.data.pairs.length === 0) {
    place.append(el("p", { class: "empty" }, "No frees with their threads were recorded in this mode."));
    return;
  }
  place.append(el("p", {}, others === 0 ? "Every block was freed by the thread that had allocated it."
    : `${show_share(others, own + others)} of the freed blocks, ${show_bytes(bytes)}, were freed by another thread than the one that had ` +
      "allocated them."));
  if (m.data.pairs.length > 1) place.append(matrix(m));
}
