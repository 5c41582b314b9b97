// SPDX-License-Identifier: MIT
// flame: the flame graph. Drawn on a canvas, what is in sight of it, since a profile of a compiler has more frames than a
// page bears elements;
// what a canvas cannot say, the line above it says, also to screen readers, and all of it works by keyboard.
import { button, choice, el, section, switcher } from "./dom";
import { flame_tree } from "./flame_tree";
import { type metric, metric_of, metrics, type model, span_metrics } from "./model";
import { state } from "./state";
import { colour, is_dark, on_theme_change } from "./theme";
import { exact, show, show_share } from "./units";

const row_height = 19;
const narrowest = 0.6; // pixels; what is narrower is not drawn
const most_rows = 100_000; // an element has a greatest height
const font = "11.5px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";
const hues = [250, 45, 150, 310, 95, 200, 20, 275];

interface box { node: number; left: number; width: number }

export class flame_view {
  private readonly trees = new Map<boolean, flame_tree>();
  private inverted = false;
  private by: metric;
  private root = 0; // what fills the width
  private focused = 0;
  private term = "";
  private matches = new Set<number>(); // texts of functions
  private boxes: box[][] = []; // by depth below the tree's root, by left edge
  private width = 0;
  private letter_width = 7;
  private readonly module_hue = new Map<string, number>();
  private readonly canvas = el("canvas", { "aria-hidden": "true" });
  private readonly sizer = el("div", {}, this.canvas); // as high as all of the graph
  private readonly scroller = el("div", {
    class: "flame-scroll", id: "flame-graph", tabindex: "0", role: "application", "aria-roledescription": "flame graph",
    "aria-label": "Flame graph", "aria-describedby": "flame-help flame-line" });
  private readonly line = el("div", { class: "flame-line", id: "flame-line", role: "status" });
  private readonly tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  private readonly path = el("div", { class: "flame-path" });
  private readonly legend = el("ul", { class: "legend" });
  private readonly found = el("span", { class: "status", role: "status" });
  private figure!: HTMLElement;

  constructor(private readonly m: model) {
    const first = metrics.find((one) => m.total_of(one) > 0) ?? metrics[0]!;
    this.by = first;
    this.build();
    this.choose_hues();
    on_theme_change(() => this.draw());
    state.on_span((text) => this.follow(text !== null));
    new ResizeObserver(() => {
      if (this.scroller.clientWidth !== this.width) this.draw();
      else this.paint();
    }).observe(this.scroller);
    this.scroller.addEventListener("scroll", () => this.paint());
    this.rebuild();
  }

  // A part of the run is selected, or the whole run again.
  private follow(is_part: boolean): void {
    this.by = is_part ? span_metrics[0]! : metrics.find((one) => this.m.total_of(one) > 0) ?? metrics[0]!;
    this.figure.querySelector("select")!.value = this.by.id;
    this.rebuild();
  }

  private get tree(): flame_tree { return this.trees.get(this.inverted)!; }

  private build(): void {
    const place = section("flame", "Where it comes from", "Width is the share of the chosen figure. Select a frame to make it fill the width.");
    const search = el("input", { type: "search", id: "flame-search", placeholder: "Function", autocomplete: "off", spellcheck: "false" });
    search.addEventListener("input", () => this.search(search.value));
    const options = [...metrics, ...(this.m.data.slices ? span_metrics : [])].map((one) => ({
      value: one.id, disabled: this.m.total_of(one) === 0,
      text: this.m.total_of(one) === 0 ? `${one.label} (none recorded)` : one.label }));
    place.append(el("div", { class: "controls" },
      this.figure = choice("Figure", options, this.by.id, (value) => { this.by = metric_of(value); this.rebuild(); }),
      switcher("Direction", [{ value: "normal", text: "From main" }, { value: "inverted", text: "From the allocation" }],
        "normal", (value) => { this.inverted = value === "inverted"; this.root = this.focused = 0; this.rebuild(); }),
      el("label", { class: "field grow" }, el("span", {}, "Highlight"), search), this.found,
      button("Show all", () => this.zoom(0))),
      this.line, this.path, this.scroller, this.legend,
      el("p", { class: "quiet", id: "flame-help" }, "Arrow keys go from frame to frame, Enter makes one fill the width, Escape goes back, " +
        "s shows its sites in the table."));
    this.scroller.append(this.sizer, this.tip);
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.scroller.addEventListener("focus", () => this.focus(this.focused));
    this.scroller.addEventListener("blur", () => this.paint());
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => this.unhover());
    this.canvas.addEventListener("click", (event) => {
      const node = this.node_at(event);
      if (node !== null) this.zoom(node);
    });
  }

  // A hue for each module, in the order of what it costs; libraries are grey.
  private choose_hues(): void {
    const cost = new Map<string, number>();
    const values = this.m.values(metric_of("cost"));
    for (let row = 0; row < this.m.rows; ++row) {
      const frame = this.m.place(row);
      const module = frame < 0 || this.m.in_library(frame) ? "" : this.m.module_of(frame);
      if (module) cost.set(module, (cost.get(module) ?? 0) + values[row]!);
    }
    [...cost].sort((a, b) => b[1] - a[1]).slice(0, hues.length).forEach(([name], index) => this.module_hue.set(name, hues[index]!));
  }

  private rebuild(): void {
    if (!this.trees.has(this.inverted)) this.trees.set(this.inverted, new flame_tree(this.m, this.inverted));
    this.tree.measure(this.by);
    if (this.tree.total[this.root] === 0) this.root = 0;
    if (this.tree.total[this.focused] === 0) this.focused = this.root;
    this.count_matches();
    this.draw();
    this.describe(this.focused);
  }

  private fill_of(node: number, dark: boolean): string {
    const label = this.tree.label[node]!;
    if (label >= 0 && this.matches.has(label)) return dark ? "oklch(0.55 0.17 330)" : "oklch(0.82 0.13 330)";
    const hue = this.module_hue.get(this.tree.module_of(node));
    const grey = node === 0 || hue === undefined || this.tree.is_sum(node) || this.m.in_library(this.tree.frame[node]!);
    // Neighbours differ a little, so that their borders are seen.
    const shade = ((Math.imul(label + 7, 2654435761) >>> 24) / 255 - 0.5) * 0.05;
    const light = (dark ? 0.4 : 0.87) + shade;
    return `oklch(${light.toFixed(3)} ${grey ? 0.008 : dark ? 0.07 : 0.065} ${(hue ?? 250) + this.hue_of_file(node)})`;
  }

  // Files of one module differ a little in hue, so that its parts are told apart.
  private hue_of_file(node: number): number {
    const frame = this.tree.frame[node]!;
    const file = frame < 0 ? 0 : this.m.data.frames.file[frame]!;
    return ((Math.imul(file + 3, 2246822519) >>> 24) / 255 - 0.5) * 36;
  }

  // Which frames are wide enough, from the ancestors of the root, which fill the width, down.
  private lay_out(): void {
    this.boxes = [];
    const { tree } = this;
    const put = (node: number, left: number, width: number) => {
      (this.boxes[tree.depth[node]!] ??= []).push({ node, left, width });
    };
    for (let node = this.root; ; node = tree.parent[node]!) {
      put(node, 0, this.width);
      if (node === 0) break;
    }
    const scale = this.width / Math.max(1e-12, tree.total[this.root]!);
    let level = this.boxes[tree.depth[this.root]!]!;
    while (level.length > 0 && this.boxes.length < most_rows) {
      const next: box[] = [];
      for (const one of level) {
        let left = one.left;
        for (const child of tree.children_of(one.node)) {
          const width = tree.total[child]! * scale;
          if (width < narrowest) break; // the others are narrower yet
          next.push({ node: child, left, width });
          left += width;
        }
      }
      if (next.length > 0) this.boxes.push(next);
      level = next;
    }
  }

  private draw(): void {
    this.width = this.scroller.clientWidth;
    if (this.width === 0) return;
    this.lay_out();
    this.sizer.style.height = `${this.boxes.length * row_height + 1}px`;
    this.paint();
    this.show_path();
    this.show_legend(is_dark());
  }

  private paint(): void {
    const height = this.scroller.clientHeight;
    const top = this.scroller.scrollTop;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d")!;
    context.scale(ratio, ratio);
    context.translate(0, -top);
    context.font = font;
    context.textBaseline = "middle";
    this.letter_width = context.measureText("0123456789").width / 10;
    const dark = is_dark();
    const ink = colour("ink");
    const last = Math.min(this.boxes.length, Math.ceil((top + height) / row_height));
    for (let depth = Math.floor(top / row_height); depth < last; ++depth) {
      for (const one of this.boxes[depth]!) this.draw_box(context, one, depth, dark, ink);
    }
    this.draw_focus(context);
  }

  private draw_box(context: CanvasRenderingContext2D, one: box, depth: number, dark: boolean, ink: string): void {
    const top = depth * row_height;
    context.globalAlpha = one.node !== this.root && this.tree.is_below(this.root, one.node) ? 0.5 : 1;
    context.fillStyle = this.fill_of(one.node, dark);
    context.fillRect(one.left, top, Math.max(narrowest, one.width - (one.width > 3 ? 1 : 0)), row_height - 1);
    const room = Math.floor((one.width - 8) / this.letter_width);
    if (room >= 3) {
      const name = this.tree.short_of(one.node);
      context.fillStyle = ink;
      context.fillText(name.length <= room ? name : `${name.slice(0, room - 1)}…`, one.left + 4, top + row_height / 2);
    }
    context.globalAlpha = 1;
  }

  private draw_focus(context: CanvasRenderingContext2D): void {
    if (document.activeElement !== this.scroller) return;
    const depth = this.tree.depth[this.focused]!;
    const one = this.boxes[depth]?.find((candidate) => candidate.node === this.focused);
    if (!one) return;
    context.strokeStyle = colour("focus");
    context.lineWidth = 2;
    context.strokeRect(one.left + 1, depth * row_height + 1, Math.max(2, one.width - 3), row_height - 3);
  }

  private show_legend(dark: boolean): void {
    const items = [...this.module_hue].map(([name, hue]) => {
      const mark = el("i", { "aria-hidden": "true" });
      mark.style.background = `oklch(${dark ? 0.4 : 0.87} ${dark ? 0.07 : 0.065} ${hue})`;
      return el("li", {}, mark, name);
    });
    const grey = el("i", { "aria-hidden": "true" });
    grey.style.background = `oklch(${dark ? 0.4 : 0.87} 0.008 250)`;
    this.legend.replaceChildren(...items, el("li", {}, grey, "libraries that allocate for others, and the rest"));
  }

  // What the root stands below, as links back.
  private show_path(): void {
    this.path.textContent = "";
    const above: number[] = [];
    for (let node = this.root; node !== 0; node = this.tree.parent[node]!) above.push(node);
    this.path.append(button("All", () => this.zoom(0), { class: "link" }));
    const shown = above.reverse();
    const from = Math.max(0, shown.length - 4);
    if (from > 0) this.path.append(" › …");
    for (const node of shown.slice(from)) {
      this.path.append(" › ", button(this.tree.short_of(node).slice(0, 60), () => this.zoom(node), { class: "link" }));
    }
  }

  private zoom(node: number): void {
    this.root = node;
    this.focused = node;
    this.scroller.scrollTop = 0;
    this.draw();
    this.describe(node);
  }

  private node_at(event: MouseEvent): number | null {
    const level = this.boxes[Math.floor((event.offsetY + this.scroller.scrollTop) / row_height)];
    const hit = level?.find((one) => event.offsetX >= one.left && event.offsetX < one.left + one.width);
    return hit ? hit.node : null;
  }

  private hover(event: MouseEvent): void {
    const node = this.node_at(event);
    this.canvas.style.cursor = node === null ? "default" : "pointer";
    this.tip.hidden = node === null;
    if (node === null) return;
    this.tip.textContent = `${this.tree.short_of(node)}\n${this.figures_of(node)}`;
    const left = Math.min(event.offsetX + 14, this.width - this.tip.offsetWidth - 4);
    this.tip.style.left = `${Math.max(0, left)}px`;
    // Above the pointer where there is no room below it.
    const above = event.offsetY + 60 > this.scroller.clientHeight;
    this.tip.style.top = `${this.scroller.scrollTop + event.offsetY + (above ? -this.tip.offsetHeight - 8 : 18)}px`;
    this.describe(node, false);
  }
  private unhover(): void {
    this.tip.hidden = true;
    this.describe(this.focused);
  }

  private figures_of(node: number): string {
    const total = this.tree.total[node]!;
    const self = this.tree.self[node]!;
    const whole = this.tree.total[0]!;
    const own = self > 0 && self < total ? `, ${show(self, this.by.what)} of it here` : "";
    return `${show(total, this.by.what)}, ${show_share(total, whole)} of ${this.by.label.toLowerCase()}${own}`;
  }

  private describe(node: number, with_button = true): void {
    const { tree } = this;
    const frame = tree.frame[node]!;
    const place = frame < 0 ? "" : [this.m.place_of(frame), this.m.module_of(frame)].filter(Boolean).join(" · ");
    this.line.replaceChildren(
      el("span", { class: "flame-name", title: tree.name_of(node) }, tree.name_of(node)),
      el("span", { class: "flame-figures", "data-total": tree.total[node], title: exact(tree.total[node]!, this.by.what) },
        this.figures_of(node)),
      el("span", { class: "sub" }, place));
    if (with_button && node !== 0) this.line.append(button("Show its sites", () => this.show_sites(node), { class: "link" }));
  }

  private show_sites(node: number): void {
    const { tree } = this;
    const rows = new Set<number>();
    tree.node_of_row.forEach((at, row) => { if (tree.is_below(at, node)) rows.add(row); });
    state.set_filter({ text: `Through ${tree.short_of(node)}`, has: (row) => rows.has(row) });
    document.getElementById("sites")!.scrollIntoView();
    document.getElementById("search")!.focus({ preventScroll: true });
  }

  // Only what can be seen takes the focus.
  private focus(node: number): void {
    this.focused = node;
    const top = this.tree.depth[node]! * row_height;
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop || top + row_height > scrollTop + clientHeight) this.scroller.scrollTop = top - clientHeight / 2;
    this.paint();
    this.describe(node);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { tree } = this;
    const depth = tree.depth[this.focused]!;
    const level = this.boxes[depth] ?? [];
    const at = level.findIndex((one) => one.node === this.focused);
    const below = this.boxes[depth + 1]?.find((one) => tree.parent[one.node] === this.focused);
    const moves: Record<string, () => void> = {
      ArrowDown: () => below && this.focus(below.node),
      ArrowUp: () => this.focus(tree.parent[this.focused]!),
      ArrowLeft: () => level[at - 1] && this.focus(level[at - 1]!.node),
      ArrowRight: () => level[at + 1] && this.focus(level[at + 1]!.node),
      Home: () => this.focus(this.root),
      Enter: () => { this.zoom(this.focused); this.focus(this.focused); },
      Escape: () => { this.zoom(tree.parent[this.root]!); this.focus(this.root); },
      s: () => this.focused !== 0 && this.show_sites(this.focused),
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  }

  private search(term: string): void {
    this.term = term.trim().toLowerCase();
    this.matches.clear();
    if (this.term !== "") {
      for (const label of new Set(this.tree.label)) {
        if (label >= 0 && this.m.text(label).toLowerCase().includes(this.term)) this.matches.add(label);
      }
    }
    this.count_matches();
    this.draw();
  }

  // The share of the outermost matches, so that nothing counts twice.
  private count_matches(): void {
    if (this.term === "") {
      this.found.textContent = "";
      return;
    }
    const { tree } = this;
    const inside = new Uint8Array(tree.parent.length);
    let sum = 0;
    for (let node = 1; node < tree.parent.length; ++node) {
      const above = inside[tree.parent[node]!]!;
      const hit = this.matches.has(tree.label[node]!);
      if (hit && !above) sum += tree.total[node]!;
      inside[node] = above || hit ? 1 : 0;
    }
    this.found.textContent = this.matches.size === 0 ? "no frame has that"
      : `${show(sum, this.by.what)}, ${show_share(sum, tree.total[0]!)}`;
  }
}
