// SPDX-License-Identifier: MIT
#include "profiler/collect/malloc_times.hpp"

#include <algorithm>
#include <cmath>

namespace tarn::profiler {

namespace {

// If it is not known whether the kernel interrupted a call, a longer one counts as interrupted.
constexpr double doubtful_ns = 100'000;
// At least this part of a mean call time remains when the cost of timing is subtracted.
constexpr double least_part = 0.25;
constexpr double longest_nothing_ns = 64;  // a call that does nothing and takes longer was disturbed
constexpr double least_nothing = 16;
constexpr double fault_part = 0.7;  // a call that takes this share of a fault's cost has had a fault

bool is_usable(const call_duration& took, double weight) {
  if (!took.is_timed || !took.is_known) return false;
  return !took.is_doubtful || weight <= 1 || took.ns < doubtful_ns;
}

}  // namespace

// Page faults in a call for which `seen` were reported. Where faults are not observed, or only a sample of them is, so
// that most calls with a fault look like long ones: estimated from the duration of a call for a small block.
double malloc_times::faults_of_call(const call_duration& took, double weight, double seen,
                                    bool are_all_seen) const {
  if (are_all_seen || settings_.fault_ns <= 0 || weight <= 1) return seen;
  return std::floor(took.ns / settings_.fault_ns + 1 - fault_part);
}

// The duration without page faults and unmapping, which are priced separately. The cost of timing is subtracted
// from the mean only (timed_calls::shorten), as single calls scatter around it; so it is the least time of a call here.
double malloc_times::own_time(const call_duration& took, double kernel_ns) const {
  return std::max(took.ns - kernel_ns, std::min(took.ns, timer_ns()));
}

double malloc_times::timer_ns() const {
  return nothing_.weight >= least_nothing ? nothing_.mean() : settings_.timer_ns;
}

void malloc_times::count_nothing(const call_duration& took) {
  if (took.ns < longest_nothing_ns) nothing_.add(1, took.ns);
}

void malloc_times::count_call(site_times& at, std::uint32_t site, bool release, double weight, double ns) {
  (release ? at.gives : at.gets).add(weight, ns);
  if (weight > 1) {
    largest_calls_.add({site, release, weight, ns});
  } else {
    at.large_ns += ns;
    at.large_calls += 1;
  }
}

void malloc_times::count_get(site_times& at, std::uint32_t site, double weight, const call_duration& took,
                             double faults, bool are_all_seen) {
  if (!is_usable(took, weight)) return;
  const double kernel_ns = faults_of_call(took, weight, faults, are_all_seen) * settings_.fault_ns;
  count_call(at, site, false, weight, own_time(took, kernel_ns));
}

void malloc_times::count_give(site_times& at, std::uint32_t site, double weight, const call_duration& took,
                              double pages) {
  if (!is_usable(took, weight)) return;
  count_call(at, site, true, weight, own_time(took, pages * settings_.unmap_page_ns));
}

std::vector<site_times> malloc_times::of_sites(const site_table& sites) const {
  std::vector<site_times> times;
  times.reserve(sites.size());
  for (const living_site& site : sites.all()) times.push_back(site.times);
  for (const largest_calls::excess& one : largest_calls_.over_the_rest()) {
    site_times& at = times[one.of.site];
    (one.of.release ? at.gives : at.gets).lower(one.of.weight, one.of.ns, one.of.ns - one.ns);
  }
  for (site_times& one : times) {
    one.gets.shorten(timer_ns(), least_part);
    one.gives.shorten(timer_ns(), least_part);
  }
  return times;
}

void malloc_times::count_clock(double ns_each, code in) noexcept {
  const double malloc = in == code::malloc ? 1 : 0;
  clock_.add({ns_each, 1, malloc, in == code::recorder ? 1.0 : 0.0, malloc});
}

// Times from timed calls alone, before they are scaled to the total.
void malloc_times::fill_timed(profile& into, const site_table& sites) const {
  const std::vector<site_times> times = of_sites(sites);
  site_times all;
  for (const site_times& one : times) all.add(one);
  const double no_call_ns = settings_.malloc_pair_ns / 2;
  const double get_ns = all.gets.weight > 0 ? all.gets.mean() : no_call_ns;
  const double give_ns = all.gives.weight > 0 ? all.gives.mean() : no_call_ns;
  const double small_ns = all.small_mean(no_call_ns);
  for (std::size_t index = 0; index < sites.size(); ++index) {
    site_figures& to = into.sites[index].figures;
    const estimate gets = time_of_calls(times[index].gets, to.allocations, get_ns);
    const estimate gives = time_of_calls(times[index].gives, times[index].free_calls, give_ns);
    // The number of small blocks is uncertain. Each is allocated once, and freed with the site's frequency.
    const double calls_each = 1 + (to.allocations > 0 ? times[index].free_calls / to.allocations : 0);
    const double one_small = calls_each * times[index].small_mean(small_ns);
    to.malloc_ns = gets.value + gives.value;
    to.malloc_variance = gets.variance + gives.variance + to.allocations_variance * one_small * one_small;
  }
}

void malloc_times::fill(profile& into, const site_table& sites) const {
  fill_timed(into, sites);
  timed_total timed;
  for (std::size_t index = 0; index < sites.size(); ++index) {
    const site_figures& figures = into.sites[index].figures;
    const double large = std::min(figures.malloc_ns, sites.all()[index].times.large_ns);
    timed.large_ns += large;
    timed.small_ns += figures.malloc_ns - large;
    timed.small_variance += figures.malloc_variance;
  }
  // The last counters cover the same processes: this one and its small children.
  const counter_row charged = into.counters.empty() ? counter_row{} : into.counters.back();
  const time_total total = total_time(timed, clock_, {charged.user_ns, charged.system_ns});
  double all_ns = 0;
  for (std::size_t index = 0; index < sites.size(); ++index) {
    site_figures& figures = into.sites[index].figures;
    const double large = std::min(figures.malloc_ns, sites.all()[index].times.large_ns);
    figures.malloc_ns = large + total.factor * (figures.malloc_ns - large);
    figures.malloc_variance *= total.factor * total.factor;
    all_ns += figures.malloc_ns;
  }
  const double small_part = all_ns > 0 ? total.factor * timed.small_ns / all_ns : 0;
  into.malloc_time = {total.clock_part,
                      total.factor,
                      total.clock_error * small_part,
                      total.systematic_error * small_part,
                      all_ns,
                      small_part * all_ns,
                      clock_.all,
                      clock_.in_malloc,
                      clock_.in_recorder,
                      clock_.ns_each};
}

}  // namespace tarn::profiler
