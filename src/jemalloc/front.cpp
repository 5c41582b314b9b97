// SPDX-License-Identifier: MIT
// This layer as the engine sees it: its locks, for fork.
#include "runtime/front.hpp"

#include "jemalloc/arena_table.hpp"
#include "jemalloc/figures.hpp"

constinit const tarn::engine::front tarn::engine::jemalloc_front{.order = front::jemalloc,
                                                                 .walk_locks = [](const os::lock_walk& w) {
                                                                   if (!w.backwards)
                                                                     w.visit(tarn::jemalloc::figures_lock());
                                                                   tarn::jemalloc::arenas.walk_locks(w);
                                                                   if (w.backwards)
                                                                     w.visit(tarn::jemalloc::figures_lock());
                                                                 }};
