// SPDX-License-Identifier: MIT
#include "profiler/collect/process_model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "os/invariant.hpp"

namespace tarn::profiler {

namespace {

// Limits for one process, whatever its rings claim, as they bound the collector's memory. Beyond a limit, further items are
// counted with others, or not followed.
constexpr std::size_t most_paths = std::size_t{1} << 22;
// Besides these, and besides site_table::most_sites: functions that call malloc, without their callers.
constexpr std::size_t most_without_callers = std::size_t{1} << 16;
constexpr std::size_t most_waiting_faults = std::size_t{1} << 20;  // of a thread
constexpr std::size_t most_mappings = std::size_t{1} << 20;
constexpr std::uint64_t most_number = (std::uint64_t{1} << 56) - 1;  // of living_block::number

// Of the bytes that a sampled block stands for.
double variance_of_block(std::uint64_t bytes, double weight) {
  const auto size = static_cast<double>(bytes);
  return size * size * weight * (weight - 1);
}

}  // namespace

process_model::process_model(const model_settings& settings)
    : settings_(settings),
      weights_(settings),
      blocks_(settings.join_faults),
      times_(settings),
      faults_(settings),
      events_(settings.most_events) {}

std::uint32_t process_model::node(std::uint32_t parent, std::uint64_t address) {
  if (parent >= stacks().size()) parent = 0;
  if (stacks().size() < most_paths) return paths_.find_or_add(parent, address);
  const std::uint32_t known = paths_.find(parent, address, 0);
  return known != 0 ? known : node_without_callers(address);
}

std::uint32_t process_model::node_without_callers(std::uint64_t address) {
  if (stacks().size() < most_paths + most_without_callers) return paths_.find_or_add(0, address);
  return paths_.find(0, address, 0);
}

std::uint32_t process_model::site_of(std::uint32_t node, double events) {
  if (node >= stacks().size()) node = 0;
  const bool is_full = sites_.size() >= site_table::most_sites && !sites_.has(node);
  if (is_full) {
    node = node_without_callers(stacks()[node].address);
    if (sites_.size() >= site_table::most_sites + most_without_callers && !sites_.has(node)) node = 0;
  }
  if (is_full || (stacks().size() >= most_paths && stacks()[node].parent == 0)) without_callers_ += events;
  return sites_.of_node(node, stacks().size());
}

// ---- threads ----

std::uint32_t process_model::begin_thread(std::uint32_t id, std::uint64_t time_ns) {
  // Not while there are single events, which name threads by their rows; and not often, as each block is looked at.
  if (threads_.is_crowded() && !events_.is_kept()) join_ended_threads();
  const std::uint32_t row = threads_.begin(id, time_ns);
  thread_states_.resize(threads_.size());
  return row;
}

void process_model::join_ended_threads() {
  const std::vector<std::uint32_t> ended = threads_.ended();
  for (const std::uint32_t row : ended) {
    drop_moving(row);
    thread_states_[row] = {};
  }
  const auto place = [&](std::uint32_t row) { return threads_.has_ended(row) ? ended.front() : row; };
  blocks_.change_each([&](living_block& block) { block.thread = place(block.thread); });
  sites_.move_threads(place);
  threads_.join(ended);
}

void process_model::end_thread(std::uint32_t thread, std::uint64_t time_ns) {
  thread_states_[thread].waiting.clear();
  end_run(thread_states_[thread]);
  threads_.end(thread, time_ns);
}

void process_model::end_run(thread_state& thread) {
  for (const free_run::part& part : thread.run.parts()) {
    living_site& site = sites_[part.site];
    site.figures.batch_frees += thread.run.batch_frees(part, site.threads.size());
  }
  thread.run.end();
}

void process_model::finish_events() {
  for (thread_state& thread : thread_states_) {
    thread.waiting.clear();
    end_run(thread);
  }
}

// ---- blocks ----

[[gnu::always_inline]] inline void process_model::end_odd_block(const allocation_event& event) {
  const living_block* odd = blocks_.find(event.address);
  if (odd == nullptr) return;
  // It happened in a signal handler, or bypassed the hooks.
  const living_block gone = *odd;
  ++odd_events_;
  release_event release{.time_ns = event.time_ns, .address = event.address};
  blocks_.erase(event.address);
  remove_block(gone.thread, gone, release);
}

[[gnu::always_inline]] inline void process_model::count_block(living_site& site,
                                                              const allocation_event& event, double weight) {
  site_figures& figures = site.figures;
  const auto size = static_cast<double>(event.size);
  const double bytes = weight * size;
  figures.samples += 1;
  figures.allocations += weight;
  figures.bytes += bytes;
  if (weight > 1) {
    site.sampled_allocations += 1;
    weights_.see(event.halvings);
  }
  figures.allocations_variance += weight * (weight - 1);
  const double variance = variance_of_block(event.size, weight);
  figures.bytes_variance += variance;
  if (event.usable != 0) {
    // The recorder knows it for some blocks only; for others it is estimated as glibc's rounding.
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
  site.count_size(event.size, weight);
  allocations_ += weight;
  bytes_ += bytes;
  sites_.change_live(site, weight, bytes, variance);
}

void process_model::add_block(std::uint32_t thread, const allocation_event& event, std::uint64_t old_number) {
  if (event.address == 0) {  // no allocator returns 0: the program has overwritten the ring
    ++odd_events_;
    return;
  }
  thread_state& owner = thread_states_[thread];
  end_run(owner);
  end_odd_block(event);
  const double weight = weights_.of(event.size, event.halvings);
  const std::uint32_t index = site_of(event.node, weight);
  living_site& site = sites_[index];
  count_block(site, event, weight);

  living_block block;
  block.address = event.address;
  block.size = event.size;
  block.time_ns = event.time_ns;
  block.number = ++last_number_ & most_number;
  block.halvings = event.halvings;
  block.site = index;
  block.thread = thread;
  living_block& added = blocks_.insert(block);
  owner.youngest.add(block.number);
  events_.put(event.time_ns, thread, event.kind, block.number, event.size, event.node,
              event.kind == event_kind::realloc ? old_number : event.alignment);
  if (weight > 1) faults_.place(memory(), added, event.took);
  double faults = 0;
  if (!owner.waiting.empty()) {
    faults = faults_.resolve(memory(), owner.waiting, added, event.took);
    owner.waiting.clear();
  }
  times_.count_get(site.times, index, weights_.of_calls(block), event.took, faults,
                   faults_.are_all_reported());
}

void process_model::remove_block(std::uint32_t thread, const living_block& block,
                                 const release_event& event) {
  living_site& site = sites_[block.site];
  site_figures& figures = site.figures;
  const double weight = weights_.of(block);
  const double bytes = weight * static_cast<double>(block.size);
  const std::uint64_t lifetime = event.time_ns > block.time_ns ? event.time_ns - block.time_ns : 0;
  figures.frees += weight;
  figures.freed_bytes += bytes;
  figures.lifetime_ns += weight * static_cast<double>(lifetime);
  if (block.thread != thread) figures.foreign_frees += weight;
  if (thread_states_[block.thread].youngest.remove(block.number)) figures.lifo_frees += weight;
  thread_states_[thread].run.add(block.site, figures.live, weight);
  figures.checked_bytes += weight * static_cast<double>(event.checked_pages) * settings_.page_bytes;
  figures.resident_bytes += weight * static_cast<double>(event.resident_pages) * settings_.page_bytes;
  site.count_lifetime(block.size, lifetime, weight);
  site.count_pair(block.thread, thread, bytes, weight);
  frees_ += weight;
  sites_.change_live(site, -weight, -bytes, -variance_of_block(block.size, weight));
}

void process_model::allocated(std::uint32_t thread, const allocation_event& event) {
  add_block(thread, event, 0);
  check();
}

void process_model::freed(std::uint32_t thread, const release_event& event) {
  thread_state& owner = thread_states_[thread];
  owner.waiting.clear();
  owner.last_release_site = 0;
  const living_block* found = blocks_.find(event.address);
  if (found == nullptr) return;  // older than the recording, or inherited by a forked child
  const living_block block = *found;
  blocks_.erase(event.address);
  events_.put_touch(event.time_ns, block);
  events_.put(event.time_ns, thread, event.kind, block.number, block.size, 0, 0);
  remove_block(thread, block, event);
  sites_[block.site].times.free_calls += weights_.of(block);
  owner.last_release_site = block.site + 1;
  owner.last_release_weight = weights_.of_calls(block);
  owner.last_release_pages = static_cast<double>(event.resident_pages);
  check();
}

void process_model::free_took(std::uint32_t thread, const call_duration& took) {
  thread_state& owner = thread_states_[thread];
  const std::uint32_t site = std::exchange(owner.last_release_site, 0);
  if (site == 0) return;
  times_.count_give(sites_[site - 1].times, site - 1, owner.last_release_weight, took,
                    owner.last_release_pages);
}

void process_model::realloc_begins(std::uint32_t thread, const release_event& event) {
  thread_state& owner = thread_states_[thread];
  owner.waiting.clear();
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
    events_.put_touch(event.time_ns, old);
    if (event.address != 0) {
      const double weight = weights_.of(old);
      site_figures& figures = sites_[old.site].figures;
      figures.reallocs += event.size > old.size ? weight : 0;
      figures.realloc_bytes += weight * static_cast<double>(event.size > old.size ? old.size : 0);
    }
    if (event.address == 0 || !recorded)
      events_.put(event.time_ns, thread, event_kind::free, old.number, old.size, 0, 0);
    remove_block(thread, old, owner.moving_event);
  }
  if (event.address != 0 && recorded) add_block(thread, event, old.number);
  check();
}

// ---- mappings and page faults ----

void process_model::mapped(std::uint32_t thread, std::uint64_t time_ns, std::uint64_t address,
                           std::uint64_t bytes, std::uint32_t node) {
  unmapped(thread, time_ns, address, bytes);
  const std::uint32_t index = site_of(node, 1);
  site_figures& figures = sites_[index].figures;
  figures.samples += 1;
  figures.maps += 1;
  figures.mapped_bytes += static_cast<double>(bytes);
  const std::uint64_t number = ++last_number_;
  if (mappings_.size() < most_mappings) mappings_.add(address, address + bytes, {number, index});
  events_.put(time_ns, thread, event_kind::mmap, number, bytes, node, address);
}

void process_model::unmapped(std::uint32_t thread, std::uint64_t time_ns, std::uint64_t address,
                             std::uint64_t bytes) {
  thread_state& owner = thread_states_[thread];
  owner.last_unmapped = address;
  owner.last_unmapped_parts.clear();
  mappings_.remove(address, address + bytes,
                   [&](const own_mapping& old, std::uint64_t from, std::uint64_t to) {
                     owner.last_unmapped_parts.push_back({old, from, to});
                     events_.put(time_ns, thread, event_kind::munmap, old.number, to - from, 0, from);
                   });
}

// Another thread may have mapped something in its place meanwhile (MAP_FIXED): that stays.
void process_model::unmap_refused(std::uint32_t thread, std::uint64_t time_ns, std::uint64_t address) {
  thread_state& owner = thread_states_[thread];
  if (owner.last_unmapped != address) return;
  std::vector<mapped_part> newer;
  for (const mapped_part& part : std::exchange(owner.last_unmapped_parts, {})) {
    mappings_.remove(part.from, part.to, [&](const own_mapping& one, std::uint64_t from, std::uint64_t to) {
      newer.push_back({one, from, to});
    });
    mappings_.add(part.from, part.to, part.mapping);
    events_.put(time_ns, thread, event_kind::mmap, part.mapping.number, part.to - part.from,
                sites_[part.mapping.site].stack, part.from);
  }
  for (const mapped_part& part : newer) mappings_.add(part.from, part.to, part.mapping);
}

void process_model::fault(const fault_event& event) {
  if (faults_.count(memory(), event)) return;
  const auto thread = threads_.row_of(event.thread);
  if (!thread) return;
  std::vector<fault_event>& waiting = thread_states_[*thread].waiting;
  if (waiting.size() < most_waiting_faults) waiting.push_back(event);
}

void process_model::touched(const fault_event& event, std::uint32_t node, const std::string& place) {
  faults_.count_touch(sites_[sites_.of_region(node, place)], event);
}

// ---- the whole ----

void process_model::fill(profile& into) const {
  into.stacks = stacks();
  into.threads = threads_.rows();
  sites_.fill(into);
  for (const thread_state& thread : thread_states_) {
    for (const free_run::part& part : thread.run.parts()) {
      into.sites[part.site].figures.batch_frees +=
          thread.run.batch_frees(part, sites_[part.site].threads.size());
    }
  }
  if (!settings_.full) faults_.fill_variances(into, sites_, weights_);
  times_.fill(into, sites_);
  faults_.fill_shared(into, sites_, weights_);
}

void process_model::absorb(const process_model& child) {
  std::vector<std::uint32_t> nodes(child.stacks().size());
  for (std::size_t index = 1; index < nodes.size(); ++index)
    nodes[index] = node(nodes[child.stacks()[index].parent], child.stacks()[index].address);
  const std::vector<site_times> times = child.times_.of_sites(child.sites_);
  for (std::size_t index = 0; index < child.sites_.size(); ++index) {
    const living_site& from = child.sites_.all()[index];
    sites_[site_of(nodes[from.stack], from.figures.allocations + from.figures.maps)].absorb(from,
                                                                                            times[index]);
  }
  allocations_ += child.allocations_;
  frees_ += child.allocations_;
  bytes_ += child.bytes_;
  faults_.absorb(child.faults_);
  odd_events_ += child.odd_events_;
  times_.absorb(child.times_);
  weights_.see(child.weights_);
}

void process_model::check() const {
  if (os::is_check_due(blocks_.size())) validate();
}

void process_model::validate() const {
  double blocks = 0;
  double bytes = 0;
  const auto add = [&](const living_block& block) {
    const double weight = weights_.of(block);
    blocks += weight;
    bytes += weight * static_cast<double>(block.size);
  };
  blocks_.for_each(add);
  for (const thread_state& thread : thread_states_) {
    if (thread.moving.address != 0) add(thread.moving);
  }
  constexpr double rounding = 1e-9;
  TARN_INVARIANT("process_model", this, std::abs(live_blocks() - blocks) <= rounding * (1 + allocations_));
  TARN_INVARIANT("process_model", this, std::abs(live_bytes() - bytes) <= rounding * (1 + bytes_));
  sites_.validate(allocations_, bytes_);
}

}  // namespace tarn::profiler
