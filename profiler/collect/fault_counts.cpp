// SPDX-License-Identifier: MIT
#include "profiler/collect/fault_counts.hpp"

#include <cmath>

namespace tarn::profiler {

namespace {

constexpr std::uint64_t most_shared_bytes = std::uint64_t{64} << 20;
constexpr std::uint64_t page_mask = 4095;
// Tolerance between the times of faults and of the program's events.
constexpr std::uint64_t clocks_differ_ns = 200;
// Bytes after a block where the allocator may keep its next header.
constexpr std::uint64_t header_reach = 128;
constexpr std::uint64_t allocator_reach = std::uint64_t{1} << 20;

// Bytes that the block occupies, with the allocator's rounding, which is known as an average per site. Allocators
// place blocks at multiples of 16 bytes.
std::uint64_t space_of(const known_memory& memory, const living_block& block) {
  constexpr std::uint64_t granule = 16;
  const double usable = static_cast<double>(block.size) * (1 + memory.sites[block.site].rounding());
  return (static_cast<std::uint64_t>(std::llround(usable)) + granule - 1) / granule * granule;
}

}  // namespace

void fault_counts::see(const fault_event& event) {
  seen_ += event.weight;
  squares_ += event.weight * event.weight;
}

// A fault on a known block or mapping. A fault of weight above 1 is one of a sample, which adds to the variance.
void fault_counts::count_at(living_site& site, const fault_event& event) {
  site.figures.faults += event.weight;
  site.figures.fault_pages += event.weight;
  if (event.in_kernel) site.figures.kernel_faults += event.weight;
  site.figures.faults_variance += event.weight * (event.weight - 1);
  assigned_ += event.weight;
}

// Counts the block's part of the fault on `page`; `faults` is the fault's weight.
void fault_counts::count_part(const known_memory& memory, living_block& block, std::uint64_t page,
                              double faults) {
  const std::uint64_t begin = std::max(block.address, page);
  const std::uint64_t end = std::min(block.address + space_of(memory, block), page + fresh_pages::page_bytes);
  if (begin >= end) return;
  const double part = faults * static_cast<double>(end - begin) / fresh_pages::page_bytes;
  block.faults += part;
  memory.sites[block.site].parts.add(part * memory.weights.of(block));
}

// A page was faulted in: shares the fault among the sampled blocks that lie on it already.
void fault_counts::share_page(const known_memory& memory, const fault_event& event) {
  const std::uint64_t page = event.address & ~page_mask;
  heap_.add_fault(event.address, event.weight);
  fresh_.given(page, event.time_ns, event.weight);
  memory.blocks.for_each_on_page(page, [&](living_block& block) {
    if (memory.weights.of(block) > 1) count_part(memory, block, page, event.weight);
  });
}

// On pages that were faulted in before, it gets its part of their faults.
void fault_counts::place(const known_memory& memory, living_block& block, const call_duration& took) {
  heap_.add_block(block.address);
  if (!settings_.join_faults) return;
  const std::uint64_t call = took.is_timed && took.is_known ? static_cast<std::uint64_t>(took.ns) : 0;
  const std::uint64_t begun = block.time_ns - std::min(block.time_ns, call + clocks_differ_ns);
  // Blocks of which each stands for several are small; a recorder that says otherwise must not keep the collector busy.
  const std::uint64_t end = block.address + std::min(space_of(memory, block), most_shared_bytes);
  for (std::uint64_t page = block.address & ~page_mask; page < end; page += fresh_pages::page_bytes) {
    if (!fresh_.is_fresh(page, begun)) continue;
    count_part(memory, block, page, 1);
    fresh_.use_up(page);
  }
}

bool fault_counts::count(const known_memory& memory, const fault_event& event) {
  see(event);
  living_block* block = memory.blocks.find_within(event.address);
  if (block != nullptr && memory.weights.of(*block) <= 1) {
    block->faults += event.weight;
    count_at(memory.sites[block->site], event);
    return true;
  }
  if (const own_mapping* mapped = memory.mappings.at(event.address)) {
    count_at(memory.sites[mapped->site], event);
    return true;
  }
  if (!settings_.full) share_page(memory, event);
  return false;
}

void fault_counts::count_touch(living_site& site, const fault_event& event) {
  see(event);
  site.figures.samples += 1;
  count_at(site, event);
}

// Whether a fault just before `block` was returned was caused by its allocation: it is on the block's pages
// (including the headers around it), or the allocator's code faulted nearby, for example to prepare the memory
// after the block.
bool fault_counts::is_for(const fault_event& event, const living_block& block) const {
  const std::uint64_t begin = block.address & ~page_mask;
  const std::uint64_t end = block.address + std::max<std::uint64_t>(block.size, 1);
  if (event.address >= begin && event.address < end + header_reach) return true;
  const bool by_allocator =
      event.instruction >= settings_.allocator_start && event.instruction < settings_.allocator_end;
  return by_allocator && event.address + allocator_reach >= begin && event.address < end + allocator_reach;
}

// In mode sample the calls in between are unknown: a fault belongs to this call if it came while the call ran. Its page has been
// shared already (share_page); that is undone if the block, of weight 1, takes the whole fault.
double fault_counts::resolve(const known_memory& memory, const std::vector<fault_event>& waiting,
                             living_block& block, const call_duration& took) {
  double found = 0;
  const bool alone = memory.weights.of(block) <= 1;
  for (const fault_event& event : waiting) {
    const bool during =
        took.is_timed &&
        event.time_ns + static_cast<std::uint64_t>(took.ns) + clocks_differ_ns >= block.time_ns;
    if (settings_.full ? !is_for(event, block) : !during) continue;
    found += event.weight;
    if (!alone || !is_for(event, block)) continue;
    block.faults += event.weight;
    count_at(memory.sites[block.site], event);
    if (!settings_.full) heap_.add_fault(event.address, -event.weight);
  }
  return found;
}

void fault_counts::absorb(const fault_counts& child) {
  seen_ += child.seen_;
  squares_ += child.squares_;
  heap_.add_process(child.heap_.near_blocks());
  assigned_ += child.assigned_;
}

// The variance computed from a sample covers only blocks that were sampled, though a site may have blocks of which
// none was. So every variance is increased as if one more block had been sampled, like the upper end of a Poisson
// count's interval; this also covers sites without any sample. The additional block's variance is the average of
// the site's own samples, or of all sites' samples where the site has none.
//
// The same holds for faults, which are known only of pages near sampled blocks: a heap that is smaller than the
// distance between two samples may be backed before the first one. As if one more sample of fresh pages had been found,
// on one of the sites, with a probability in proportion to its bytes.
void fault_counts::fill_variances(profile& into, const site_table& sites,
                                  const block_weights& weights) const {
  double samples = 0;
  double squares = 0;
  double bytes = 0;
  for (const living_site& one : sites.all()) {
    samples += one.sampled_allocations;
    squares += one.figures.allocations_variance;
    bytes += one.figures.bytes;
  }
  const double distance = weights.distance();
  const double unseen = std::min(std::max(1.0, distance / fresh_pages::page_bytes), unassigned());
  const double usual = samples > 0 ? squares / samples : 0;
  const double mean_fault = seen_ > 0 ? squares_ / seen_ : 1;
  for (std::size_t index = 0; index < sites.size(); ++index) {
    const living_site& from = sites.all()[index];
    site_figures& to = into.sites[index].figures;
    to.allocations_variance +=
        from.sampled_allocations > 0 ? to.allocations_variance / from.sampled_allocations : usual;
    to.bytes_variance += distance * distance;
    if (to.faults > 0) to.faults_variance += mean_fault * (mean_fault - 1);
    if (bytes > 0) to.faults_variance += unseen * unseen * from.figures.bytes / bytes;
  }
}

void fault_counts::fill_shared(profile& into, const site_table& sites, const block_weights& weights) const {
  const double most = unassigned();
  const double shared = std::min(most, heap_.near_blocks());
  fault_parts all;
  for (const living_site& one : sites.all()) all.add(one.parts);
  into.other_faults = most;
  if (shared <= 0) return;
  const double per_sample = std::max(1.0, weights.distance() / fresh_pages::page_bytes);
  for (std::size_t index = 0; index < sites.size(); ++index) {
    const estimate found = all.of_site(sites.all()[index].parts, shared, per_sample);
    site_figures& figures = into.sites[index].figures;
    figures.faults += found.value;
    figures.fault_pages += found.value;
    figures.faults_variance += found.variance;
    into.other_faults -= found.value;
  }
  into.other_faults = std::max(0.0, into.other_faults);
}

}  // namespace tarn::profiler
