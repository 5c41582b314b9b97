// SPDX-License-Identifier: MIT
// theme: light, dark or as the system says. The style sheet follows color-scheme; what is drawn on a canvas asks for
// colours by name and is told when they change.
import { switcher } from "./dom";

const listeners: (() => void)[] = [];
const storage_key = "tarn-report-theme";

export function on_theme_change(listener: () => void): void { listeners.push(listener); }

// The value of a custom property as the page has it now, resolved for light or dark.
export function colour(name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

export function is_dark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
}

function remembered(): string {
  try {
    return localStorage.getItem(storage_key) ?? "system";
  } catch {
    return "system"; // a browser may give files no storage
  }
}

function apply(value: string): void {
  if (value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
  for (const listener of listeners) listener();
}

export function start_theme(): void {
  const value = remembered();
  const options = [
    { value: "system", text: "Auto" }, { value: "light", text: "Light" }, { value: "dark", text: "Dark" }];
  document.getElementById("theme")!.append(switcher("Theme", options, value, (chosen) => {
    try {
      localStorage.setItem(storage_key, chosen);
    } catch { /* lasts as long as the page */ }
    apply(chosen);
  }));
  apply(value);
  const told = () => listeners.forEach((listener) => listener());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", told);
  // On paper all is light.
  let before = "system";
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme ?? "system";
    apply("light");
  });
  addEventListener("afterprint", () => apply(before));
}
