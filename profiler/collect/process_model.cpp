// SPDX-License-Identifier: MIT
#include "profiler/collect/process_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "os/invariant.hpp"
#include "profiler/record/session.hpp"

namespace tarn::profiler {

namespace {

constexpr std::size_t most_exact_sizes = 24;
// Limits for one process, whatever its ring claims, as they bound the collector's memory. Beyond a limit, further
// items are counted with others or not followed.
constexpr std::size_t most_regions = std::size_t{1} << 20;
constexpr std::size_t most_pairs = 4096;  // pairs of threads at one site
constexpr std::size_t most_sites_in_run = 32;
constexpr double batch_part = 0.5;                                   // share of a site's living blocks
constexpr std::uint64_t most_number = (std::uint64_t{1} << 56) - 1;  // of living_block::number

std::uint8_t binary_floor(std::uint64_t value) {
  return static_cast<std::uint8_t>(value == 0 ? 0 : 63 - std::countl_zero(value));
}

}  // namespace

process_model::process_model(const model_settings& settings)
    : settings_(settings),
      node_table_(1024),
      blocks_(settings.join_faults),
      fewest_halvings_(settings.first_halvings),
      heap_faults_(settings.sample_bytes) {}

// ---- blocks ----

// The number of blocks that a recorded block of this size stands for.
double process_model::weight_of(std::uint64_t size, std::uint64_t halvings) const {
  if (settings_.full || size >= large_block_bytes) return 1;
  const double distance = std::ldexp(settings_.sample_bytes, -static_cast<int>(halvings));
  return 1 / -std::expm1(-static_cast<double>(countdown_of(size)) / distance);
}

double process_model::distance_now() const noexcept {
  return std::ldexp(settings_.sample_bytes, -static_cast<int>(fewest_halvings_));
}

// bytes_at_peak is maintained lazily: a new peak only increments peak_epoch_. A site whose epoch is older has not
// changed since that peak, so its live bytes are still those at the peak; they are saved before the first change
// after it.
void process_model::change_live(living_site& site, double blocks, double bytes) {
  site_figures& figures = site.figures;
  if (site.peak_epoch != peak_epoch_) {
    figures.bytes_at_peak = figures.live_bytes;
    site.peak_epoch = peak_epoch_;
  }
  figures.live += blocks;
  figures.live_bytes += bytes;
  figures.peak_bytes = std::max(figures.peak_bytes, figures.live_bytes);
  live_ += blocks;
  live_bytes_ += bytes;
  if (live_bytes_ > peak_bytes_) {
    peak_bytes_ = live_bytes_;
    ++peak_epoch_;
  }
}

void process_model::count_size(living_site& site, std::uint64_t size, double weight) {
  const bool exact = site.sizes.empty() || site.sizes.front().exact;
  const std::uint64_t key = exact ? size : std::uint64_t{1} << binary_floor(size);
  size_count& met = meet(
      site.sizes, [key](const size_count& one) { return one.size == key; },
      [key, exact] {
        return size_count{key, 0, exact};
      });
  met.count += weight;
  if (!exact || site.sizes.size() <= most_exact_sizes) return;
  // Too many exact sizes: from here on sizes are counted by powers of two.
  std::vector<size_count> exact_sizes;
  std::swap(exact_sizes, site.sizes);
  for (const size_count& one : exact_sizes) {
    const std::uint64_t floor = std::uint64_t{1} << binary_floor(one.size);
    meet(
        site.sizes, [floor](const size_count& other) { return other.size == floor; },
        [floor] {
          return size_count{floor, 0, false};
        })
        .count += one.count;
  }
}

void process_model::count_lifetime(living_site& site, const living_block& block, std::uint64_t lifetime_ns,
                                   double weight) {
  const std::uint8_t lifetime = binary_floor(lifetime_ns);
  const std::uint8_t size = binary_floor(block.size);
  lifetime_count& met = meet(
      site.lifetimes,
      [lifetime, size](const lifetime_count& one) { return one.lifetime == lifetime && one.size == size; },
      [lifetime, size] {
        return lifetime_count{lifetime, size, 0, 0};
      });
  met.count += weight;
  met.bytes += weight * static_cast<double>(block.size);
}

void process_model::count_pair(living_site& site, std::uint32_t from, std::uint32_t to, double bytes,
                               double weight) {
  const auto same = [from, to](const thread_pair& one) { return one.from == from && one.to == to; };
  if (site.threads.size() >= most_pairs && std::none_of(site.threads.begin(), site.threads.end(), same))
    return;
  thread_pair& met = meet(site.threads, same, [from, to] { return thread_pair{from, to, 0, 0}; });
  met.count += weight;
  met.bytes += bytes;
}

bool process_model::was_youngest(thread_state& thread, std::uint64_t number) {
  for (std::uint32_t back = 1; back <= thread.depth; ++back) {
    const std::uint32_t at = thread.depth - back;
    if (thread.youngest[at] != number) continue;
    std::copy(thread.youngest.begin() + at + 1, thread.youngest.begin() + thread.depth,
              thread.youngest.begin() + at);
    --thread.depth;
    return back == 1;
  }
  return false;
}

void process_model::add_block(std::uint32_t thread, const allocation_event& event, std::uint64_t old_number) {
  if (event.address == 0) {  // no allocator returns 0: the program has overwritten the ring
    ++odd_events_;
    return;
  }
  thread_state& owner = thread_states_[thread];
  end_run(owner);
  if (const living_block* odd = blocks_.find(event.address)) {
    // The free of the older block was not recorded: it happened in a signal handler, or bypassed the hooks.
    const living_block gone = *odd;
    ++odd_events_;
    release_event release;
    release.time_ns = event.time_ns;
    release.address = event.address;
    blocks_.erase(event.address);
    remove_block(gone.thread, gone, release);
  }
  const std::uint32_t index = site_of(event.node);
  living_site& site = sites_[index];
  site_figures& figures = site.figures;
  const double weight = weight_of(event.size, event.halvings);
  const double bytes = weight * static_cast<double>(event.size);
  figures.samples += 1;
  figures.allocations += weight;
  figures.bytes += bytes;
  if (weight > 1) {
    site.sampled_allocations += 1;
    fewest_halvings_ = std::min<std::uint64_t>(fewest_halvings_, event.halvings);
  }
  figures.allocations_variance += weight * (weight - 1);
  figures.bytes_variance +=
      static_cast<double>(event.size) * static_cast<double>(event.size) * weight * (weight - 1);
  if (event.usable != 0) {
    // The recorder tells it for some blocks only; for others it is estimated as glibc's rounding.
    figures.usable_bytes += weight * static_cast<double>(event.usable);
  } else {
    figures.usable_bytes +=
        std::max(weight * 24, weight * static_cast<double>(((event.size + 8 + 15) & ~15U) - 8));
  }
  if (event.kind == event_kind::calloc) {
    figures.callocs += weight;
    figures.calloc_bytes += bytes;
  }
  if (event.size >= large_block_bytes) {
    figures.large += weight;
    figures.large_bytes += bytes;
  }
  count_size(site, event.size, weight);
  allocations_ += weight;
  bytes_ += bytes;
  change_live(site, weight, bytes);

  living_block block;
  block.address = event.address;
  block.size = event.size;
  block.time_ns = event.time_ns;
  block.number = ++last_number_ & most_number;
  block.halvings = event.halvings;
  block.site = index;
  block.thread = thread;
  living_block& added = blocks_.insert(block);
  if (owner.depth == stack_depth) {
    std::copy(owner.youngest.begin() + 1, owner.youngest.end(), owner.youngest.begin());
    --owner.depth;
  }
  owner.youngest[owner.depth++] = block.number;
  put_event(event.time_ns, thread, event.kind, block.number, event.size, event.node,
            event.kind == event_kind::realloc ? old_number : event.alignment);
  if (weight > 1) heap_faults_.add_block(event.address);
  if (weight > 1 && settings_.join_faults) share_fresh_pages(added, event.took);
  const double faults = owner.waiting.empty() ? 0 : resolve_waiting(owner, &added, event.took);
  count_get(index, time_weight_of(block), event.took, faults);
}

void process_model::remove_block(std::uint32_t thread, const living_block& block,
                                 const release_event& event) {
  living_site& site = sites_[block.site];
  site_figures& figures = site.figures;
  const double weight = weight_of(block);
  const double bytes = weight * static_cast<double>(block.size);
  const std::uint64_t lifetime = event.time_ns > block.time_ns ? event.time_ns - block.time_ns : 0;
  figures.frees += weight;
  figures.freed_bytes += bytes;
  figures.lifetime_ns += weight * static_cast<double>(lifetime);
  if (block.thread != thread) figures.foreign_frees += weight;
  if (was_youngest(thread_states_[block.thread], block.number)) figures.lifo_frees += weight;
  count_run(thread_states_[thread], block.site, figures.live, weight);
  figures.checked_bytes += weight * static_cast<double>(event.checked_pages) * settings_.page_bytes;
  figures.resident_bytes += weight * static_cast<double>(event.resident_pages) * settings_.page_bytes;
  count_lifetime(site, block, lifetime, weight);
  count_pair(site, block.thread, thread, bytes, weight);
  frees_ += weight;
  change_live(site, -weight, -bytes);
}

void process_model::count_run(thread_state& thread, std::uint32_t site, double live, double weight) {
  std::vector<freed_part>& run = thread.run;
  ++thread.frees_in_run;
  // Searched from the end: it is usually the last entry, or one of a few.
  const auto part =
      std::find_if(run.rbegin(), run.rend(), [site](const freed_part& one) { return one.site == site; });
  if (part != run.rend()) {
    part->frees += weight;
  } else if (run.size() < most_sites_in_run) {
    run.push_back({site, live, weight});
  }
}

// The frees of the run that count as a batch: those of a site that has lost at least half of the blocks that this
// thread can have had of it. Each thread that frees blocks of the site is assumed to hold an equal share.
double process_model::batch_frees(const thread_state& thread, const freed_part& part) const {
  const auto holders = static_cast<double>(std::max<std::size_t>(1, sites_[part.site].threads.size()));
  return thread.frees_in_run > 1 && part.frees * holders >= batch_part * part.live ? part.frees : 0;
}

void process_model::end_run(thread_state& thread) {
  for (const freed_part& part : thread.run) {
    sites_[part.site].figures.batch_frees += batch_frees(thread, part);
  }
  thread.run.clear();
  thread.frees_in_run = 0;
}

void process_model::allocated(std::uint32_t thread, const allocation_event& event) {
  add_block(thread, event, 0);
  check();
}

void process_model::freed(std::uint32_t thread, const release_event& event) {
  thread_state& owner = thread_states_[thread];
  if (!owner.waiting.empty()) resolve_waiting(owner, nullptr, {});
  owner.last_release_site = 0;
  const living_block* found = blocks_.find(event.address);
  if (found == nullptr) return;  // older than the recording, or inherited by a forked child
  const living_block block = *found;
  blocks_.erase(event.address);
  put_touch(event.time_ns, block);
  put_event(event.time_ns, thread, event.kind, block.number, block.size, 0, 0);
  remove_block(thread, block, event);
  sites_[block.site].free_calls += weight_of(block);
  owner.last_release_site = block.site + 1;
  owner.last_release_weight = time_weight_of(block);
  owner.last_release_pages = static_cast<double>(event.resident_pages);
  check();
}

void process_model::realloc_begins(std::uint32_t thread, const release_event& event) {
  thread_state& owner = thread_states_[thread];
  if (!owner.waiting.empty()) resolve_waiting(owner, nullptr, {});
  drop_moving(thread);
  const living_block* found = blocks_.find(event.address);
  if (found == nullptr) return;
  owner.moving = *found;
  owner.moving_event = event;
  blocks_.erase(event.address);
}

// The block of a realloc whose end is not known counts as freed: a signal handler has interrupted the realloc by one of
// its own, or the program has overwritten the ring.
void process_model::drop_moving(std::uint32_t thread) {
  thread_state& owner = thread_states_[thread];
  const living_block old = std::exchange(owner.moving, {});
  if (old.address == 0) return;
  ++odd_events_;
  remove_block(thread, old, owner.moving_event);
}

void process_model::realloc_ends(std::uint32_t thread, const allocation_event& event, bool recorded) {
  thread_state& owner = thread_states_[thread];
  const bool failed = event.address == 0 && event.size != 0;
  // A block whose place has been given to another one does not live on.
  if (failed && (owner.moving.address == 0 || blocks_.find(owner.moving.address) != nullptr))
    return drop_moving(thread);
  const living_block old = std::exchange(owner.moving, {});
  if (failed) {
    blocks_.insert(old);
    return;
  }
  if (old.address != 0) {
    put_touch(event.time_ns, old);
    if (event.address == 0) {
      put_event(event.time_ns, thread, event_kind::free, old.number, old.size, 0, 0);
    } else {
      const double weight = weight_of(old);
      site_figures& figures = sites_[old.site].figures;
      figures.reallocs += event.size > old.size ? weight : 0;
      figures.realloc_bytes += weight * static_cast<double>(event.size > old.size ? old.size : 0);
      if (!recorded) put_event(event.time_ns, thread, event_kind::free, old.number, old.size, 0, 0);
    }
    remove_block(thread, old, owner.moving_event);
  }
  if (event.address != 0 && recorded) add_block(thread, event, old.number);
  check();
}

void process_model::check() const {
  if (os::is_check_due(blocks_.size())) validate();
}

void process_model::validate() const {
  double blocks = 0;
  double bytes = 0;
  const auto add = [&](const living_block& block) {
    const double weight = weight_of(block);
    blocks += weight;
    bytes += weight * static_cast<double>(block.size);
  };
  blocks_.for_each(add);
  for (const thread_state& thread : thread_states_) {
    if (thread.moving.address != 0) add(thread.moving);
  }
  double site_blocks = 0;
  double site_bytes = 0;
  for (const living_site& site : sites_) {
    site_blocks += site.figures.live;
    site_bytes += site.figures.live_bytes;
  }
  constexpr double rounding = 1e-9;
  const double most_blocks = rounding * (1 + allocations_);
  const double most_bytes = rounding * (1 + bytes_);
  TARN_INVARIANT("process_model", this, std::abs(live_ - blocks) <= most_blocks);
  TARN_INVARIANT("process_model", this, std::abs(live_bytes_ - bytes) <= most_bytes);
  TARN_INVARIANT("process_model", this, std::abs(live_ - site_blocks) <= most_blocks);
  TARN_INVARIANT("process_model", this, std::abs(live_bytes_ - site_bytes) <= most_bytes);
}

// ---- mappings ----

void process_model::mapped(std::uint32_t thread, std::uint64_t time_ns, std::uint64_t address,
                           std::uint64_t bytes, std::uint32_t node) {
  unmapped(thread, time_ns, address, bytes);
  const std::uint32_t index = site_of(node);
  site_figures& figures = sites_[index].figures;
  figures.samples += 1;
  figures.maps += 1;
  figures.mapped_bytes += static_cast<double>(bytes);
  const std::uint64_t number = ++last_number_;
  if (regions_.size() < most_regions) regions_[address] = {address + bytes, number, index};
  put_event(time_ns, thread, event_kind::mmap, number, bytes, node, address);
}

// Regions that reach beyond the unmapped range keep what lies outside of it.
void process_model::unmapped(std::uint32_t thread, std::uint64_t time_ns, std::uint64_t address,
                             std::uint64_t bytes) {
  const std::uint64_t end = address + bytes;
  auto at = regions_.upper_bound(address);
  if (at != regions_.begin()) --at;
  while (at != regions_.end() && at->first < end) {
    const std::uint64_t start = at->first;
    const region old = at->second;
    if (old.end <= address) {
      ++at;
      continue;
    }
    at = regions_.erase(at);
    if (start < address) regions_[start] = {address, old.number, old.site};
    if (old.end > end) regions_[end] = {old.end, old.number, old.site};
    const std::uint64_t from = std::max(start, address);
    put_event(time_ns, thread, event_kind::munmap, old.number, std::min(old.end, end) - from, 0, from);
  }
}

}  // namespace tarn::profiler
