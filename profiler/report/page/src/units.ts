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

// The unit in which a quantity of this size is shown: its size, its name with the space before it, and whether only whole numbers
// are shown in it.
function step_for(size: number, what: unit): [number, string, boolean] {
  const half = 0.0005; // what would be shown as 1,000 of a unit is 1 of the next
  const [step, name, from] = steps[what].filter(([, , least], index) =>
    what !== "ns" && index === 1 ? Math.round(size) >= least : size >= least * (1 - half)).at(-1)!;
  return [step, (what === "count" ? "" : narrow) + name, from === 0 && what !== "ns"];
}

export function show(value: number, what: unit): string {
  const [step, name, is_whole] = step_for(Math.abs(value), what);
  const scaled = Math.abs(value) / step;
  let places = is_whole || Math.abs(scaled - Math.round(scaled)) <= 1e-9 * scaled ? 0 : 2;
  for (let bound = 10; places > 0 && scaled >= bound * (1 - 0.0005); bound *= 10) --places;
  const text = with_commas(scaled, places);
  return (value < 0 && Number(text) !== 0 ? "-" : "") + text + name;
}

// The power of ten of the last digit that a margin justifies: its first one, or the second where the first is a 1.
function last_digit(margin: number): number {
  const first = Math.floor(Math.log10(margin));
  return margin < 2 * 10 ** first ? first - 1 : first;
}
const rounded_to = (value: number, power: number): string =>
  power > 0 ? with_commas(Math.round(value / 10 ** power) * 10 ** power, 0) : with_commas(value, -power);

// A figure with half of the interval in which the true value lies in 95 of 100 cases, and the digits that it justifies.
export function show_estimate(value: number, variance: number, what: unit): string {
  const margin = 1.96 * Math.sqrt(variance);
  if (!(margin > 0) || margin < 0.005 * value) return show(value, what);
  const reaches_zero = margin >= value;
  const digit = 10 ** last_digit(margin);
  const [step, name, is_whole] = step_for(reaches_zero ? value + margin : Math.round(value / digit) * digit, what);
  const least = is_whole ? 0 : -2;
  if (reaches_zero) {
    const upper = (value + margin) / step;
    if (least === 0 && upper < 0.5) return show(0, what);
    return `up to ${rounded_to(upper, Math.max(Math.floor(Math.log10(upper)) - 1, least))}${name}`;
  }
  const power = Math.max(last_digit(margin / step), least);
  return `${rounded_to(value / step, power)}${what === "count" ? name : ""} ± ${rounded_to(margin / step, power)}${name}`;
}

export const show_ns = (value: number): string => show(value, "ns");
export const show_bytes = (value: number): string => show(value, "bytes");
export const show_count = (value: number): string => show(value, "count");

export function show_share(part: number, whole: number, margin = 0): string {
  const percent = whole > 0 ? (100 * part) / whole : 0;
  const size = Math.abs(percent);
  if (whole > 0 && margin > 0 && margin >= Math.abs(part)) {
    const upper = Math.min(Math.max(100, size), size + (100 * margin) / whole);
    return `<${rounded_to(upper, Math.max(Math.floor(Math.log10(upper)) - 1, -2))}${narrow}%`;
  }
  if (size > 0 && size < 0.005) return `<0.01${narrow}%`;
  let power = size >= 9.95 || size === 0 ? 0 : size >= 0.995 ? -1 : -2;
  if (whole > 0 && margin > 0 && size > 0)
    power = Math.max(power, Math.min(last_digit((100 * margin) / whole), Math.floor(Math.log10(size))));
  return `${percent < 0 ? "-" : ""}${rounded_to(size, power)}${narrow}%`;
}

export function exact(value: number, what: unit): string {
  const text = Math.round(value).toLocaleString("en-US");
  return what === "ns" ? `${text} ns` : what === "bytes" ? `${text} B` : text;
}

// A power of two of nanoseconds or bytes, as the lower end of a range.
export const show_power = (exponent: number, what: unit): string => show(2 ** exponent, what);
