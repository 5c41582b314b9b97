// SPDX-License-Identifier: MIT
// units: figures for people, with three significant digits and their unit; and exact, for tooltips.

// 3 significant digits, never as an exponent.
function digits(value: number): string {
  if (Number.isInteger(value)) return String(value);
  const places = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)) + 1e-9));
  return value.toFixed(Math.min(places, 3));
}

function scaled(value: number, steps: [number, string][]): string {
  for (const [size, name] of steps) {
    // What would be shown as 1000 of a unit is 1 of the next.
    if (value >= size * 0.9995) return `${digits(value / size)} ${name}`;
  }
  const [size, name] = steps[steps.length - 1]!;
  return `${digits(value / size)} ${name}`;
}

export const narrow = "\u202f"; // between a figure and its unit, where no line may break

export function show_ns(value: number): string {
  if (value <= 0) return "0";
  return scaled(value, [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]).replace(" ", narrow);
}

export function show_bytes(value: number): string {
  if (value <= 0) return "0";
  return scaled(value, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]])
    .replace(" ", narrow);
}

export function show_count(value: number): string {
  if (value <= 0) return "0";
  if (value < 99_950) return Math.round(value).toLocaleString("en-US");
  return scaled(value, [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]).replace(" ", narrow);
}

export function show_share(part: number, whole: number): string {
  if (whole <= 0 || part <= 0) return `0${narrow}%`;
  const percent = (100 * part) / whole;
  if (percent < 0.1) return `<0.1${narrow}%`;
  if (percent > 99.9 && percent < 100) return `>99.9${narrow}%`;
  return `${percent < 10 ? percent.toFixed(1) : Math.round(percent)}${narrow}%`;
}

export type unit = "ns" | "bytes" | "count";

export function show(value: number, what: unit): string {
  return what === "ns" ? show_ns(value) : what === "bytes" ? show_bytes(value) : show_count(value);
}

export function exact(value: number, what: unit): string {
  const text = Math.round(value).toLocaleString("en-US");
  return what === "ns" ? `${text} ns` : what === "bytes" ? `${text} bytes` : text;
}

// Half of the interval in which the true value lies in 95 of 100 cases, as a share of the value; nothing below half a percent.
export function show_margin(variance: number, value: number): string {
  const percent = value > 0 ? (100 * 1.96 * Math.sqrt(variance)) / value : 0;
  if (percent < 0.5) return "";
  return percent > 999 ? `±>999${narrow}%` : `±${Math.round(percent)}${narrow}%`;
}

// A power of two of nanoseconds or bytes, as the lower end of a range.
export function show_power(exponent: number, what: unit): string {
  return show(2 ** exponent, what);
}
