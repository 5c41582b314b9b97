// SPDX-License-Identifier: MIT
// fault_counts: the page faults of a process, and the blocks and mappings to which they are assigned.
//
// A fault at an address where no block lives may be caused by the thread's next allocation, as malloc writes to the
// block before it returns it. Such a fault waits for the thread's next event.
//
// In mode sample most blocks are unknown, so a page's fault is shared: each block that is placed on the page gets
// the part that it covers of the page's bytes. The number of faults on the small blocks of all sites together is
// known from their addresses (heap_faults); the parts divide it among the sites (fault_parts). Large blocks are all
// known, and get whole faults.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "profiler/collect/block_table.hpp"
#include "profiler/collect/block_weights.hpp"
#include "profiler/collect/fresh_pages.hpp"
#include "profiler/collect/heap_faults.hpp"
#include "profiler/collect/model_events.hpp"
#include "profiler/collect/site_table.hpp"
#include "profiler/model/range_map.hpp"

namespace tarn::profiler {

// A part of a mapping that the program has made itself.
struct own_mapping {
  std::uint64_t number = 0;  // of the mmap call
  std::uint32_t site = 0;
};

// What the process has, as far as is known.
struct known_memory {
  block_table& blocks;
  const range_map<own_mapping>& mappings;
  site_table& sites;
  const block_weights& weights;
};

class fault_counts {
 public:
  explicit fault_counts(const model_settings& settings) : settings_(settings), heap_(settings.sample_bytes) {}

  // True: something known lies there, which gets the fault. False: it may wait for the thread's next event.
  bool count(const known_memory& memory, const fault_event& event);
  // Mode faults.
  void count_touch(living_site& site, const fault_event& event);
  // A block that stands for several is new.
  void place(const known_memory& memory, living_block& block, const call_duration& took);
  // Decides about a thread's waiting faults once it has allocated `block`. Returns how many happened in the call.
  double resolve(const known_memory& memory, const std::vector<fault_event>& waiting, living_block& block,
                 const call_duration& took);

  double seen() const noexcept { return seen_; }
  // No call has had faults that were not reported.
  bool are_all_reported() const noexcept {
    return settings_.join_faults && squares_ < sampled_faults * seen_;
  }
  void absorb(const fault_counts& child);
  // The uncertainty of what each site was given, as far as it is known only from samples.
  void fill_variances(profile& into, const site_table& sites, const block_weights& weights) const;
  // The shared faults, and those that belong to no site.
  void fill_shared(profile& into, const site_table& sites, const block_weights& weights) const;

 private:
  // How many faults a reported one stands for, on average, where not all are reported.
  static constexpr double sampled_faults = 1.5;

  void see(const fault_event& event);
  void count_at(living_site& site, const fault_event& event);
  void count_part(const known_memory& memory, living_block& block, std::uint64_t page, double faults);
  void share_page(const known_memory& memory, const fault_event& event);
  bool is_for(const fault_event& event, const living_block& block) const;
  double unassigned() const { return std::max(0.0, seen_ - assigned_); }

  model_settings settings_;
  double seen_ = 0;
  double squares_ = 0;   // sum of the squares of the faults' weights
  double assigned_ = 0;  // whole faults, to a block or a mapping
  fresh_pages fresh_;
  heap_faults heap_;
};

}  // namespace tarn::profiler
