// SPDX-License-Identifier: MIT
// state: what views tell each other. One filter of sites, which the flame graph and the lifetimes can set and the tables
// follow.
export interface site_filter {
  text: string; // what to show of it
  has: (row: number) => boolean;
}

type listener = () => void;

class shared_state {
  private chosen: site_filter | null = null;
  private readonly listeners: listener[] = [];
  private reveal_row: (row: number) => void = () => {};

  get filter(): site_filter | null { return this.chosen; }
  set_filter(filter: site_filter | null): void {
    this.chosen = filter;
    for (const one of this.listeners) one();
  }
  on_filter(one: listener): void { this.listeners.push(one); }

  // A part of the timeline, of a profile that tells what each call path did in it; null: the whole run.
  private readonly span_listeners: ((text: string | null) => void)[] = [];
  set_span(text: string | null, has: (row: number) => boolean): void {
    for (const one of this.span_listeners) one(text);
    this.set_filter(text === null ? null : { text, has });
  }
  on_span(one: (text: string | null) => void): void { this.span_listeners.push(one); }

  // Shows a site in the table of sites, open.
  reveal(row: number): void { this.reveal_row(row); }
  on_reveal(show: (row: number) => void): void { this.reveal_row = show; }
}

export const state = new shared_state();
