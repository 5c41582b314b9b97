// SPDX-License-Identifier: MIT
// process_model: call paths, the sites at their ends, and threads.
#include <string>

#include "profiler/collect/process_model.hpp"

namespace tarn::profiler {

namespace {

// Limits for one process, whatever its ring claims, as they bound the collector's memory. Beyond a limit, further
// items are counted with others.
constexpr std::size_t most_paths = std::size_t{1} << 22;
constexpr std::size_t most_threads = std::size_t{1} << 18;

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
  if (threads_.size() == most_threads) return static_cast<std::uint32_t>(most_threads - 1);
  threads_.push_back({id, "", time_ns, 0});
  thread_states_.emplace_back();
  const auto row = static_cast<std::uint32_t>(threads_.size() - 1);
  thread_of_id_[id] = row;
  return row;
}

void process_model::end_thread(std::uint32_t thread, std::uint64_t time_ns) {
  resolve_waiting(thread_states_[thread], nullptr, {});
  end_run(thread_states_[thread]);
  threads_[thread].end_ns = time_ns;
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
