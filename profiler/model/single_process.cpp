// SPDX-License-Identifier: MIT
// single_process: one of the processes of a merged profile, by itself.
#include <algorithm>
#include <set>
#include <utility>

#include "profiler/model/merge.hpp"

namespace tarn::profiler {

namespace {

// Takes from `all` the call paths that lead to a site of `p`.
void take_own_paths(profile& p, const std::vector<stack_node>& all) {
  std::vector<bool> used(all.size());
  std::size_t count = 1;
  for (const site& each : p.sites) {
    for (std::uint32_t node = each.stack; node != 0 && !used[node]; node = all[node].parent) {
      used[node] = true;
      ++count;
    }
  }
  std::vector<std::uint32_t> moved(all.size());
  p.stacks.assign(1, {});
  p.stacks.reserve(count);
  std::set<std::uint64_t> addresses;
  for (std::size_t node = 1; node < all.size(); ++node) {
    if (!used[node]) continue;
    moved[node] = static_cast<std::uint32_t>(p.stacks.size());
    p.stacks.push_back({moved[all[node].parent], all[node].address});
    addresses.insert(all[node].address);
  }
  for (site& each : p.sites) each.stack = moved[each.stack];
  std::erase_if(p.symbols, [&addresses](const auto& each) { return !addresses.contains(each.first); });
}

// `copy` returns the copy of a site.
template <class Parts, class Copy>
profile process_with(Parts& parts, std::size_t process, Copy copy) {
  profile one;
  one.modules = parts.modules;
  one.symbols = parts.symbols;
  one.damage = parts.damage;
  one.counters = parts.processes[process].counters;
  std::vector<std::uint32_t> rows(parts.threads.size());
  for (std::size_t row = 0; row < parts.threads.size(); ++row) {
    if (parts.threads[row].process != process) continue;
    rows[row] = static_cast<std::uint32_t>(one.threads.size());
    one.threads.push_back(parts.threads[row]);
    one.threads.back().process = 0;
  }
  // Counted first: growing would hold them twice.
  one.sites.reserve(static_cast<std::size_t>(
      std::count_if(parts.sites.begin(), parts.sites.end(),
                    [process](const site& each) { return each.process == process; })));
  for (auto& each : parts.sites) {
    if (each.process != process) continue;
    one.sites.push_back(copy(each));
    one.sites.back().process = 0;
    for (thread_pair& pair : one.sites.back().threads)
      pair = {rows[pair.from], rows[pair.to], pair.count, pair.bytes};
  }
  take_own_paths(one, parts.stacks);
  set_meta(one, parts.processes[process].meta);
  fit_costs(one);
  return one;
}

void swap_lists(site& a, site& b) {
  std::swap(a.sizes, b.sizes);
  std::swap(a.lifetimes, b.lifetimes);
}

}  // namespace

profile process_of(const profile& parts, std::size_t process) {
  return process_with(parts, process, [](const site& each) { return each; });
}

borrowed_process::borrowed_process(profile& parts, std::size_t process)
    : parts_(parts), process_(process), one_(process_with(parts, process, [](site& each) {
        site lists;
        swap_lists(each, lists);
        site copy = each;
        swap_lists(copy, lists);
        return copy;
      })) {}

// The process's sites are in the order of `parts`.
borrowed_process::~borrowed_process() {
  auto next = one_.sites.begin();
  for (site& each : parts_.sites) {
    if (each.process == process_) swap_lists(each, *next++);
  }
}

}  // namespace tarn::profiler
