// SPDX-License-Identifier: MIT
// process_model: the time spent in calls of malloc and free.
#include <algorithm>
#include <cmath>
#include <vector>

#include "profiler/collect/process_model.hpp"
#include "profiler/record/session.hpp"

namespace tarn::profiler {

namespace {

// If it is not known whether the kernel interrupted a call, a longer one counts as interrupted.
constexpr double doubtful_ns = 100'000;
// Of the mean call time, which remains after subtracting the cost of timing.
constexpr double least_part = 0.25;
constexpr double longest_nothing_ns = 64;  // a call that does nothing and takes longer was disturbed
constexpr double least_nothing = 16;
constexpr double sampled_faults =
    1.5;  // the mean of what a reported fault stands for, by faults, where not all are
constexpr double fault_part = 0.7;  // a call that takes this share of a fault's cost has had a fault

bool is_usable(const call_duration& took, double weight) {
  if (!took.is_timed || !took.is_known) return false;
  return !took.is_doubtful || weight <= 1 || took.ns < doubtful_ns;
}

}  // namespace

// The number of calls that a timed call stands for.
double process_model::time_weight_of(const living_block& block) const {
  if (!settings_.full) return weight_of(block);
  return block.size >= large_block_bytes ? 1 : full_timed_every;
}

// Page faults in a call for which `seen` were reported. Where faults are not observed, or only a sample of them is, so
// that most calls with a fault look like long ones: estimated from the duration of a call for a small block.
double process_model::faults_of_call(const call_duration& took, double weight, double seen) const {
  const bool are_all_seen = settings_.join_faults && seen_squares_ < sampled_faults * seen_faults_;
  if (are_all_seen || settings_.fault_ns <= 0 || weight <= 1) return seen;
  return std::floor(took.ns / settings_.fault_ns + 1 - fault_part);
}

// The duration without page faults and unmapping, which are priced separately. The cost of timing is subtracted
// from the mean only (timed_calls::shorten), as single calls scatter around it.
double process_model::own_time(const call_duration& took, double kernel_ns) const {
  return std::max(took.ns - kernel_ns, std::min(took.ns, timer_ns()));
}

double process_model::timer_ns() const {
  return nothing_.weight >= least_nothing ? nothing_.mean() : settings_.timer_ns;
}

void process_model::nothing_took(const call_duration& took) {
  if (took.ns < longest_nothing_ns) nothing_.add(1, took.ns);
}

void process_model::count_call(std::uint32_t site, bool release, double weight, double ns) {
  living_site& at = sites_[site];
  (release ? at.gives : at.gets).add(weight, ns);
  if (weight > 1) {
    largest_calls_.add({site, release, weight, ns});
  } else {
    at.large_ns += ns;
    at.large_calls += 1;
  }
}

void process_model::count_get(std::uint32_t site, double weight, const call_duration& took, double faults) {
  if (!is_usable(took, weight)) return;
  const double kernel_ns = faults_of_call(took, weight, faults) * settings_.fault_ns;
  count_call(site, false, weight, own_time(took, kernel_ns));
}

void process_model::free_took(std::uint32_t thread, const call_duration& took) {
  thread_state& owner = thread_states_[thread];
  const std::uint32_t site = owner.last_release_site;
  owner.last_release_site = 0;
  const double weight = owner.last_release_weight;
  if (site == 0 || !is_usable(took, weight)) return;
  count_call(site - 1, true, weight, own_time(took, owner.last_release_pages * settings_.unmap_page_ns));
}

void process_model::site_times::add(const site_times& more) noexcept {
  gets.add(more.gets);
  gives.add(more.gives);
  large_ns += more.large_ns;
  large_calls += more.large_calls;
}

double process_model::site_times::small_mean(double otherwise) const noexcept {
  const double calls = gets.weight + gives.weight - large_calls;
  return calls > 0 ? std::max(0.0, gets.ns + gives.ns - large_ns) / calls : otherwise;
}

// The timed calls of all sites, with the largest single calls lowered and the cost of timing subtracted.
std::vector<process_model::site_times> process_model::times_of_sites() const {
  std::vector<site_times> times;
  times.reserve(sites_.size());
  for (const living_site& site : sites_)
    times.push_back({site.gets, site.gives, site.large_ns, site.large_calls});
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

void process_model::clock_sample(double ns_each, code in) noexcept {
  const double malloc = in == code::malloc ? 1 : 0;
  clock_.add({ns_each, 1, malloc, in == code::recorder ? 1.0 : 0.0, malloc});
}

// Times from timed calls alone, before they are scaled to the total.
void process_model::fill_timed(profile& into) const {
  const std::vector<site_times> times = times_of_sites();
  site_times all;
  for (const site_times& one : times) all.add(one);
  const double no_call_ns = settings_.malloc_pair_ns / 2;
  const double get_ns = all.gets.weight > 0 ? all.gets.mean() : no_call_ns;
  const double give_ns = all.gives.weight > 0 ? all.gives.mean() : no_call_ns;
  const double small_ns = all.small_mean(no_call_ns);
  for (std::size_t index = 0; index < sites_.size(); ++index) {
    site_figures& to = into.sites[index].figures;
    const estimate gets = time_of_calls(times[index].gets, to.allocations, get_ns);
    const estimate gives = time_of_calls(times[index].gives, sites_[index].free_calls, give_ns);
    // The number of small blocks is uncertain. Each is allocated once, and freed with the site's frequency.
    const double calls_each = 1 + (to.allocations > 0 ? sites_[index].free_calls / to.allocations : 0);
    const double one_small = calls_each * times[index].small_mean(small_ns);
    to.malloc_ns = gets.value + gives.value;
    to.malloc_variance = gets.variance + gives.variance + to.allocations_variance * one_small * one_small;
  }
}

void process_model::fill_times(profile& into) const {
  fill_timed(into);
  timed_total timed;
  for (std::size_t index = 0; index < sites_.size(); ++index) {
    const site_figures& figures = into.sites[index].figures;
    const double large = std::min(figures.malloc_ns, sites_[index].large_ns);
    timed.large_ns += large;
    timed.small_ns += figures.malloc_ns - large;
    timed.small_variance += figures.malloc_variance;
  }
  // The last counters cover the same processes: this one and its small children.
  const counter_row charged = into.counters.empty() ? counter_row{} : into.counters.back();
  const time_total total = total_time(timed, clock_, {charged.user_ns, charged.system_ns});
  double all_ns = 0;
  for (std::size_t index = 0; index < sites_.size(); ++index) {
    site_figures& figures = into.sites[index].figures;
    const double large = std::min(figures.malloc_ns, sites_[index].large_ns);
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
