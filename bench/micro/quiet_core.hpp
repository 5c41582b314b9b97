// SPDX-License-Identifier: MIT
// quiet_core: takes readings while the core is the program's alone.
// Why: a core's two hardware threads share what it can do. On a virtual machine the other one may be a neighbour's, who
//   comes and goes in milliseconds: short loops then take 1.4 times as long, the clock being the same, and a median
//   says how busy the neighbour was rather than what was measured.
// Method: independent additions are limited by the core's width, dependent ones by their latency alone. The other
//   hardware thread takes of the former and leaves the latter as they are: alone, a core four or more wide does an
//   independent one in less than a third of the time of a dependent one (0.28 measured; 0.41 and more beside another
//   thread). A reading counts as quiet if that is so right before and right after it.
// Thread safety: any thread.
#pragma once

#include <vector>

#include "ticks.hpp"

namespace bench {

// About half a microsecond.
inline bool core_is_quiet() {
  constexpr unsigned rounds = 64;
  constexpr double most = 0.34;
  std::uint64_t chain[4] = {};
  const auto step = [&chain](unsigned which) {
    ++chain[which];
    asm volatile("" : "+r"(chain[which]));
  };
  const std::uint64_t start = ticks();
  for (unsigned round = 0; round < rounds; ++round) {
    for (unsigned i = 0; i < 16; ++i) step(0);
  }
  const std::uint64_t middle = ticks();
  for (unsigned round = 0; round < rounds; ++round) {
    for (unsigned i = 0; i < 32; ++i) step(i % 4);
  }
  const std::uint64_t end = ticks();
  return static_cast<double>(end - middle) / 2 < most * static_cast<double>(middle - start);
}

// prepare(), which is not measured, and reading = work(), until there are `wanted` quiet readings, `most` in all, or
// the time is over, but at least `fewest`. Returns the quiet ones; all of them if those are fewer. It does not wait for
// a quiet moment: what the work needs would be out of the caches when it comes.
template <class Reading, class Prepare, class Work>
std::vector<Reading> quiet_readings(std::size_t wanted, std::size_t fewest, std::size_t most, double seconds,
                                    Prepare prepare, Work work) {
  std::vector<Reading> quiet;
  std::vector<Reading> busy;
  const stopwatch clock;
  for (std::size_t taken = 0;
       taken < fewest || (quiet.size() < wanted && taken < most && clock.seconds() < seconds); ++taken) {
    prepare();
    const bool before = core_is_quiet();
    const Reading reading = work();
    (core_is_quiet() && before ? quiet : busy).push_back(reading);
  }
  if (quiet.size() < fewest) quiet.insert(quiet.end(), busy.begin(), busy.end());
  return quiet;
}

}  // namespace bench
