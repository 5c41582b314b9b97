// SPDX-License-Identifier: MIT
// site_group: the sites that one change in the code would reach: those that allocate the same type at the same place,
// whatever path led there.
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// Invariant: `sum` adds up the sites' figures. Peaks of several sites need not have been at once: sum.peak_bytes is a
// bound then, which is at most what the whole program had at its peak.
struct site_group {
  std::vector<std::uint32_t> sites;  // the costliest first
  std::string type;
  source_frame place;  // the innermost frame that is neither a library's template nor a wrapper of malloc
  std::vector<std::string>
      functions;  // of the costliest site's frames, from the innermost to the place and its caller
  site_figures sum;
  std::vector<size_count> sizes;  // by count, descending
  cost charged;
  // Faults that only the kernel counted, as far as large blocks of the group were in memory and no fault of theirs was seen.
  double unseen_pages = 0;

  double pages() const noexcept;  // given by faults
  // Of the pages of blocks, those beyond `held` bytes, of which blocks are touched as far as they were found in memory.
  // Memory that the program maps itself is no allocator's to keep: its first touches are all new.
  double again(double page_bytes, double held) const noexcept;
  double again(double page_bytes) const noexcept { return again(page_bytes, sum.peak_bytes); }
  double touched_part() const noexcept;  // of its blocks' bytes; 1: not known
  double chunk_part() const noexcept;    // what malloc takes for a block, to what was asked for
  double mean_bytes() const noexcept;
  bool in_array_container() const noexcept;  // vector, string, deque: blocks of as many objects as fit
};

double page_bytes_of(const profile& p);

// All groups, the costliest first.
std::vector<site_group> group_sites(const profile& p);

// "file:line function", as much of it as is known.
std::string say_place(const source_frame& frame);

}  // namespace tarn::profiler
