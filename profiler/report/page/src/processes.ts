// SPDX-License-Identifier: MIT
// processes: in a report of several processes, which one the page shows: all together, or one of those that have data of
// their own. Choosing another one loads the page again, with its number behind "?process=", so that every view begins anew.
import { el } from "./dom";
import type { report } from "./model";
import { show_ns, show_share } from "./units";

const parameter = "process";

function elements(): Element[] { return [...document.querySelectorAll("script.process")]; }

// 0: all together.
function chosen(): number {
  const number = Number(new URLSearchParams(location.search).get(parameter) ?? "0");
  return Number.isInteger(number) && number >= 0 && number <= elements().length ? number : 0;
}

// The data to show. Removes all data from the page: its text takes as much memory as what is made of it.
export function take_data(): report {
  const whole = document.getElementById("data")!;
  const data = JSON.parse(whole.textContent!) as report;
  const number = chosen();
  const one = number === 0 ? data : JSON.parse(elements()[number - 1]!.textContent!) as report;
  one.processes = data.processes;
  for (const element of [whole, ...elements()]) element.remove();
  return one;
}

export function show_processes(data: report): void {
  const processes = data.processes ?? [];
  if (processes.length === 0) return;
  const search = new URLSearchParams(location.search);
  const shown = Number(search.get(parameter) ?? "0");
  const cost = processes.reduce((sum, one) => sum + one.cost_ns, 0);
  const options = [el("option", { value: 0, selected: shown === 0 }, `All processes together, ${show_ns(cost)}`)];
  let number = 0;
  for (const one of processes) {
    const text = `${one.name}, ${show_ns(one.cost_ns)}, ${show_share(one.cost_ns, cost)}`;
    const has_data = one.has_data;
    if (has_data) ++number;
    options.push(el("option", { value: number, selected: has_data && shown === number, disabled: !has_data },
      has_data ? text : `${text} (only in the sums)`));
  }
  const select = el("select", { id: "process" }, ...options);
  select.addEventListener("change", () => {
    search.set(parameter, select.value);
    location.search = search.toString();
  });
  document.getElementById("program")!.prepend(
    el("p", { class: "processes" }, el("label", { for: "process" }, "Processes: "), select));
}
