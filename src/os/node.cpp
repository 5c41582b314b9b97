// SPDX-License-Identifier: MIT
#include "os/node.hpp"

#include "os/sandbox.hpp"
#include "os/syscall.hpp"

namespace tarn::os {
namespace {

std::atomic<unsigned> first_node{unknown_node};

}  // namespace

unsigned this_node() {
  unsigned node = 0;
  if (!has_shown_threads() || is_filtered()) return unknown_node;
  if (system_call(SYS_getcpu, 0, &node, 0) != 0 || node > unknown_node) return unknown_node;
  unsigned first = unknown_node;
  if (!first_node.compare_exchange_strong(first, node, std::memory_order_relaxed) && first != node &&
      !has_several_nodes()) {
    several_nodes_seen.store(true, std::memory_order_relaxed);
  }
  return node;
}

}  // namespace tarn::os
