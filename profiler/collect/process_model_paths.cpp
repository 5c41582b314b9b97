// SPDX-License-Identifier: MIT
// process_model: call paths, the sites at their ends, and threads.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "profiler/collect/process_model.hpp"

namespace tarn::profiler {

namespace {

// Limits for one process, whatever its ring claims, as they bound the collector's memory. Beyond a limit, further
// items are counted with others.
constexpr std::size_t most_paths = std::size_t{1} << 22;
constexpr std::size_t most_threads = std::size_t{1} << 18;
// Threads that have ended keep rows of their own up to that number of rows.
constexpr std::size_t many_threads = 1024;

std::uint64_t node_hash(std::uint32_t parent, std::uint64_t address) {
  const std::uint64_t mixed = (address ^ (std::uint64_t{parent} << 40 | parent)) * 0x9e3779b97f4a7c15U;
  return mixed ^ (mixed >> 29);
}

}  // namespace

std::uint32_t process_model::node(std::uint32_t parent, std::uint64_t address) {
  if (parent >= stacks_.size()) parent = 0;
  if (2 * stacks_.size() > node_table_.size()) {
    node_table_.assign(2 * node_table_.size(), 0);
    for (std::uint32_t id = 1; id < stacks_.size(); ++id) {
      std::uint64_t index = node_hash(stacks_[id].parent, stacks_[id].address);
      while (node_table_[index & (node_table_.size() - 1)] != 0) ++index;
      node_table_[index & (node_table_.size() - 1)] = id;
    }
  }
  for (std::uint64_t index = node_hash(parent, address);; ++index) {
    std::uint32_t& id = node_table_[index & (node_table_.size() - 1)];
    if (id == 0) {
      if (stacks_.size() >= most_paths) return parent;
      id = static_cast<std::uint32_t>(stacks_.size());
      stacks_.push_back({parent, address});
      return id;
    }
    if (stacks_[id].parent == parent && stacks_[id].address == address) return id;
  }
}

std::uint32_t process_model::site_of(std::uint32_t node) {
  if (node >= stacks_.size()) node = 0;
  if (site_of_node_.size() < stacks_.size()) site_of_node_.resize(stacks_.size() + stacks_.size() / 2);
  std::uint32_t& known = site_of_node_[node];
  if (known == 0) {
    sites_.emplace_back().stack = node;
    known = static_cast<std::uint32_t>(sites_.size());
  }
  return known - 1;
}

std::uint32_t process_model::begin_thread(std::uint32_t id, std::uint64_t time_ns) {
  const bool is_crowded = threads_.size() >= many_threads && ended_threads_ >= many_threads / 2;
  if (free_threads_.empty() && is_crowded && settings_.most_events == 0) join_ended_threads();
  if (free_threads_.empty() && threads_.size() == most_threads)
    return static_cast<std::uint32_t>(most_threads - 1);
  std::uint32_t row = 0;
  if (!free_threads_.empty()) {
    row = free_threads_.back();
    free_threads_.pop_back();
  } else {
    row = static_cast<std::uint32_t>(threads_.size());
    threads_.emplace_back();
    thread_states_.emplace_back();
  }
  threads_[row] = {id, "", time_ns, 0};
  thread_of_id_[id] = row;
  return row;
}

// The threads that have ended become one, whose row is that of the first of them; the rows of the others are used again. Not
// while there are single events, which name threads by their rows; and not often, as each block is looked at.
void process_model::join_ended_threads() {
  const auto has_ended = [this](std::uint32_t row) { return threads_[row].end_ns != 0; };
  std::vector<std::uint32_t> rows;
  for (std::uint32_t row = 0; row < threads_.size(); ++row) {
    if (has_ended(row)) rows.push_back(row);
  }
  const std::uint32_t joined = rows.front();
  const auto place = [&](std::uint32_t row) { return has_ended(row) ? joined : row; };
  for (const std::uint32_t row : rows) {
    drop_moving(row);
    thread_states_[row] = {};
    const auto known = thread_of_id_.find(static_cast<std::uint32_t>(threads_[row].id));
    if (known != thread_of_id_.end() && known->second == row) thread_of_id_.erase(known);
  }
  blocks_.change_each([&](living_block& block) { block.thread = place(block.thread); });
  for (living_site& site : sites_) {
    std::vector<thread_pair> pairs;
    for (const thread_pair& each : std::exchange(site.threads, {}))
      count_pair(site, place(each.from), place(each.to), each.bytes, each.count);
  }
  ended_threads_ = 1;
  // What was joined before is one of the rows.
  joined_threads_ += rows.size() - (joined_threads_ > 0 ? 1 : 0);
  thread_info all = threads_[joined];
  for (const std::uint32_t row : rows) {
    all.start_ns = std::min(all.start_ns, threads_[row].start_ns);
    all.end_ns = std::max(all.end_ns, threads_[row].end_ns);
    threads_[row] = {};
    if (row != joined) free_threads_.push_back(row);
  }
  threads_[joined] = {0, fmt::format("[{} threads that have ended]", joined_threads_), all.start_ns,
                      all.end_ns};
}

void process_model::end_thread(std::uint32_t thread, std::uint64_t time_ns) {
  resolve_waiting(thread_states_[thread], nullptr, {});
  end_run(thread_states_[thread]);
  if (threads_[thread].end_ns == 0) ++ended_threads_;
  threads_[thread].end_ns = std::max<std::uint64_t>(1, time_ns);
}

void process_model::thread_stack(std::uint64_t end) {
  if (end != 0 && stack_ends_.size() < most_threads) stack_ends_.insert(end);
}

void process_model::name_thread(std::uint32_t thread, const std::string& name) {
  threads_[thread].name = name;
}

void process_model::name_thread_by_id(std::uint32_t id, const std::string& name) {
  const auto known = thread_of_id_.find(id);
  if (known != thread_of_id_.end() && threads_[known->second].end_ns == 0)
    threads_[known->second].name = name;
}

}  // namespace tarn::profiler
