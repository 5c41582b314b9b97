// SPDX-License-Identifier: MIT
// process_model: events for the file, and the figures as they stand.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "profiler/collect/meet.hpp"
#include "profiler/collect/process_model.hpp"

namespace tarn::profiler {

void process_model::put_event(std::uint64_t time_ns, std::uint32_t thread, event_kind kind,
                              std::uint64_t block, std::uint64_t size, std::uint32_t node,
                              std::uint64_t extra) {
  if (settings_.most_events == 0) return;
  if (all_event_rows_ >= settings_.most_events) {
    events_cut_ = true;
    return;
  }
  event_columns_[0].push_back(time_ns);
  event_columns_[1].push_back(thread);
  event_columns_[2].push_back(static_cast<std::uint64_t>(kind));
  event_columns_[3].push_back(block);
  event_columns_[4].push_back(size);
  event_columns_[5].push_back(node);
  event_columns_[6].push_back(extra);
  ++event_rows_;
  ++all_event_rows_;
}

void process_model::put_touch(std::uint64_t time_ns, const living_block& block) {
  if (block.faults < 0.5) return;
  put_event(time_ns, block.thread, event_kind::touch, block.number, block.size, 0,
            static_cast<std::uint64_t>(std::llround(block.faults)));
}

table process_model::take_events() {
  table rows;
  rows.name = "events";
  rows.rows = event_rows_;
  constexpr const char* names[] = {"time_ns", "thread", "kind", "block", "size", "stack", "extra"};
  for (std::size_t index = 0; index < std::size(names); ++index) {
    rows.columns.push_back({names[index], std::exchange(event_columns_[index], {})});
    event_columns_[index].reserve(event_rows_);
  }
  event_rows_ = 0;
  return rows;
}

void process_model::drop_events() {
  take_events();
  settings_.most_events = 0;
}

void process_model::set_lost(const lost_blocks& blocks) {
  if (blocks.site >= sites_.size()) return;
  site_figures& figures = sites_[blocks.site].figures;
  figures.lost = blocks.lost;
  figures.lost_bytes = blocks.lost_bytes;
  figures.indirect = blocks.indirect;
  figures.indirect_bytes = blocks.indirect_bytes;
}

double process_model::rounding_of(std::uint32_t site) const {
  const site_figures& figures = sites_[site].figures;
  return figures.bytes > 0 ? std::max(0.0, figures.usable_bytes / figures.bytes - 1) : 0;
}

void process_model::fill(profile& into) const {
  into.stacks = stacks_;
  into.threads = threads_;
  into.sites.resize(sites_.size());
  for (std::size_t index = 0; index < sites_.size(); ++index) {
    const living_site& from = sites_[index];
    site& to = into.sites[index];
    to.stack = from.stack;
    to.figures = from.figures;
    if (!from.region.empty()) to.type = from.region;
    if (!settings_.full && to.figures.samples > 0) {
      // Of few samples the variance that they show is too small: as if there were one more (a Poisson count's upper end).
      const double one_more = (to.figures.samples + 1) / to.figures.samples;
      for (double* variance :
           {&to.figures.allocations_variance, &to.figures.bytes_variance, &to.figures.faults_variance}) {
        *variance *= one_more;
      }
    }
    if (from.peak_epoch != peak_epoch_) to.figures.bytes_at_peak = from.figures.live_bytes;
    to.sizes = from.sizes;
    std::sort(to.sizes.begin(), to.sizes.end(), [](const size_count& left, const size_count& right) {
      return left.count != right.count ? left.count > right.count : left.size < right.size;
    });
    to.lifetimes = from.lifetimes;
    to.threads = from.threads;
  }
  for (const thread_state& thread : thread_states_) {
    for (const freed_part& part : thread.run) {
      into.sites[part.site].figures.batch_frees += batch_frees(thread, part);
    }
  }
  fill_times(into);
  fit_faults(into);
}

// What sampled blocks stand for is uncertain, and the number of all faults is not: together they are no more than that.
void process_model::fit_faults(profile& into) const {
  double sampled = 0;
  for (const living_site& site : sites_) sampled += site.sampled_faults;
  const double counted = joined_faults_ - sampled;
  into.other_faults = std::max(0.0, seen_faults_ - joined_faults_);
  const double most = std::max(0.0, seen_faults_ - counted);
  if (sampled <= most) return;
  const double part = most / sampled;
  for (std::size_t index = 0; index < sites_.size(); ++index) {
    const double too_many = (1 - part) * sites_[index].sampled_faults;
    site_figures& figures = into.sites[index].figures;
    const double kept = figures.faults > 0 ? std::max(0.0, 1 - too_many / figures.faults) : 1;
    figures.faults *= kept;
    figures.fault_pages *= kept;
    figures.kernel_faults *= kept;
    figures.faults_variance *= kept * kept;
  }
}

void process_model::absorb(const process_model& child) {
  std::vector<std::uint32_t> nodes(child.stacks_.size());
  for (std::size_t index = 1; index < child.stacks_.size(); ++index) {
    nodes[index] = node(nodes[child.stacks_[index].parent], child.stacks_[index].address);
  }
  const std::vector<site_times> times = child.times_of_sites();
  for (std::size_t index = 0; index < child.sites_.size(); ++index) {
    const living_site& from = child.sites_[index];
    living_site& to = sites_[site_of(nodes[from.stack])];
    const site_figures before = to.figures;
    // All sums; what lives, or lived at a time, was in another process.
    for (double site_figures::*member :
         {&site_figures::samples,        &site_figures::allocations,    &site_figures::frees,
          &site_figures::bytes,          &site_figures::usable_bytes,   &site_figures::freed_bytes,
          &site_figures::lifetime_ns,    &site_figures::foreign_frees,  &site_figures::lifo_frees,
          &site_figures::batch_frees,    &site_figures::callocs,        &site_figures::calloc_bytes,
          &site_figures::reallocs,       &site_figures::realloc_bytes,  &site_figures::large,
          &site_figures::large_bytes,    &site_figures::faults,         &site_figures::fault_pages,
          &site_figures::kernel_faults,  &site_figures::checked_bytes,  &site_figures::resident_bytes,
          &site_figures::maps,           &site_figures::mapped_bytes,   &site_figures::allocations_variance,
          &site_figures::bytes_variance, &site_figures::faults_variance}) {
      to.figures.*member = before.*member + from.figures.*member;
    }
    to.gets.add(times[index].gets);
    to.gives.add(times[index].gives);
    to.large_ns += from.large_ns;
    to.free_calls += from.free_calls;
    to.sampled_faults += from.sampled_faults;
    // What the child left to its end is no leak: the system took it back.
    to.figures.frees += from.figures.live;
    to.figures.freed_bytes += from.figures.live_bytes;
    for (const lifetime_count& one : from.lifetimes) {
      lifetime_count& met = meet(
          to.lifetimes,
          [&one](const lifetime_count& other) {
            return other.lifetime == one.lifetime && other.size == one.size;
          },
          [&one] {
            return lifetime_count{one.lifetime, one.size, 0, 0};
          });
      met.count += one.count;
      met.bytes += one.bytes;
    }
    for (const size_count& one : from.sizes) count_size(to, one.size, one.count);
  }
  allocations_ += child.allocations_;
  frees_ += child.allocations_;
  bytes_ += child.bytes_;
  seen_faults_ += child.seen_faults_;
  kernel_faults_ += child.kernel_faults_;
  joined_faults_ += child.joined_faults_;
  odd_events_ += child.odd_events_;
  clock_.add(child.clock_);
}

}  // namespace tarn::profiler
