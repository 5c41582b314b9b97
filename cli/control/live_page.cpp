// SPDX-License-Identifier: MIT
#include "cli/control/live_page.hpp"

namespace tarn::cli {

std::string live_page() {
  return R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>tarn: memory now</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5em auto; max-width: 62em; padding: 0 1em; color: #222; background: #fff }
h1 { font-size: 1.3em; margin: 0 } h2 { font-size: 1.05em; margin: 1.4em 0 .3em }
canvas { width: 100%; height: 150px; border-bottom: 1px solid #999 }
table { border-collapse: collapse; margin-top: .6em } td, th { padding: .15em .9em .15em 0; text-align: left; font-weight: normal }
td.n { text-align: right; font-variant-numeric: tabular-nums } .faint { color: #666 } i { display: inline-block; width: .8em; height: .8em }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } .faint { color: #999 } }
</style></head><body>
<h1>Memory now</h1><p class="faint" id="state">waiting for the first figures</p><div id="all"></div>
<p class="faint"><a href="metrics">metrics</a> &middot; profiles for go tool pprof: /debug/pprof/heap, /debug/pprof/allocs, /debug/pprof/faults</p>
<script>
"use strict";
const shown = [
  ["tarn_process_resident_memory_bytes", "resident, whole process", "#888888"],
  ["tarn_in_use_bytes", "in use by malloc", "#2a6fb0"],
  ["tarn_cached_bytes", "of that, free in caches", "#c98a1b"],
  ["tarn_span_free_bytes", "of that, free in spans partly in use", "#b0413e"],
  ["tarn_free_dirty_bytes", "free, still resident", "#4a9a5b"]];
const processes = new Map();
function bytes(n) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) { if (n < 1024 || unit === "GiB") return n.toFixed(unit === "B" || n >= 100 ? 0 : 1) + " " + unit; n /= 1024; }
}
function read(text) {
  const found = new Map();
  for (const line of text.split("\n")) {
    const m = /^([a-z0-9_]+)\{(.*)\} ([^ ]+)$/.exec(line);
    if (!m) continue;
    const labels = {};
    for (const l of m[2].matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)) labels[l[1]] = l[2];
    if (labels.pid === undefined || labels.program === undefined) continue;
    if (!found.has(labels.pid)) found.set(labels.pid, { program: labels.program, figures: {} });
    if (Object.keys(labels).length === 2) found.get(labels.pid).figures[m[1]] = Number(m[3]);
  }
  return found;
}
function panel(pid, program) {
  const box = document.createElement("section"), title = document.createElement("h2");
  title.textContent = program + " (" + pid + ")";
  const canvas = document.createElement("canvas"), table = document.createElement("table");
  box.append(title, canvas, table);
  document.getElementById("all").append(box);
  return { box, canvas, table, rows: [] };
}
function draw(p) {
  const c = p.canvas, w = c.width = c.clientWidth * devicePixelRatio, h = c.height = c.clientHeight * devicePixelRatio;
  const g = c.getContext("2d"), most = Math.max(1, ...p.rows.flatMap(r => shown.map(s => r[s[0]] || 0)));
  for (const [name, , colour] of shown) {
    g.strokeStyle = colour; g.lineWidth = 1.6 * devicePixelRatio; g.beginPath();
    p.rows.forEach((r, i) => g.lineTo(w - (p.rows.length - 1 - i) * w / 299, h - (r[name] || 0) / most * h * .95));
    g.stroke();
  }
  p.table.replaceChildren();
  for (const [name, text, colour] of shown) {
    const row = p.table.insertRow(), mark = document.createElement("i"), value = row.insertCell();
    value.className = "n"; value.textContent = bytes(p.rows.at(-1)[name] || 0);
    mark.style.background = colour; const cell = row.insertCell(); cell.append(mark, " " + text);
  }
}
async function look() {
  const state = document.getElementById("state");
  try {
    const found = read(await (await fetch("metrics")).text());
    for (const [pid, p] of processes) if (!found.has(pid)) { p.box.remove(); processes.delete(pid); }
    for (const [pid, now] of found) {
      if (!processes.has(pid)) processes.set(pid, panel(pid, now.program));
      const p = processes.get(pid);
      p.rows.push(now.figures); if (p.rows.length > 300) p.rows.shift();
      draw(p);
    }
    state.textContent = found.size + (found.size === 1 ? " process" : " processes") + ", the last five minutes";
  } catch (e) { state.textContent = "no answer: " + e; }
  setTimeout(look, 1000);
}
look();
</script></body></html>
)page";
}

}  // namespace tarn::cli
