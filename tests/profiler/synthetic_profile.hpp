// SPDX-License-Identifier: MIT
// synthetic_profile: the profile of a server that never ran, for the tests of all that reads profiles: every table, every
// figure and every kind of site is in it. The same in every run and on every machine.
//
// Invariants: of each site, live = allocations - frees and live_bytes = bytes - freed_bytes; the counts of `sizes` add up to
// its allocations, those of `lifetimes` and `threads` to its frees. The last counter row has the sums over all sites, and
// its faults are those of the sites, the other and the unseen ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct synthetic_options {
  std::size_t sites = 200;
  std::size_t seconds = 300;  // one row of counters each
  std::uint64_t seed = 1;
  profile_mode mode = profile_mode::full;
  bool symbols = true;
  // Not 0: each site has a call path of its own, longer by so many frames, through few functions, as a compiler's has.
  std::size_t depth = 0;
  // Every name ends in what no terminal, table or format may get as it is.
  bool hostile = false;
};

profile synthetic_profile(const synthetic_options& options = {});

// The table "events" of a program with `threads` threads, rows [first, first + rows) of an endless one: mostly small
// blocks that soon go again, some across threads, some for long.
class synthetic_events {
 public:
  explicit synthetic_events(std::uint64_t seed = 1) : state_(seed) {}
  table next(std::size_t rows);

 private:
  std::uint64_t random();

  std::uint64_t state_;
  std::uint64_t time_ = 0;
  std::uint64_t block_ = 0;
  std::vector<std::uint64_t> living_;
};

// A file with all of it, and `event_rows` events.
void write_synthetic_profile(const std::string& path, const synthetic_options& options = {},
                             std::size_t event_rows = 10000);

}  // namespace tarn::profiler
