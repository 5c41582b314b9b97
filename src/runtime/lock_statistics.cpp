// SPDX-License-Identifier: MIT
#include "runtime/lock_statistics.hpp"

#include <algorithm>
#include <atomic>
#include <string_view>

#include "os/contention.hpp"
#include "runtime/engine.hpp"
#include "runtime/front.hpp"
#include "runtime/options.hpp"

namespace tarn::lock_statistics {
namespace {

namespace contention = os::contention;

// The names of a front's locks, in the order in which its walk visits them; the last is that of all further locks.
struct front_names {
  const char* names[3];
};
constexpr front_names names_of_fronts[engine::front::count] = {
    {{"caretaker", "recyclers", "recycler"}},          // front::recyclers
    {{"buffer_pools", "buffer_pool", "buffer_pool"}},  // front::buffers
    {{"pools", "pool_shard", "pool_shard"}},           // front::pools
    {{"arenas", "arena", "arena"}},                    // front::jemalloc
};

constexpr unsigned most_entries = 20 + size_classes::all;

std::atomic<std::uint32_t> reports{0};

// One report: adds locks to the entries of their names.
class lock_report {
 public:
  void add(const char* name, const os::mutex& lock, std::uint64_t object_size = 0) {
    contention::lock_record* const record = contention::record_of(&lock);
    if (record == nullptr) return;
    record->report.store(number_, std::memory_order_relaxed);
    add(entry(name, object_size), record->counts());
  }

  // Locks that have a record and no name: their structures have ended.
  void add_others() {
    for (const contention::lock_record& record : contention::records) {
      if (record.lock.load(std::memory_order_relaxed) == nullptr) continue;
      if (record.report.load(std::memory_order_relaxed) != number_) add(entry("other", 0), record.counts());
    }
    if (const std::uint64_t lost = contention::lost(); lost != 0) entry("other", 0).acquisitions += lost;
  }

  tarn_lock_stats& entry(const char* name, std::uint64_t object_size) {
    for (unsigned i = 0; i < count_; ++i) {
      // Each name is one array, but the compiler may keep it more than once.
      if (std::string_view(entries_[i].name) == name && entries_[i].object_size == object_size)
        return entries_[i];
    }
    tarn_lock_stats& added = entries_[count_++];
    added.name = name;
    added.object_size = object_size;
    return added;
  }

  void give_to(void (*visitor)(void*, const tarn_lock_stats*), void* context) {
    for (tarn_lock_stats& e : entries_) {
      if (e.name == nullptr) return;
      for (std::uint64_t* const time :
           {&e.waited_ns, &e.held_ns, &e.held_after_transfer_ns, &e.longest_held_ns})
        *time = contention::nanoseconds(*time);
      visitor(context, &e);
    }
  }

 private:
  // Times stay ticks until give_to().
  static void add(tarn_lock_stats& to, const contention::lock_counts& counts) {
    ++to.locks;
    to.acquisitions += counts.taken;
    to.transfers += counts.transfers;
    to.waits += counts.waits;
    to.waited_ns += counts.waited;
    to.held_ns += counts.held;
    to.held_after_transfer_ns += counts.held_after_transfer;
    to.longest_held_ns = std::max<std::uint64_t>(to.longest_held_ns, counts.longest);
  }

  const std::uint32_t number_ = reports.fetch_add(1, std::memory_order_relaxed) + 1;
  unsigned count_ = 0;
  tarn_lock_stats entries_[most_entries] = {};
};

// Locks the lock of each list and its members' while they are visited, so that no list changes meanwhile.
void add_front(lock_report& report, const engine::front& f) {
  struct walk_state {
    lock_report* report;
    const front_names* names;
    unsigned visited;
  };
  static thread_local constinit walk_state state{};
  state = {&report, &names_of_fronts[f.order], 0};
  f.walk_locks({[](os::mutex& m) TARN_NOT_ANALYZED {
    state.report->add(state.names->names[std::min(state.visited, 2U)], m);
    ++state.visited;
    m.lock();
  }});
  f.walk_locks({[](os::mutex& m) TARN_NOT_ANALYZED { m.unlock(); }, true});
}

void add_depots(lock_report& report, unsigned size_class) {
  const std::uint64_t size = class_info(size_class).size;
  engine::central_tier.for_each_depot(size_class, [&](const object_depot& d) TARN_NOT_ANALYZED {
    if (contention::record_of(&d.lock) == nullptr) return;
    const char* const name = size_classes::is_grain(size_class) ? "grain_depot" : "depot";
    report.add(name, d.lock, size);
    tarn_lock_stats& e = report.entry(name, size);
    e.magazines += d.counters.exchanges.load(std::memory_order_relaxed);
    e.spans_moved += d.counters.spans_moved.load(std::memory_order_relaxed);
    e.foreign_objects += d.counters.foreign_objects.load(std::memory_order_relaxed);
  });
}

}  // namespace

void visit(void (*visitor)(void*, const tarn_lock_stats*), void* context) {
  lock_report report;
  report.add("preparation", engine::preparation_lock());
  report.add("settings", options::lock());
  report.add("threads", engine::registry.lock());
  engine::for_each_front([&report](const engine::front& f) { add_front(report, f); });
  const std::uint64_t moved = engine::pool_exchanges.spans_moved.load(std::memory_order_relaxed);
  const std::uint64_t foreign = engine::pool_exchanges.foreign_objects.load(std::memory_order_relaxed);
  if ((moved | foreign) != 0) {
    tarn_lock_stats& shards = report.entry("pool_shard", 0);
    shards.spans_moved = moved;
    shards.foreign_objects = foreign;
  }
  for (unsigned c = 1; c < size_classes::all; ++c) add_depots(report, c);
  report.add("page_heap", engine::heap.lock());
  report.add("span_bits", engine::central_tier.bits_lock());
  static thread_local constinit lock_report* current = nullptr;
  current = &report;
  engine::central_tier.magazines().walk_locks({[](os::mutex& m) { current->add("magazine_memory", m); }});
  engine::blocks.walk_locks({[](os::mutex& m) { current->add("block_memory", m); }});
  report.add("metadata", engine::metadata.lock());
  report.add("guarded", engine::guards.lock());
  report.add_others();
  report.give_to(visitor, context);
}

}  // namespace tarn::lock_statistics
