// SPDX-License-Identifier: MIT
// malloc_times: the time that a process spends in malloc and free, from its timed calls, which are counted at their sites, and
// from samples of the clock. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/collect/model_events.hpp"
#include "profiler/collect/site_table.hpp"
#include "profiler/collect/time_total.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

class malloc_times {
 public:
  // The code in which a process was when the clock was sampled.
  enum class code : std::uint8_t { program, malloc, recorder };

  explicit malloc_times(const model_settings& settings) : settings_(settings) {}

  // A call that does nothing: the cost of timing, which is subtracted from all other calls.
  void count_nothing(const call_duration& took);
  // An allocation at `site`, whose times are `at`, which stands for `weight` calls. `faults`: seen during the call;
  // `are_all_seen`: it had no others.
  void count_get(site_times& at, std::uint32_t site, double weight, const call_duration& took, double faults,
                 bool are_all_seen);
  // A free, which gave `pages` back to the system.
  void count_give(site_times& at, std::uint32_t site, double weight, const call_duration& took, double pages);
  // A sample of the clock, one per `ns_each` of processor time.
  void count_clock(double ns_each, code in) noexcept;
  const clock_counts& clock() const noexcept { return clock_; }

  // The times of each site, with the largest single calls lowered and the cost of timing subtracted.
  std::vector<site_times> of_sites(const site_table& sites) const;
  void absorb(const malloc_times& child) { clock_.add(child.clock_); }
  // Requires that the sites and the counters of `into` are filled.
  void fill(profile& into, const site_table& sites) const;

 private:
  double timer_ns() const;
  double own_time(const call_duration& took, double kernel_ns) const;
  double faults_of_call(const call_duration& took, double weight, double seen, bool are_all_seen) const;
  void count_call(site_times& at, std::uint32_t site, bool release, double weight, double ns);
  void fill_timed(profile& into, const site_table& sites) const;

  model_settings settings_;
  largest_calls largest_calls_;
  timed_calls nothing_;
  clock_counts clock_;
};

}  // namespace tarn::profiler
