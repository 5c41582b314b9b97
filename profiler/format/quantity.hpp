// SPDX-License-Identifier: MIT
// quantity: the one spelling of times, bytes, counts and shares, in the terminal, in JSON texts and, by
// report/page/src/units.ts, in the report's page. Both are tested with tests/profiler/format/quantities.json.
// Pure functions; any thread.
//
// A figure has `digits` significant digits in the largest unit that leaves at least 1. Whole numbers have no decimals;
// bytes below 1 KiB and counts below 100,000 are always whole, with commas between thousands.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

namespace tarn::profiler {

enum class base_unit : std::uint8_t { ns, bytes, count };

struct quantity {
  std::string text;
  double value;  // the rounded number that the text shows
};
quantity spelled(base_unit what, double value, int digits = 3);

std::string say(base_unit what, double value);
std::string say_time(double ns);          // "1.24 s", "310 ms", "8.50 us", "42 ns"
std::string say_seconds(double seconds);  // the same
std::string say_bytes(double bytes);      // "1.50 GiB", "32 MiB", "1,000 B"
std::string say_count(double count);      // "8,710", "123k", "12.3M"
// A figure and half the width of its interval: "44 ± 10 ms", "8,700 ± 300". The last digit of both is the margin's first
// one, or its second where the first is a 1. A margin below half a percent changes nothing that is shown: "44.2 ms". One that
// reaches zero leaves the upper end of the interval: "up to 90 ms". A part of something is no more than that: `most`.
std::string say_estimate(base_unit what, double value, double margin, double most = HUGE_VAL);
// Of `whole`; "0 %" if there is nothing. With the digits that a margin of `part` justifies; "<46 %" if it reaches zero.
// 0.123: "12 %", 0.0123: "1.2 %", 0.004: "0.40 %"
std::string say_share(double part, double whole = 1, double margin = 0, double most = HUGE_VAL);
// In the largest unit that leaves a whole number: "8 MiB", "1,536 KiB".
std::string say_exactly(std::uint64_t bytes);

}  // namespace tarn::profiler
