// SPDX-License-Identifier: MIT
// quantity: times, bytes, counts and shares in sentences, with three significant digits.
// Pure functions; any thread.
#pragma once

#include <string>

namespace tarn::profiler {

std::string say_time(double ns);      // "1.24 s", "310 ms", "8.5 ns"
std::string say_bytes(double bytes);  // "32 MiB", "64 bytes"
std::string say_count(double count);  // "8,710", "12.3 million"
std::string say_share(double part);   // 0.123: "12 %", 0.004: "0.40 %"

}  // namespace tarn::profiler
