// SPDX-License-Identifier: MIT
// process_model: page faults, and the blocks to which they are assigned.
#include <algorithm>
#include <cmath>
#include <string>

#include "profiler/collect/process_model.hpp"

namespace tarn::profiler {

namespace {

constexpr std::uint64_t most_shared_bytes = std::uint64_t{64} << 20;
constexpr std::size_t most_waiting_faults = std::size_t{1} << 20;
constexpr std::uint64_t page_mask = 4095;
// Tolerance between the times of faults and of the program's events.
constexpr std::uint64_t clocks_differ_ns = 200;
// Bytes after a block where the allocator may keep its next header.
constexpr std::uint64_t header_reach = 128;
constexpr std::uint64_t allocator_reach = std::uint64_t{1} << 20;

}  // namespace

// A fault on a known block or mapping. A fault of weight above 1 is one of a sample, which adds to the variance.
void process_model::count_fault(living_site& site, const fault_event& event) {
  site.figures.faults += event.weight;
  site.figures.fault_pages += event.weight;
  if (event.in_kernel) site.figures.kernel_faults += event.weight;
  site.figures.faults_variance += event.weight * (event.weight - 1);
  joined_faults_ += event.weight;
}

// Requires a block of weight 1.
void process_model::count_block_fault(living_block& block, const fault_event& event) {
  block.faults += event.weight;
  count_fault(sites_[block.site], event);
}

// Bytes that the block occupies, with the allocator's rounding, which is known as an average per site. Allocators
// place blocks at multiples of 16 bytes.
std::uint64_t process_model::space_of(const living_block& block) const {
  constexpr std::uint64_t granule = 16;
  const double usable = static_cast<double>(block.size) * (1 + rounding_of(block.site));
  return (static_cast<std::uint64_t>(std::llround(usable)) + granule - 1) / granule * granule;
}

// Counts the block's part of the fault on `page`; `faults` is the fault's weight.
void process_model::count_part(living_block& block, std::uint64_t page, double faults) {
  const std::uint64_t begin = std::max(block.address, page);
  const std::uint64_t end = std::min(block.address + space_of(block), page + fresh_pages::page_bytes);
  if (begin >= end) return;
  const double part = faults * static_cast<double>(end - begin) / fresh_pages::page_bytes;
  block.faults += part;
  sites_[block.site].parts.add(part * weight_of(block));
}

// A page was faulted in: shares the fault among the sampled blocks that lie on it already.
void process_model::share_page(const fault_event& event) {
  const std::uint64_t page = event.address & ~page_mask;
  heap_faults_.add_fault(event.address, event.weight);
  fresh_pages_.given(page, event.time_ns, event.weight);
  blocks_.for_each_on_page(page, [&](living_block& block) {
    if (weight_of(block) > 1) count_part(block, page, event.weight);
  });
}

// A new sampled block on pages that were faulted in before: gives it its part of their faults.
void process_model::share_fresh_pages(living_block& block, const call_duration& took) {
  const std::uint64_t call = took.is_timed && took.is_known ? static_cast<std::uint64_t>(took.ns) : 0;
  const std::uint64_t begun = block.time_ns - std::min(block.time_ns, call + clocks_differ_ns);
  // Blocks of which each stands for several are small; a recorder that says otherwise must not keep the collector busy.
  const std::uint64_t end = block.address + std::min(space_of(block), most_shared_bytes);
  for (std::uint64_t page = block.address & ~page_mask; page < end; page += fresh_pages::page_bytes) {
    if (!fresh_pages_.is_fresh(page, begun)) continue;
    count_part(block, page, 1);
    fresh_pages_.use_up(page);
  }
}

bool process_model::join(const fault_event& event) {
  living_block* block = blocks_.find_within(event.address);
  if (block != nullptr && weight_of(*block) <= 1) {
    count_block_fault(*block, event);
    return true;
  }
  const auto above = regions_.upper_bound(event.address);
  if (above != regions_.begin() && event.address < std::prev(above)->second.end) {
    count_fault(sites_[std::prev(above)->second.site], event);
    return true;
  }
  if (!settings_.full) share_page(event);
  return false;
}

void process_model::fault(const fault_event& event) {
  seen_faults_ += event.weight;
  seen_squares_ += event.weight * event.weight;
  if (join(event)) return;
  const auto thread = thread_of_id_.find(event.thread);
  if (thread == thread_of_id_.end()) return;
  std::vector<fault_event>& waiting = thread_states_[thread->second].waiting;
  if (waiting.size() < most_waiting_faults) waiting.push_back(event);
}

void process_model::touched(const fault_event& event, std::uint32_t node, const std::string& place) {
  seen_faults_ += event.weight;
  seen_squares_ += event.weight * event.weight;
  const auto [known, added] =
      site_of_region_.try_emplace({node, place}, static_cast<std::uint32_t>(sites_.size()));
  if (added) {
    living_site& site = sites_.emplace_back();
    site.stack = node;
    site.region = place;
  }
  living_site& site = sites_[known->second];
  site.figures.samples += 1;
  count_fault(site, event);
}

// Whether a fault just before `block` was returned was caused by its allocation: it is on the block's pages
// (including the headers around it), or the allocator's code faulted nearby, for example to prepare the memory
// after the block.
bool process_model::is_for(const fault_event& event, const living_block& block) const {
  const std::uint64_t begin = block.address & ~page_mask;
  const std::uint64_t end = block.address + std::max<std::uint64_t>(block.size, 1);
  if (event.address >= begin && event.address < end + header_reach) return true;
  const bool by_allocator =
      event.instruction >= settings_.allocator_start && event.instruction < settings_.allocator_end;
  return by_allocator && event.address + allocator_reach >= begin && event.address < end + allocator_reach;
}

// Decides about the thread's waiting faults once it has allocated `block`; null: it did something else, and they
// are dropped. In mode sample the calls in between are unknown: a fault belongs to this call if it came while the
// call ran. Its page has been shared already (share_page); that is undone if the block, of weight 1, takes the
// whole fault.
double process_model::resolve_waiting(thread_state& thread, const living_block* block,
                                      const call_duration& took) {
  double found = 0;
  if (block != nullptr) {
    living_block* changed = blocks_.find(block->address);
    const bool alone = weight_of(*changed) <= 1;
    for (const fault_event& event : thread.waiting) {
      const bool during =
          took.is_timed &&
          event.time_ns + static_cast<std::uint64_t>(took.ns) + clocks_differ_ns >= block->time_ns;
      if (settings_.full ? !is_for(event, *changed) : !during) continue;
      found += event.weight;
      if (!alone || !is_for(event, *changed)) continue;
      count_block_fault(*changed, event);
      if (!settings_.full) heap_faults_.add_fault(event.address, -event.weight);
    }
  }
  thread.waiting.clear();
  return found;
}

void process_model::settle() {
  for (thread_state& thread : thread_states_) {
    thread.waiting.clear();
    end_run(thread);
  }
}

}  // namespace tarn::profiler
