// SPDX-License-Identifier: MIT
// Where blocks lie: a cost of its own. Blocks that the program visits one after another, and that lie in another order or
// on many pages, cost it misses of the caches and of the address translation, which appear in its own time and not in
// malloc's. How the program visits its blocks is not recorded, so no figure can be given.
#include <algorithm>

#include "profiler/analyze/advice_rules.hpp"
#include "profiler/analyze/quantity.hpp"

namespace tarn::profiler {

namespace {

// More than the second caches hold, in blocks of which several share a line or a page.
constexpr double least_live_bytes = 0x1p22;
constexpr double largest_block = 1024;
// Of CPU time: a program that does little besides allocating has little to wait for.
constexpr double least_own_part = 0.3;

}  // namespace

std::optional<advice> advise_proof_of_placement(const advice_facts& facts) {
  double bytes = 0;
  double blocks = 0;
  const site_group* largest = nullptr;
  double most = 0;
  for (const site_group& group : facts.groups) {
    if (group.mean_bytes() > largest_block || group.sum.allocations < 1) continue;
    double at_peak = 0;
    for (const std::uint32_t index : group.sites) at_peak += facts.p.sites[index].figures.bytes_at_peak;
    bytes += at_peak;
    blocks += at_peak / std::max(1.0, group.mean_bytes());
    if (at_peak > most) largest = &group;
    most = std::max(most, at_peak);
  }
  const double own_ns = facts.cpu_ns - cost_of_all(facts.p).total();
  if (largest == nullptr || bytes < least_live_bytes || own_ns < least_own_part * facts.cpu_ns)
    return std::nullopt;
  advice one;
  one.kind = advice_kind::placement;
  one.site = largest->sites.front();
  one.headline = "Where blocks lie may matter: only running the program tells";
  one.reason =
      "More small blocks live at once than the caches hold. In which order they lie, and on how many pages, decides how "
      "often the program itself waits for memory; another malloc or pools change that, for better or worse, and no estimate "
      "or replay shows it.";
  one.change = "tarn prove FILE";
  one.evidence = {say_count(blocks) + " blocks of at most " + say_bytes(largest_block) +
                      " on average live at the peak, " + say_bytes(bytes) +
                      " in all; the most of them from " + say_place(largest->place),
                  say_of_cpu(facts, own_ns) + " is the program's own, in which it visits them"};
  return one;
}

}  // namespace tarn::profiler
