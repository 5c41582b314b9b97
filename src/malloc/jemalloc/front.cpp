// SPDX-License-Identifier: MIT
// This layer as the engine sees it: its locks, for fork.
#include "engine/front.hpp"

#include "malloc/jemalloc/arena_table.hpp"
#include "malloc/jemalloc/figures.hpp"

namespace {
constexpr tarn::os::lock_walk::part locks[] = {
    [](const tarn::os::lock_walk& w) { w.visit(tarn::jemalloc::figures_lock()); },
    [](const tarn::os::lock_walk& w) { tarn::jemalloc::arenas.walk_locks(w); },
};
}  // namespace

constinit const tarn::engine::front tarn::engine::jemalloc_front{
    .order = front::jemalloc, .walk_locks = [](const os::lock_walk& w) { w.all(locks); }};
