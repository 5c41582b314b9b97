// SPDX-License-Identifier: MIT
// The cost of the placement of blocks. Blocks that the program visits one after another, but that lie in another
// order or on many pages, cause cache and TLB misses, which appear in the program's own time and not in malloc's.
// How the program visits its blocks is not recorded, so no figure can be given.
#include <algorithm>

#include "profiler/analyze/advice_rules.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::profiler {

namespace {

// More than second-level caches hold, in blocks of which several share a cache line or a page.
constexpr double least_live_bytes = 0x1p22;
constexpr double largest_block = 1024;
// Share of CPU time: a program that does little besides allocating loses little by placement.
constexpr double least_own_part = 0.3;

}  // namespace

small_blocks small_blocks_of(const std::vector<site_group>& groups, const profile& p) {
  small_blocks found;
  double most = 0;
  for (std::size_t index = 0; index < groups.size(); ++index) {
    const site_group& group = groups[index];
    if (group.mean_bytes() > largest_block || group.sum.allocations < 1) continue;
    double at_peak = 0;
    for (const std::uint32_t each : group.sites) at_peak += p.sites[each].figures.bytes_at_peak;
    found.bytes += at_peak;
    if (at_peak > most) found.largest = index;
    most = std::max(most, at_peak);
  }
  return found;
}

bool advice_facts::placement_may_matter() const noexcept {
  return small.bytes >= least_live_bytes && own_ns >= least_own_part * cpu_ns;
}

std::optional<advice> advise_placement(const advice_facts& facts) {
  if (facts.p.proven.rounds > 0 || !facts.placement_may_matter()) return std::nullopt;
  const site_group& largest = facts.groups[facts.small.largest];
  advice one;
  one.kind = advice_kind::placement;
  one.grade = advice_grade::open;
  one.site = largest.sites.front();
  one.headline = "Where blocks lie may matter: only a run can tell";
  one.reason =
      "More small blocks are live at once than fit into the processor's caches. Their order and the number of "
      "their pages decide how long the program itself waits for memory. Another malloc or pools change that, for "
      "better or worse, and no figure of a recording shows it.";
  one.change = "tarn prove FILE";
  one.evidence = {say_bytes(facts.small.bytes) + " in blocks of at most " + say_bytes(largest_block) +
                  " on average live at the peak; the most of them from " + say_place(largest.place)};
  return one;
}

}  // namespace tarn::profiler
