// SPDX-License-Identifier: MIT
#include "jemalloc/figures.hpp"

#include <algorithm>
#include <atomic>

#include "jemalloc/arena_table.hpp"
#include "runtime/engine.hpp"
#include "runtime/statistics.hpp"

namespace tarn::jemalloc {
namespace {

constinit os::mutex lock{os::lock_rank::pools};
constinit figures current TARN_GUARDED_BY(lock){};
std::atomic<bool> has_figures_yet{false};

bin_figures figures_of_bin(unsigned size_class) {
  const central::class_figures spans = engine::central_tier.figures_of(size_class);
  bin_figures out{};
  out.regions = spans.taken;
  out.slabs = spans.spans;
  out.nonfull_slabs = spans.with_room;
  engine::central_tier.for_each_depot(size_class, [&out](const object_depot& d) {
    out.fills += d.counters.refills.load(std::memory_order_relaxed);
    out.flushes += d.counters.flushes.load(std::memory_order_relaxed);
    out.slabs_made += d.counters.spans_made.load(std::memory_order_relaxed);
  });
  return out;
}

// The bytes of objects that are not in spans: live, or in caches.
std::size_t bytes_of_objects(figures& out) {
  std::size_t bytes = 0;
  for (unsigned c = 1; c < size_classes::all; ++c) {
    if (size_classes::is_grain(c)) {
      bytes += engine::central_tier.figures_of(c).taken * class_info(c).size;
    } else {
      bin_figures& bin = out.bins[c - 1];
      bin = figures_of_bin(c);
      bytes += bin.regions * class_info(c).size;
    }
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
  fresh.cached = std::min<std::size_t>(stats.cached, objects);
  fresh.small = std::min(objects - fresh.cached + made.small, fresh.active);
  fresh.large = std::min<std::size_t>(stats.large + stats.guarded + made.large, fresh.active - fresh.small);
  fresh.allocated = fresh.small + fresh.large;
  fresh.metadata = stats.metadata;
  fresh.resident = std::max<std::size_t>(stats.resident_upper, fresh.active);
  fresh.mapped = stats.in_use + stats.free_dirty + stats.metadata;
  fresh.retained = stats.free_clean;
  fresh.dirty = stats.free_dirty;
  fresh.purged = stats.returned;
  fresh.threads = static_cast<unsigned>(stats.threads);
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
