// SPDX-License-Identifier: MIT
#include "os/node.hpp"

#include "os/sandbox.hpp"
#include "os/syscall.hpp"

namespace tarn::os {
namespace {

constexpr unsigned no_node = ~0U;
std::atomic<unsigned> first_node{no_node};

}  // namespace

unsigned this_node() {
  unsigned node = 0;
  if (!allows_thread_calls() || system_call(SYS_getcpu, 0, reinterpret_cast<long>(&node), 0) != 0) return 0;
  unsigned first = no_node;
  if (!first_node.compare_exchange_strong(first, node, std::memory_order_relaxed) && first != node &&
      !has_several_nodes()) {
    several_nodes_seen.store(true, std::memory_order_relaxed);
  }
  return node;
}

}  // namespace tarn::os
