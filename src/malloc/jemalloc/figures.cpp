// SPDX-License-Identifier: MIT
#include "malloc/jemalloc/figures.hpp"

#include <algorithm>
#include <atomic>

#include "engine/engine.hpp"
#include "malloc/jemalloc/arena_table.hpp"
#include "observe/statistics.hpp"

namespace tarn::jemalloc {
namespace {

constinit os::mutex lock{os::lock_rank::pools};
constinit figures current TARN_GUARDED_BY(lock){};
std::atomic<bool> has_figures_yet{false};

// The bytes of objects that have been taken out of their spans: live ones, and those in caches. The classes of grains are
// no bins: their blocks are of any size, and the number of their spans is not known.
std::size_t bytes_of_objects(figures& out) {
  std::size_t bytes = 0;
  for (unsigned c = 1; c < size_classes::all; ++c) {
    const class_depots::class_figures spans = engine::central_tier.depots().figures_of(c);
    if (!size_classes::is_grain(c)) out.bins[c - 1] = {spans.taken, spans.spans};
    bytes += spans.taken * class_info(c).size;
  }
  return bytes;
}

}  // namespace

void refresh() {
  figures fresh{};
  const std::size_t objects = bytes_of_objects(fresh);
  tarn_stats stats;
  statistics::collect(stats);
  const arena_bytes made = arenas.bytes();
  // The parts are read one after the other while other threads go on, so each is bounded by the whole.
  fresh.active = stats.in_use;
  // Whole large blocks wait in caches, too.
  const std::size_t cached = std::min<std::size_t>(
      stats.cached - std::min<std::size_t>(stats.cached, engine::warm_large_spans.bytes()), objects);
  fresh.small = std::min(objects - cached + made.small, fresh.active);
  fresh.large = std::min<std::size_t>(stats.large + stats.guarded + made.large, fresh.active - fresh.small);
  fresh.allocated = fresh.small + fresh.large;
  fresh.metadata = stats.metadata;
  fresh.resident = std::max<std::size_t>(stats.resident_upper, fresh.active);
  fresh.mapped = stats.in_use + stats.free_dirty + stats.metadata;
  fresh.retained = stats.free_clean;
  os::lock_guard guard(lock);
  fresh.epoch = current.epoch + 1;
  current = fresh;
  // Under the lock: no reader sees it before the figures.
  has_figures_yet.store(true, std::memory_order_relaxed);
}

void ensure_figures() {
  if (!has_figures_yet.load(std::memory_order_relaxed)) refresh();
}

os::mutex& figures_lock() TARN_RETURNS_LOCK(lock) { return lock; }
const figures& figures_locked() TARN_NOT_ANALYZED { return current; }

}  // namespace tarn::jemalloc
