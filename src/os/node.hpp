// SPDX-License-Identifier: MIT
// node: the memory node of the calling thread's processor. Memory of another node is slower, and the system backs a page
// on the node of the thread that touches it first. So threads of different nodes should not share spans (central,
// pool_core), and no thread should touch a page that another one will use (first_touch).
// Thread safety: all functions may be called by any thread.
#pragma once

#include <atomic>

namespace tarn::os {

// The node of a thread that was not asked: equal to every other.
inline constexpr unsigned unknown_node = 255;

// unknown_node for the process's first thread, as long as it is the only one; if the system does not tell; or under any
// seccomp filter, which may end the process for this call. Cost: a system call, so not under a lock. The thread may have
// moved to another node when it returns.
unsigned this_node();

// Whether this_node() has returned more than one node. Cost: a load.
inline std::atomic<bool> several_nodes_seen{false};
inline bool has_several_nodes() { return several_nodes_seen.load(std::memory_order_relaxed); }

// Whether two nodes are known to be different ones.
constexpr bool differ(unsigned a, unsigned b) { return a != b && a != unknown_node && b != unknown_node; }

// The cost of giving a place with `users` threads of node `its` to one more thread of node `mine`: a place without threads
// first, of the same node if there is one; then the one with the fewest threads of the same node.
constexpr unsigned place_cost(unsigned users, unsigned its, unsigned mine) {
  constexpr unsigned other_node = 1U << 30;
  if (users == 0) return differ(its, mine) ? 1 : 0;
  return differ(its, mine) ? other_node + users : 2 * users;
}

}  // namespace tarn::os
