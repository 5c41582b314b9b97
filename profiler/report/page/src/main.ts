// SPDX-License-Identifier: MIT
// main: reads the data and fills the sections of index.html, in their order, before the browser paints for the first time.
import { show_difference } from "./difference";
import { el } from "./dom";
import { flame_view } from "./flame";
import { show_lifetimes } from "./lifetimes";
import { show_about, show_method, show_program } from "./method";
import { show_memory } from "./memory";
import { model } from "./model";
import { show_processes, take_data } from "./processes";
import { sites_view } from "./sites";
import { start_theme } from "./theme";
import { show_threads } from "./threads";
import { show_timeline } from "./timeline";
import { show_untouched } from "./untouched";
import { show_verdict } from "./verdict";
import { mark_wide_places } from "./wide";

function start(): void {
  start_theme();
  const m = new model(take_data());
  show_program(m);
  show_processes(m.data);
  show_verdict(m);
  show_difference(m);
  void new sites_view(m);
  void new flame_view(m);
  show_timeline(m);
  show_memory(m);
  // Who is here for memory finds it first.
  if (m.data.trouble.is_memory) document.getElementById("verdict")!.after(document.getElementById("memory")!);
  show_lifetimes(m);
  show_threads(m);
  show_untouched(m);
  show_method(m);
  show_about();
  mark_wide_places();
  document.documentElement.dataset.ready = "yes";
}

try {
  start();
} catch (error) {
  document.getElementById("program")!.append(el("p", { class: "notice", role: "alert" },
    `This report cannot be shown: ${String(error)}. Is the file complete? Write it again: tarn report.`));
  throw error;
}
