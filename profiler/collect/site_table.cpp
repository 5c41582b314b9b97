// SPDX-License-Identifier: MIT
#include "profiler/collect/site_table.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "os/invariant.hpp"
#include "profiler/model/site_sum.hpp"

namespace tarn::profiler {

namespace {

constexpr std::size_t most_exact_sizes = 24;
// For one site, whatever the rings claim. Beyond it, pairs of threads are not followed.
constexpr std::size_t most_pairs = 4096;

std::uint8_t binary_floor(std::uint64_t value) {
  return static_cast<std::uint8_t>(value == 0 ? 0 : 63 - std::countl_zero(value));
}

[[gnu::always_inline]] inline size_count& size_of(std::vector<size_count>& sizes, std::uint64_t size,
                                                  bool is_exact) {
  return find_or_append(
      sizes, [size](const size_count& one) { return one.size == size; },
      [size, is_exact] {
        return size_count{size, 0, is_exact};
      });
}

[[gnu::always_inline]] inline lifetime_count& lifetime_of(std::vector<lifetime_count>& lifetimes,
                                                          std::uint8_t lifetime, std::uint8_t size) {
  return find_or_append(
      lifetimes,
      [lifetime, size](const lifetime_count& one) { return one.lifetime == lifetime && one.size == size; },
      [lifetime, size] {
        return lifetime_count{lifetime, size, 0, 0};
      });
}

}  // namespace

// ---- a site ----

void living_site::count_size(std::uint64_t size, double weight) {
  const bool is_exact = sizes.empty() || sizes.front().exact;
  const std::uint64_t key = is_exact ? size : std::uint64_t{1} << binary_floor(size);
  size_of(sizes, key, is_exact).count += weight;
  if (!is_exact || sizes.size() <= most_exact_sizes) return;
  // Too many exact sizes: from here on sizes are counted by powers of two.
  for (const size_count& one : std::exchange(sizes, {}))
    size_of(sizes, std::uint64_t{1} << binary_floor(one.size), false).count += one.count;
}

void living_site::count_lifetime(std::uint64_t size, std::uint64_t lifetime_ns, double weight) {
  lifetime_count& found = lifetime_of(lifetimes, binary_floor(lifetime_ns), binary_floor(size));
  found.count += weight;
  found.bytes += weight * static_cast<double>(size);
}

void living_site::count_pair(std::uint32_t from, std::uint32_t to, double bytes, double weight) {
  const auto same = [from, to](const thread_pair& one) { return one.from == from && one.to == to; };
  if (threads.size() >= most_pairs && std::none_of(threads.begin(), threads.end(), same)) return;
  thread_pair& found = find_or_append(threads, same, [from, to] { return thread_pair{from, to, 0, 0}; });
  found.count += weight;
  found.bytes += bytes;
}

double living_site::rounding() const {
  return figures.bytes > 0 ? std::max(0.0, figures.usable_bytes / figures.bytes - 1) : 0;
}

void living_site::fill(site& to) const {
  to.stack = stack;
  to.figures = figures;
  if (!region.empty()) to.type = region;
  to.sizes = sizes;
  std::sort(to.sizes.begin(), to.sizes.end(), [](const size_count& left, const size_count& right) {
    return left.count != right.count ? left.count > right.count : left.size < right.size;
  });
  to.lifetimes = lifetimes;
  to.threads = threads;
}

void living_site::absorb(const living_site& child, const site_times& times_of_child) {
  // What lives, is lost, and peaks belong to the child's own memory.
  site_figures sums = child.figures;
  sums.live = sums.live_bytes = sums.live_bytes_variance = sums.peak_bytes = sums.bytes_at_peak = 0;
  sums.lost = sums.lost_bytes = sums.indirect = sums.indirect_bytes = 0;
  add_figures(figures, sums);
  times.add(times_of_child);
  parts.add(child.parts);
  sampled_allocations += child.sampled_allocations;
  // Blocks that the child still had at its end are no leaks: the system took the memory back.
  figures.frees += child.figures.live;
  figures.freed_bytes += child.figures.live_bytes;
  for (const lifetime_count& one : child.lifetimes) {
    lifetime_count& found = lifetime_of(lifetimes, one.lifetime, one.size);
    found.count += one.count;
    found.bytes += one.bytes;
  }
  for (const size_count& one : child.sizes) count_size(one.size, one.count);
}

// ---- all sites ----

std::uint32_t site_table::of_node(std::uint32_t node, std::size_t nodes) {
  if (node >= nodes) node = 0;
  if (site_of_node_.size() < nodes) site_of_node_.resize(nodes + nodes / 2);
  std::uint32_t& known = site_of_node_[node];
  if (known == 0) {
    sites_.emplace_back().stack = node;
    known = static_cast<std::uint32_t>(sites_.size());
  }
  return known - 1;
}

std::uint32_t site_table::of_region(std::uint32_t node, const std::string& place) {
  const auto [known, added] =
      site_of_region_.try_emplace({node, place}, static_cast<std::uint32_t>(sites_.size()));
  if (added) {
    living_site& site = sites_.emplace_back();
    site.stack = node;
    site.region = place;
  }
  return known->second;
}

// bytes_at_peak is maintained lazily: a new peak only increments peak_epoch_. A site whose epoch is older has not
// changed since that peak, so its live bytes are still those at the peak; they are saved before the first change
// after it.
void site_table::change_live(living_site& site, double blocks, double bytes, double variance) {
  site_figures& figures = site.figures;
  if (site.peak_epoch != peak_epoch_) {
    figures.bytes_at_peak = figures.live_bytes;
    site.peak_epoch = peak_epoch_;
  }
  figures.live += blocks;
  figures.live_bytes += bytes;
  figures.live_bytes_variance = std::max(0.0, figures.live_bytes_variance + variance);
  // Each block counts as one at least: what is less is the rounding of the sums.
  if (figures.live < 0.5) figures.live = figures.live_bytes = figures.live_bytes_variance = 0;
  figures.peak_bytes = std::max(figures.peak_bytes, figures.live_bytes);
  live_ += blocks;
  live_bytes_ += bytes;
  if (live_bytes_ > peak_bytes_) {
    peak_bytes_ = live_bytes_;
    ++peak_epoch_;
  }
}

void site_table::set_lost(const lost_blocks& blocks) {
  if (blocks.site >= sites_.size()) return;
  site_figures& figures = sites_[blocks.site].figures;
  figures.lost = blocks.lost;
  figures.lost_bytes = blocks.lost_bytes;
  figures.indirect = blocks.indirect;
  figures.indirect_bytes = blocks.indirect_bytes;
}

void site_table::pass_time(std::uint64_t time_ns) {
  passed_ns_ = time_ns;
  if (!marks_.pass(time_ns)) return;
  for (living_site& one : sites_) one.marked = {one.marked[1], one.figures.live_bytes};
}

void site_table::fill(profile& into) const {
  into.sites.resize(sites_.size());
  for (std::size_t index = 0; index < sites_.size(); ++index) {
    const living_site& from = sites_[index];
    site& to = into.sites[index];
    from.fill(to);
    to.figures.earlier_live_bytes = from.marked[marks_.used(passed_ns_)];
    if (from.peak_epoch != peak_epoch_) to.figures.bytes_at_peak = from.figures.live_bytes;
  }
}

void site_table::validate(double blocks, double bytes) const {
  double site_blocks = 0;
  double site_bytes = 0;
  for (const living_site& site : sites_) {
    site_blocks += site.figures.live;
    site_bytes += site.figures.live_bytes;
  }
  constexpr double rounding = 1e-9;
  TARN_INVARIANT("site_table", this, std::abs(live_ - site_blocks) <= rounding * (1 + blocks));
  TARN_INVARIANT("site_table", this, std::abs(live_bytes_ - site_bytes) <= rounding * (1 + bytes));
}

}  // namespace tarn::profiler
