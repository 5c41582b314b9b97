// SPDX-License-Identifier: MIT
// synthetic_profile: the made-up profile of a server, for tests of code that reads profiles. It has every table, every
// figure and every kind of site, and is the same in every run and on every machine.
//
// Invariants: for each site, live = allocations - frees, live_bytes = bytes - freed_bytes, the sum of the counts of
// `sizes` is allocations, and those of `lifetimes` and of `threads` are frees. The last counter row has the sums over
// all sites; its faults = the sites' faults + other_faults + unseen_faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct synthetic_options {
  std::size_t sites = 200;
  std::size_t seconds = 300;  // one row of counters for each second
  std::uint64_t seed = 1;
  profile_mode mode = profile_mode::full;
  bool symbols = true;
  // If not 0: each site has a call path of its own with this many additional frames, out of eight functions.
  std::size_t depth = 0;
  // Every name ends in characters that must not reach a terminal, table or format unescaped.
  bool hostile = false;
};

profile synthetic_profile(const synthetic_options& options = {});

// An endless table "events" of a program with four threads; next() returns its next rows. Blocks are small; most are
// freed soon, some late, and some in another thread than they were allocated in.
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

// Writes a file with the synthetic profile and `event_rows` events.
void write_synthetic_profile(const std::string& path, const synthetic_options& options = {},
                             std::size_t event_rows = 10000);

}  // namespace tarn::profiler
