// SPDX-License-Identifier: MIT
// units: times, bytes, counts and shares as profiler/format/quantity.hpp spells them, with a space before the unit where
// no line may break; and exact figures, for tooltips.

export type unit = "ns" | "bytes" | "count";

export const narrow = "\u202f"; // between a figure and its unit, where no line may break

// Size and name of each unit, and the smallest quantity that is shown in it.
const steps: Record<unit, [number, string, number][]> = {
  ns: [[1, "ns", 0], [1e3, "us", 1e3], [1e6, "ms", 1e6], [1e9, "s", 1e9]],
  bytes: [[1, "B", 0], [2 ** 10, "KiB", 2 ** 10], [2 ** 20, "MiB", 2 ** 20], [2 ** 30, "GiB", 2 ** 30], [2 ** 40, "TiB", 2 ** 40]],
  count: [[1, "", 0], [1e3, "k", 1e5], [1e6, "M", 1e6], [1e9, "G", 1e9], [1e12, "T", 1e12]],
};

function with_commas(value: number, places: number): string {
  const scale = 10 ** places;
  return (Math.round(value * scale) / scale).toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
}

export function show(value: number, what: unit): string {
  const size = Math.abs(value);
  const half = 0.0005; // what would be shown as 1,000 of a unit is 1 of the next
  const [step, name, from] = steps[what].filter(([, , least], index) =>
    what !== "ns" && index === 1 ? Math.round(size) >= least : size >= least * (1 - half)).at(-1)!;
  const scaled = size / step;
  const whole = Math.abs(scaled - Math.round(scaled)) <= 1e-9 * scaled || (from === 0 && what !== "ns");
  let places = whole ? 0 : 2;
  for (let bound = 10; places > 0 && scaled >= bound * (1 - half); bound *= 10) --places;
  const text = with_commas(scaled, places);
  return (value < 0 && Number(text) !== 0 ? "-" : "") + text + (what === "count" ? "" : narrow) + name;
}

export const show_ns = (value: number): string => show(value, "ns");
export const show_bytes = (value: number): string => show(value, "bytes");
export const show_count = (value: number): string => show(value, "count");

export function show_share(part: number, whole: number): string {
  const percent = whole > 0 ? (100 * part) / whole : 0;
  const size = Math.abs(percent);
  if (size > 0 && size < 0.005) return `<0.01${narrow}%`;
  return `${percent < 0 ? "-" : ""}${with_commas(size, size >= 9.95 || size === 0 ? 0 : size >= 0.995 ? 1 : 2)}${narrow}%`;
}

export function exact(value: number, what: unit): string {
  const text = Math.round(value).toLocaleString("en-US");
  return what === "ns" ? `${text} ns` : what === "bytes" ? `${text} B` : text;
}

// Half of the interval in which the true value lies in 95 of 100 cases, as a share of the value; nothing below half a percent.
export function show_margin(variance: number, value: number): string {
  const part = value > 0 ? (1.96 * Math.sqrt(variance)) / value : 0;
  if (!(part >= 0.005)) return "";
  return part > 9.99 ? `±>999${narrow}%` : `±${with_commas(100 * part, 0)}${narrow}%`;
}

// A power of two of nanoseconds or bytes, as the lower end of a range.
export const show_power = (exponent: number, what: unit): string => show(2 ** exponent, what);
