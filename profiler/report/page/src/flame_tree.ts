// SPDX-License-Identifier: MIT
// flame_tree: call paths merged by function, from the root or from the allocation ("inverted"), with values by any
// metric. Plain arrays: there may be hundreds of thousands of nodes.
// Invariant: parent[n] < n; total[n] is self[n] plus the totals of its children; total[0] is the metric's total.
import { kind, type metric, type model } from "./model";

export class flame_tree {
  readonly parent: number[] = [0];
  readonly label: number[] = [-1]; // a function's text; or below 0, a row's name: -2 - row
  readonly frame: number[] = [-1]; // one frame of the function
  readonly depth: number[] = [0];
  readonly node_of_row: number[] = [];
  self = new Float64Array(0);
  total = new Float64Array(0);
  private first_child = new Int32Array(0); // of node n: children[first_child[n]] to children[first_child[n + 1] - 1]
  private children = new Int32Array(0);
  private sorted = new Uint8Array(0);

  constructor(private readonly m: model, readonly inverted: boolean) {
    const known = new Map<number, number>();
    const { stacks, frames } = m.data;
    const texts = m.data.strings.length + m.rows + 2;
    const child = (node: number, label: number, frame: number): number => {
      const key = node * texts + (label < 0 ? m.data.strings.length - 2 - label : label);
      let found = known.get(key);
      if (found === undefined) {
        found = this.parent.length;
        known.set(key, found);
        this.parent.push(node);
        this.label.push(label);
        this.frame.push(frame);
        this.depth.push(this.depth[node]! + 1);
      }
      return found;
    };
    for (let row = 0; row < m.rows; ++row) {
      const path: number[] = [];
      for (let at = m.data.sites.stack![row]!; at !== 0; at = stacks.parent[at]!) path.push(stacks.frame[at]!);
      if (!inverted) path.reverse();
      let node = 0;
      for (const frame of path) node = child(node, frames.function[frame]!, frame);
      if (path.length === 0) node = child(0, -2 - row, -1);
      this.node_of_row.push(node);
    }
    this.link_children();
  }

  private link_children(): void {
    const count = this.parent.length;
    this.first_child = new Int32Array(count + 1);
    for (let node = 1; node < count; ++node) this.first_child[this.parent[node]! + 1]!++;
    for (let node = 0; node < count; ++node) this.first_child[node + 1]! += this.first_child[node]!;
    const next = this.first_child.slice();
    this.children = new Int32Array(Math.max(0, count - 1));
    for (let node = 1; node < count; ++node) this.children[next[this.parent[node]!]!++] = node;
  }

  measure(by: metric): void {
    const count = this.parent.length;
    const values = this.m.values(by);
    this.self = new Float64Array(count);
    this.node_of_row.forEach((node, row) => { this.self[node]! += values[row]!; });
    this.total = this.self.slice();
    for (let node = count - 1; node > 0; --node) this.total[this.parent[node]!]! += this.total[node]!;
    this.sorted = new Uint8Array(count);
  }

  // Largest first.
  children_of(node: number): Int32Array {
    const found = this.children.subarray(this.first_child[node]!, this.first_child[node + 1]!);
    if (!this.sorted[node]) {
      found.sort((left, right) => this.total[right]! - this.total[left]! || left - right);
      this.sorted[node] = 1;
    }
    return found;
  }

  is_below(node: number, ancestor: number): boolean {
    let at = node;
    while (at > ancestor) at = this.parent[at]!;
    return at === ancestor;
  }

  name_of(node: number): string {
    const label = this.label[node]!;
    if (node === 0) return "All";
    return label < 0 ? this.m.title_of(-2 - label) : this.m.text(label);
  }
  short_of(node: number): string {
    const label = this.label[node]!;
    return node === 0 || label < 0 ? this.name_of(node) : this.m.short_of_text(label);
  }
  module_of(node: number): string {
    const frame = this.frame[node]!;
    return frame < 0 ? "" : this.m.module_of(frame);
  }
  // What stands for several sites, or for none.
  is_sum(node: number): boolean {
    const label = this.label[node]!;
    return node !== 0 && label < 0 && this.m.kind_of(-2 - label) !== kind.site;
  }
}
