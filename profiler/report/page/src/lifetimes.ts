// SPDX-License-Identifier: MIT
// lifetimes: how long blocks of which size lived, as a map. A cell filters the sites. Arrow keys go from cell to cell.
import { el, section, switcher } from "./dom";
import type { model } from "./model";
import { state } from "./state";
import { exact, show, show_count, show_power, show_share } from "./units";

interface cell { lifetime: number; size: number; count: number; bytes: number }

class lifetime_map {
  private by: "count" | "bytes" = "count";
  private readonly cells: cell[];
  private readonly place = el("div", { class: "scroll" });

  constructor(private readonly m: model, place: HTMLElement) {
    this.cells = m.data.lifetimes.map(([lifetime, size, count, bytes]) =>
      ({ lifetime: lifetime!, size: size!, count: count!, bytes: bytes! }));
    place.append(el("div", { class: "controls" },
      switcher("Shade by", [{ value: "count", text: "Blocks" }, { value: "bytes", text: "Bytes" }], "count", (value) => {
        this.by = value as "count" | "bytes";
        this.draw();
      })), this.place);
    this.place.addEventListener("keydown", (event) => this.key(event));
    this.draw();
  }

  private draw(): void {
    const most = Math.max(1, ...this.cells.map((one) => one[this.by]));
    const total = this.cells.reduce((sum, one) => sum + one[this.by], 0);
    const range = (name: "lifetime" | "size") => {
      const values = this.cells.map((one) => one[name]);
      const first = Math.min(...values);
      return Array.from({ length: Math.max(...values) - first + 1 }, (_, index) => first + index);
    };
    const sizes = range("size");
    const found = new Map(this.cells.map((one) => [`${one.lifetime},${one.size}`, one]));
    const head = el("tr", {}, el("th", { scope: "col" }, "lived from"));
    for (const size of sizes) head.append(el("th", { scope: "col" }, show_power(size, "bytes")));
    head.append(el("th", { scope: "col" }, "all"));
    const body = el("tbody", {});
    for (const lifetime of range("lifetime").reverse()) {
      const line = el("tr", {}, el("th", { scope: "row" }, show_power(lifetime, "ns")));
      let sum = 0;
      for (const size of sizes) {
        const one = found.get(`${lifetime},${size}`);
        sum += one ? one[this.by] : 0;
        line.append(el("td", {}, one && one[this.by] > 0 ? this.button_of(one, most, total) : null));
      }
      line.append(el("td", { class: "sum" }, sum > 0 ? show(sum, this.by === "count" ? "count" : "bytes") : ""));
      body.append(line);
    }
    const what = this.by === "count" ? `${show_count(total)} freed blocks` : `${show(total, "bytes")} freed`;
    this.place.replaceChildren(el("table", { class: "heat", role: "grid", "aria-label": `Lifetime by size: ${what}` },
      el("caption", {}, `${what}: lifetime downwards, size to the right; both in steps of two.`), el("thead", {}, head), body));
    const first = this.place.querySelector<HTMLButtonElement>("button");
    if (first) first.tabIndex = 0;
  }

  private button_of(one: cell, most: number, total: number): HTMLButtonElement {
    const value = one[this.by];
    const words = `${show(value, this.by === "count" ? "count" : "bytes")}, ${show_share(value, total)}: ` +
      `${show_power(one.size, "bytes")} to ${show_power(one.size + 1, "bytes")}, lived ` +
      `${show_power(one.lifetime, "ns")} to ${show_power(one.lifetime + 1, "ns")}`;
    const made = el("button", {
      type: "button", tabindex: -1, "aria-label": words, title: `${words}\n${exact(one.count, "count")} blocks, ${exact(one.bytes, "bytes")}` });
    // By logarithm, over four powers of ten: a few blocks must still be seen.
    const share = Math.max(0.06, Math.min(1, 1 + Math.log10(value / most) / 4));
    made.style.setProperty("--heat", `${Math.round(share * 100)}%`);
    made.addEventListener("click", () => this.filter(one, words));
    return made;
  }

  private filter(one: cell, words: string): void {
    const rows = new Set(this.m.data.details.lifetimes
      .filter(([, lifetime, size]) => lifetime === one.lifetime && size === one.size).map(([row]) => row!));
    state.set_filter({ text: words.replace(/^[^:]*: /, ""), has: (row) => rows.has(row) });
    document.getElementById("sites")!.scrollIntoView();
    document.getElementById("search")!.focus({ preventScroll: true });
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const at = (event.target as HTMLElement).closest("td");
    if (!step || !at) return;
    event.preventDefault();
    const rows = [...this.place.querySelectorAll("tbody tr")];
    let line = rows.indexOf(at.parentElement as HTMLTableRowElement);
    let column = at.cellIndex;
    // On to the next cell that has blocks.
    for (;;) {
      line += step[0]!;
      column += step[1]!;
      const next = (rows[line] as HTMLTableRowElement | undefined)?.cells[column];
      if (!next) return;
      const target = next.querySelector("button");
      if (!target) continue;
      for (const one of this.place.querySelectorAll("button")) one.tabIndex = -1;
      target.tabIndex = 0;
      target.focus();
      return;
    }
  }
}

export function show_lifetimes(m: model): void {
  const place = section("lifetimes", "How long blocks live", "Blocks that were freed. Select a cell to see its sites.");
  if (m.data.lifetimes.length === 0) {
    place.append(el("p", { class: "empty" }, "No lifetimes were recorded in this mode."));
    return;
  }
  void new lifetime_map(m, place);
}
