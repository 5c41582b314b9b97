// SPDX-License-Identifier: MIT
// The recyclers as the engine sees them: their registry and the caretaker, whose lock is taken before the registry's.
#include "recycler/caretaker.hpp"
#include "recycler/recycler_registry.hpp"
#include "runtime/front.hpp"

namespace tarn {
namespace {

void walk_locks(const os::lock_walk& walk) {
  walk.list(caretaker::fork_lock(), [&walk] { recycler_registry::walk_locks(walk); });
}

void after_fork_in_child() {
  recycler_registry::after_fork_in_child();
  caretaker::after_fork_in_child();
}

}  // namespace

constinit const engine::front engine::recycler_front{.order = engine::front::recyclers,
                                                     .trim = recycler_registry::trim_all,
                                                     .thread_ends = recycler_registry::thread_ends,
                                                     .walk_locks = walk_locks,
                                                     .after_fork_in_child = after_fork_in_child};

}  // namespace tarn
