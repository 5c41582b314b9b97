// SPDX-License-Identifier: MIT
#include "profiler/model/merge.hpp"

#include <algorithm>
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

}  // namespace

std::vector<std::uint32_t> profile_merger::take_stacks(const profile& p) {
  if (result_.stacks.empty()) result_.stacks.emplace_back();
  const std::vector<std::uint64_t> addresses = addresses_.take_in(p);
  std::vector<std::uint32_t> nodes(std::max<std::size_t>(1, p.stacks.size()));
  for (std::size_t index = 1; index < p.stacks.size(); ++index) {
    const std::uint32_t parent = nodes[p.stacks[index].parent];
    const auto next = static_cast<std::uint32_t>(result_.stacks.size());
    const auto [at, is_new] = nodes_.try_emplace({parent, addresses[index]}, next);
    if (is_new) result_.stacks.push_back({parent, addresses[index]});
    nodes[index] = at->second;
  }
  return nodes;
}

void profile_merger::take_sites(std::vector<site> sites, const std::vector<std::uint32_t>& nodes,
                                std::size_t first_process, std::size_t first_thread, bool with_threads) {
  for (site& one : sites) {
    const auto process = static_cast<std::uint32_t>(first_process + one.process);
    one.stack = nodes[one.stack];
    one.process = process;
    if (!with_threads) one.threads.clear();
    for (thread_pair& pair : one.threads) {
      pair.from += static_cast<std::uint32_t>(first_thread);
      pair.to += static_cast<std::uint32_t>(first_thread);
    }
    const auto [at, is_new] = sites_.try_emplace({process, one.stack, one.type}, result_.sites.size());
    if (is_new) {
      result_.sites.push_back(std::move(one));
    } else {
      add_site(result_.sites[at->second], one);
    }
  }
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
  p.stacks = {};
  p.symbols = {};
  take_sites(std::move(p.sites), nodes, first_process, first_thread, true);
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
  take_sites(p.sites, take_stacks(p), process, 0, false);
}

profile profile_merger::take() {
  result_.modules = addresses_.modules();
  result_.symbols = addresses_.symbols();
  result_.counters = joined_counters(result_.processes);
  set_meta(result_, joined_meta(result_.processes));
  profile taken = std::exchange(result_, {});
  *this = {};
  return taken;
}

}  // namespace tarn::profiler
