// SPDX-License-Identifier: MIT
#include "profiler/model/merge.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include "profiler/model/figure_columns.hpp"
#include "profiler/model/site_sum.hpp"
#include "profiler/model/store_profile.hpp"

namespace tarn::profiler {

namespace {

// The last counters of many processes as one row: totals are added, of states the largest stays. Their course over
// time is not kept.
void add_last_counters(std::vector<counter_row>& into, const profile& p) {
  if (p.counters.empty()) return;
  if (into.empty()) into.emplace_back();
  counter_row& sum = into.back();
  for (const counter_column& each : counter_columns) {
    double& value = sum.*each.member;
    for (const counter_row& row : p.counters) {
      if (!is_running_total(each.member)) value = std::max(value, row.*each.member);
    }
    if (is_running_total(each.member)) value += p.counters.back().*each.member;
  }
  sum.time_ns = std::max(sum.time_ns, p.counters.back().time_ns);
}

std::size_t hash_of(const site& one) {
  return std::hash<std::string_view>()(one.type) + one.stack * 0xff51afd7ed558ccdU + one.process;
}

bool is_same_place(const site& one, const site& other) {
  return one.process == other.process && one.stack == other.stack && one.type == other.type;
}

}  // namespace

std::vector<std::uint32_t> profile_merger::take_stacks(const profile& p) {
  const std::vector<std::uint64_t> addresses = addresses_.take_in(p);
  return paths_.add(p.stacks, [&addresses](std::size_t index) { return addresses[index]; });
}

void profile_merger::take_sites(std::vector<site> sites, const std::vector<std::uint32_t>& nodes,
                                std::size_t first_process, std::size_t first_thread) {
  std::vector<site>& all = result_.sites;
  // In place, as there may be many sites: a joined site's index is never above the index that it comes from.
  std::size_t joined = all.size();
  if (all.empty()) {
    all = std::move(sites);
  } else {
    all.insert(all.end(), std::make_move_iterator(sites.begin()), std::make_move_iterator(sites.end()));
  }
  for (std::size_t index = joined; index < all.size(); ++index) {
    site& one = all[index];
    one.stack = nodes[one.stack];
    one.process += static_cast<std::uint32_t>(first_process);
    for (thread_pair& pair : one.threads) {
      pair.from += static_cast<std::uint32_t>(first_thread);
      pair.to += static_cast<std::uint32_t>(first_thread);
    }
    const std::uint32_t at = sites_.find_or_add(
        hash_of(one), static_cast<std::uint32_t>(joined),
        [&](std::uint32_t other) { return is_same_place(all[other], one); },
        [&](std::uint32_t other) { return hash_of(all[other]); });
    if (at != joined) {
      add_site(all[at], one);
    } else {
      if (index != joined) all[joined] = std::move(one);
      ++joined;
    }
  }
  all.resize(joined);
}

std::vector<site> profile_merger::take_sites() {
  sites_.clear();
  return std::exchange(result_.sites, {});
}

void profile_merger::add(profile p) {
  const std::size_t first_process = result_.processes.size();
  const std::size_t first_thread = result_.threads.size();
  if (p.processes.empty()) {
    result_.processes.push_back({stored_meta(p), p.counters});
  } else {
    result_.processes.insert(result_.processes.end(), p.processes.begin(), p.processes.end());
  }
  for (thread_info one : p.threads) {
    one.process += static_cast<std::uint32_t>(first_process);
    result_.threads.push_back(std::move(one));
  }
  const std::vector<std::uint32_t> nodes = take_stacks(p);
  p.stacks = std::vector<stack_node>();  // `= {}` would keep its memory
  p.symbols.clear();
  take_sites(std::move(p.sites), nodes, first_process, first_thread);
}

void profile_merger::add_to(std::size_t process, const profile& p) {
  process_part one{stored_meta(p), {}};
  add_last_counters(one.counters, p);
  if (process == result_.processes.size()) {
    result_.processes.push_back(std::move(one));
  } else {
    process_part& many = result_.processes[process];
    const std::vector<process_part> both = {many, one};
    many.meta = joined_meta(both);
    add_last_counters(many.counters, p);
  }
  std::vector<site> sites = p.sites;
  for (site& each : sites) each.threads.clear();
  take_sites(std::move(sites), take_stacks(p), process, 0);
}

profile profile_merger::take() {
  result_.stacks = paths_.take();
  result_.modules = addresses_.modules();
  result_.symbols = addresses_.symbols();
  result_.counters = joined_counters(result_.processes);
  set_meta(result_, joined_meta(result_.processes));
  profile taken = std::exchange(result_, {});
  *this = {};
  return taken;
}

}  // namespace tarn::profiler
