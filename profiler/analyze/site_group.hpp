// SPDX-License-Identifier: MIT
// site_group: the sites that a single change of the code would affect: those that allocate the same type at the
// same place, whatever call path leads there. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// Invariant: `sum` is the sum of the sites' figures. The peaks of several sites may be at different times, so
// sum.peak_bytes is an upper bound, limited to what the whole program had at its peak.
struct site_group {
  std::vector<std::uint32_t> sites;  // the costliest first
  std::string type;
  source_frame place;  // the innermost frame that is neither a library's template nor a wrapper of malloc
  // Functions of the costliest site's frames, from the innermost to the place and its caller.
  std::vector<std::string> functions;
  site_figures sum;
  std::vector<size_count> sizes;  // by count, descending
  cost charged;
  // Faults that only the kernel counted, as far as the group's large blocks were resident although no fault on them
  // was observed.
  double unseen_pages = 0;

  double pages() const noexcept;  // pages provided by page faults
  // Pages of blocks beyond `held` bytes, where only the touched part of blocks counts. Excludes memory that the
  // program maps itself: an allocator cannot keep it, so all its faults are first touches.
  double again(double page_bytes, double held) const noexcept;
  double again(double page_bytes) const noexcept { return again(page_bytes, sum.peak_bytes); }
  double held_variance(double held) const noexcept;  // of so many of its bytes, due to sampling
  double touched_part() const noexcept;              // touched share of the blocks' bytes; 1: not known
  double chunk_part() const noexcept;                // bytes that malloc takes for a block / requested bytes
  double mean_bytes() const noexcept;
  bool in_array_container() const noexcept;  // vector, string, deque: blocks of as many objects as fit
};

double page_bytes_of(const profile& p);

// All groups, the costliest first.
std::vector<site_group> group_sites(const profile& p);

// "file:line function", as far as known.
std::string say_place(const source_frame& frame);

}  // namespace tarn::profiler
