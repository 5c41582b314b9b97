// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "profiler/model/known_meta.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

namespace {

constexpr double usual_page_bytes = 4096;
constexpr double usual_huge_page_bytes = 2 << 20;

// Many kernels divide processor time into user and system time by sampling at each timer tick, which is inexact for
// few ticks.
double system_time_slack(double system_ns) {
  constexpr double tick_ns = 4e6;
  return tick_ns + std::sqrt(system_ns * tick_ns);
}

double square(double value) { return value * value; }

// A fault has a fixed cost and a cost per page that it provides: prices.fault is the cost with one page,
// prices.huge_fault the cost with a huge page. For page counts between them (folios of 16 to 1024 KiB) the cost is
// assumed to grow linearly.
double price_of_further_page(const profile& p) {
  const double pages = positive_in(p.meta, "huge_page_bytes", usual_huge_page_bytes) /
                       positive_in(p.meta, "page_bytes", usual_page_bytes);
  if (p.prices.huge_fault > p.prices.fault && pages > 1) {
    return (p.prices.huge_fault - p.prices.fault) / (pages - 1);
  }
  return std::min(p.prices.zero_page, p.prices.fault);
}

double fault_price(const profile& p, double faults, double pages) {
  return faults * p.prices.fault + std::max(0.0, pages - faults) * price_of_further_page(p);
}

}  // namespace

cost& cost::operator+=(const cost& more) noexcept {
  for (double cost::*member : {&cost::malloc_ns, &cost::fault_ns, &cost::unmap_ns, &cost::malloc_variance,
                               &cost::malloc_bias, &cost::kernel_variance})
    this->*member += more.*member;
  return *this;
}

cost cost_of(const profile& p, const site_figures& figures) {
  const double pages = std::max(figures.faults, figures.fault_pages);
  const double kernel_of_fault = p.fit.kernel * (p.prices.fault + p.prices.unmap_page);
  cost result;
  result.malloc_ns = p.fit.malloc * figures.malloc_ns;
  result.fault_ns = p.fit.kernel * fault_price(p, figures.faults, pages);
  // All pages are returned, at the latest at the end of the program.
  result.unmap_ns = p.fit.kernel * pages * p.prices.unmap_page;
  result.malloc_variance = p.fit.malloc * p.fit.malloc * figures.malloc_variance +
                           square(p.malloc_time.clock_error * result.malloc_ns);
  result.malloc_bias = p.malloc_time.systematic_error * result.malloc_ns;
  result.kernel_variance = kernel_of_fault * kernel_of_fault * figures.faults_variance;
  return result;
}

site_figures sum_with_variances(const profile& p) {
  // The sites' times were multiplied by `factor`, so that their sum is the mean of the clock's figure, weighted with
  // clock_part, and of the timed calls' sum. Only the latter varies with the timed calls.
  const double clock_part = std::clamp(p.malloc_time.clock_part, 0.0, 1.0);
  const double factor = p.malloc_time.factor > 0 ? p.malloc_time.factor : 1;
  const double timed_part = clock_part > 0 ? square((1 - clock_part) / factor) : 1;
  site_figures sum;
  for (const site& each : p.sites) {
    sum.samples += each.figures.samples;
    sum.allocations += each.figures.allocations;
    sum.live += each.figures.live;
    sum.bytes += each.figures.bytes;
    sum.bytes_at_peak += each.figures.bytes_at_peak;
    sum.allocations_variance += each.figures.allocations_variance;
    sum.bytes_variance += each.figures.bytes_variance;
    sum.live_bytes_variance += each.figures.live_bytes_variance;
    sum.faults_variance += each.figures.faults_variance;
    sum.malloc_variance += timed_part * each.figures.malloc_variance;
    sum.malloc_ns += each.figures.malloc_ns;  // the clock's error and the systematic error are shares of it
  }
  // The number of all faults is exact; samples only divide them between the sites and the others.
  if (p.other_faults + p.unseen_faults > 0) sum.faults_variance = 0;
  return sum;
}

cost cost_of_all(const profile& p) {
  cost sum;
  for (const site& each : p.sites) sum += cost_of(p, each.figures);
  const cost of_sum = cost_of(p, sum_with_variances(p));
  sum.malloc_variance = of_sum.malloc_variance;
  sum.malloc_bias = of_sum.malloc_bias;
  sum.kernel_variance = of_sum.kernel_variance;
  const double others = p.other_faults + p.unseen_faults;
  sum.fault_ns += p.fit.kernel * fault_price(p, others, others);
  sum.unmap_ns += p.fit.kernel * others * p.prices.unmap_page;
  return sum;
}

double other_faults_variance(const profile& p) {
  double variance = 0;
  for (const site& each : p.sites) variance += each.figures.faults_variance;
  return variance;
}

double processor_ns(const profile& p) {
  if (p.counters.empty()) return 0;
  const counter_row& last = p.counters.back();
  return std::max(0.0, last.user_ns + last.system_ns - p.recorder_ns);
}

void fit_costs(profile& p) {
  p.fit = {};
  const double all = processor_ns(p);
  if (all <= 0) return;
  const cost found = cost_of_all(p);
  const double system = p.counters.back().system_ns;
  const double most = std::min(all, system + system_time_slack(system));
  if (found.hidden() > most) p.fit.kernel = most / found.hidden();
  const double hidden = p.fit.kernel * found.hidden();
  const double total = found.malloc_ns + hidden;
  if (total <= all) return;
  p.fit.malloc *= all / total;
  p.fit.kernel *= all / total;
}

double margin_of(double variance) { return margin_in_errors * std::sqrt(std::max(0.0, variance)); }

namespace {

// Of a part of `all`. What a sample stands for is the variance of one byte or block of all, whose variance counts one sample more than
// there are.
double with_unseen(double of_seen, double all, double of_all, double samples) {
  return all > 0 ? of_seen + variance_of_none(of_all / all / (1 + 1 / std::max(1.0, samples))) : of_seen;
}

// In the proportion of the figures.
double share_of(double of_all, double part, double all) {
  return all > 0 ? of_all * std::min(1.0, part / all) : 0;
}

}  // namespace

double live_bytes_variance(const site_figures& of) {
  return with_unseen(of.live_bytes_variance, of.bytes, of.bytes_variance, of.samples);
}

double live_variance(const site_figures& of) {
  return with_unseen(share_of(of.allocations_variance, of.live, of.allocations), of.allocations,
                     of.allocations_variance, of.samples);
}

double peak_variance(const site_figures& of) {
  return with_unseen(share_of(of.bytes_variance, of.bytes_at_peak, of.bytes), of.bytes, of.bytes_variance,
                     of.samples);
}

}  // namespace tarn::profiler
