// SPDX-License-Identifier: MIT
// process_model: rows of the events table, and the figures as of now.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "profiler/collect/process_model.hpp"
#include "profiler/model/site_sum.hpp"

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

void process_model::pass_time(std::uint64_t time_ns) {
  passed_ns_ = time_ns;
  if (time_ns < 2 * marks_ns_[1]) return;
  marks_ns_ = {marks_ns_[1], time_ns};
  for (living_site& one : sites_) one.marked = {one.marked[1], one.figures.live_bytes};
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
    to.figures.earlier_live_bytes = from.marked[used_mark()];
    if (!from.region.empty()) to.type = from.region;
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
  if (!settings_.full) fill_variances(into);
  fill_times(into);
  fill_shared_faults(into);
}

// The variance computed from a sample covers only blocks that were sampled, though a site may have blocks of which
// none was. So every variance is increased as if one more block had been sampled, like the upper end of a Poisson
// count's interval; this also covers sites without any sample. The additional block's variance is the average of
// the site's own samples, or of all sites' samples where the site has none.
//
// The same holds for faults, which are known only of pages near sampled blocks: a heap that is smaller than the
// distance between two samples may be backed before the first one. As if one more sample of fresh pages had been found,
// on one of the sites, with a probability in proportion to its bytes.
void process_model::fill_variances(profile& into) const {
  double samples = 0;
  double squares = 0;
  double bytes = 0;
  for (const living_site& one : sites_) {
    samples += one.sampled_allocations;
    squares += one.figures.allocations_variance;
    bytes += one.figures.bytes;
  }
  const double distance = distance_now();
  const double unseen = std::min(std::max(1.0, distance / fresh_pages::page_bytes),
                                 std::max(0.0, seen_faults_ - joined_faults_));
  const double usual = samples > 0 ? squares / samples : 0;
  const double mean_fault = seen_faults_ > 0 ? seen_squares_ / seen_faults_ : 1;
  for (std::size_t index = 0; index < sites_.size(); ++index) {
    const living_site& from = sites_[index];
    site_figures& to = into.sites[index].figures;
    to.allocations_variance +=
        from.sampled_allocations > 0 ? to.allocations_variance / from.sampled_allocations : usual;
    to.bytes_variance += distance * distance;
    if (to.faults > 0) to.faults_variance += mean_fault * (mean_fault - 1);
    if (bytes > 0) to.faults_variance += unseen * unseen * from.figures.bytes / bytes;
  }
}

void process_model::fill_shared_faults(profile& into) const {
  const double most = std::max(0.0, seen_faults_ - joined_faults_);
  const double shared = std::min(most, heap_faults_.near_blocks());
  fault_parts all;
  for (const living_site& one : sites_) all.add(one.parts);
  into.other_faults = most;
  if (shared <= 0) return;
  const double per_sample = std::max(1.0, distance_now() / fresh_pages::page_bytes);
  for (std::size_t index = 0; index < sites_.size(); ++index) {
    const estimate found = all.of_site(sites_[index].parts, shared, per_sample);
    site_figures& figures = into.sites[index].figures;
    figures.faults += found.value;
    figures.fault_pages += found.value;
    figures.faults_variance += found.variance;
    into.other_faults -= found.value;
  }
  into.other_faults = std::max(0.0, into.other_faults);
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
    // What lives, is lost, and peaks belong to the child's own memory.
    site_figures sums = from.figures;
    sums.live = sums.live_bytes = sums.peak_bytes = sums.bytes_at_peak = 0;
    sums.lost = sums.lost_bytes = sums.indirect = sums.indirect_bytes = 0;
    add_figures(to.figures, sums);
    to.gets.add(times[index].gets);
    to.gives.add(times[index].gives);
    to.large_ns += from.large_ns;
    to.large_calls += from.large_calls;
    to.free_calls += from.free_calls;
    to.parts.add(from.parts);
    to.sampled_allocations += from.sampled_allocations;
    // Blocks that the child still had at its end are no leaks: the system took the memory back.
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
  seen_squares_ += child.seen_squares_;
  heap_faults_.add_process(child.heap_faults_.near_blocks());
  joined_faults_ += child.joined_faults_;
  odd_events_ += child.odd_events_;
  clock_.add(child.clock_);
  fewest_halvings_ = std::min(fewest_halvings_, child.fewest_halvings_);
}

}  // namespace tarn::profiler
