// SPDX-License-Identifier: MIT
#include "pool/pool_registry.hpp"

#include <algorithm>
#include <cerrno>
#include <new>
#include <string_view>

#include "os/syscall.hpp"
#include "os/thread.hpp"
#include "runtime/engine.hpp"
#include "runtime/front.hpp"

extern "C" {
constinit thread_local tarn_pool_bins tarn_pool_local_bins{nullptr, 0};
}

namespace tarn {

namespace pool_registry {
namespace {

// Longer names are cut: two shared pools whose names differ only after this are one.
constexpr std::size_t longest_name = 4000;
constexpr std::size_t largest_object = slot_layout::largest_size;
constexpr std::size_t first_table = 8;

// The calling thread's bins, linked by pool_bin::next_of_thread.
struct thread_bins {
  pool_bin* first;
  bool ended;  // thread_ends() has run: the thread makes no bin any more
};
constinit thread_local thread_bins mine{nullptr, false};

constinit os::mutex lock{os::lock_rank::pools};
pool_core* pools = nullptr;  // guarded by lock
tarn_pool* unused_pools =
    nullptr;              // guarded by lock; structures of destroyed pools, for reuse with their numbers
std::size_t numbers = 0;  // guarded by lock; numbers given out so far
pool_bin* unused_bins = nullptr;  // guarded by lock; structures for reuse
pool_bin* retired_bins =
    nullptr;  // guarded by lock; of threads that are ending or have ended; see take_retired()

// ---- pools ----

bool is_valid(const tarn_pool_request& r) {
  return (r.name != nullptr || r.name_length == 0) && r.size != 0 && r.size <= largest_object &&
         is_power_of_two(r.alignment) && r.alignment <= largest_object &&
         r.shards <= pool_core::most_shards && r.magazine_length <= largest_magazine;
}

std::string_view name_of(const tarn_pool_request& request) {
  return {request.name, std::min(request.name_length, longest_name)};
}

// Creates a pool and links it. Requires: the lock is held; the locks of metadata, taken here, rank after it. Null when
// there is no memory.
tarn_pool* make_locked(const tarn_pool_request& request) {
  const std::size_t name_length = name_of(request).size();
  void* memory = unused_pools;
  std::size_t number = 0;
  if (memory != nullptr) {
    number = unused_pools->number;
  } else {
    memory = engine::metadata.allocate(sizeof(tarn_pool), alignof(tarn_pool));
    number = numbers;
  }
  auto* const name = static_cast<char*>(engine::blocks.allocate(name_length + 1));
  void* const shard = engine::blocks.allocate(sizeof(pool_shard));
  if (memory == nullptr || name == nullptr || shard == nullptr) {
    if (name != nullptr) engine::blocks.deallocate(name, name_length + 1);
    if (shard != nullptr) engine::blocks.deallocate(shard, sizeof(pool_shard));
    return nullptr;
  }
  name_of(request).copy(name, name_length);
  name[name_length] = '\0';
  if (memory == unused_pools) {
    unused_pools = static_cast<tarn_pool*>(unused_pools->next);
  } else {
    ++numbers;
  }
  auto* const pool = new (memory) tarn_pool(request, name, shard);
  pool->number = number;
  pool->next = pools;
  if (pools != nullptr) pools->previous = pool;
  pools = pool;
  return pool;
}

// Pins and returns `pool`, or the first pool after it in the list that is not ending; null if there is none.
pool_core* pin_first_locked(pool_core* pool) {
  while (pool != nullptr && pool->pins.is_ending()) pool = pool->next;
  if (pool != nullptr) pool->pins.pin();
  return pool;
}

void unpin(pool_core* pool) {
  bool ends = false;
  {
    os::lock_guard guard(lock);
    ends = pool->pins.unpin();
  }
  if (ends) pool->pins.wake();
}

void unlink_pool_locked(pool_core* pool) {
  (pool->previous != nullptr ? pool->previous->next : pools) = pool->next;
  if (pool->next != nullptr) pool->next->previous = pool->previous;
}

// ---- bins ----

pool_bin* take_unused_locked() {
  pool_bin* const bin = unused_bins;
  if (bin != nullptr) unused_bins = bin->next_of_thread;
  return bin;
}

// A retired bin for reuse, if its thread has ended for certain; else null. A bin is retired, and void, when its thread
// begins to end; destructors of the thread may still use it until the thread is gone.
pool_bin* take_retired() {
  // ThreadSanitizer cannot see that tgkill() orders the reuse after the thread's end.
  if (TARN_TSAN) return nullptr;
  pool_bin* bin = nullptr;
  {
    os::lock_guard guard(lock);
    bin = retired_bins;
    if (bin != nullptr) retired_bins = bin->next_of_thread;
  }
  if (bin == nullptr || !os::thread_exists(os::system_call(SYS_getpid), bin->thread_id)) return bin;
  os::lock_guard guard(lock);
  bin->next_of_thread = retired_bins;
  retired_bins = bin;
  return nullptr;
}

pool_bin* new_bin() {
  {
    os::lock_guard guard(lock);
    if (pool_bin* const bin = take_unused_locked()) return bin;
  }
  void* memory = take_retired();
  if (memory == nullptr) memory = engine::metadata.allocate(sizeof(pool_bin), cache_line);
  return memory != nullptr ? new (memory) pool_bin : nullptr;
}

void link_locked(pool_bin* bin, pool_core* pool) {
  bin->pool = pool;
  bin->cache = pool->is_single() ? nullptr : engine::local_cache;
  bin->shard = &pool->assign_shard_locked();
  bin->previous = nullptr;
  bin->next = pool->bins;
  if (pool->bins != nullptr) pool->bins->previous = bin;
  pool->bins = bin;
}

void unlink_locked(pool_bin* bin) {
  (bin->previous != nullptr ? bin->previous->next : bin->pool->bins) = bin->next;
  if (bin->next != nullptr) bin->next->previous = bin->previous;
  bin->next = bin->previous = nullptr;
  --bin->shard->bins;
}

// The entry of a thread's table where the thread has no bin: empty and full at once. Never written.
constinit tarn_pool_bin no_bin{const_cast<void**>(void_slots) + 1, const_cast<void**>(void_slots) + 1};

// Grows the calling thread's table until it has an entry `number`. False when there is no memory.
bool grow_table_to(std::size_t number) {
  tarn_pool_bins& table = tarn_pool_local_bins;
  if (number < table.count) return true;
  std::size_t count = table.count != 0 ? table.count : first_table;
  while (count <= number) count *= 2;
  auto** const bins = static_cast<tarn_pool_bin**>(engine::blocks.allocate(count * sizeof(tarn_pool_bin*)));
  if (bins == nullptr) return false;
  for (std::size_t i = 0; i < count; ++i) bins[i] = i < table.count ? table.bins[i] : &no_bin;
  tarn_pool_bin** const old = table.bins;
  const std::size_t old_count = table.count;
  table = {bins, count};
  if (old != nullptr) engine::blocks.deallocate(old, old_count * sizeof(tarn_pool_bin*));
  return true;
}

// Removes the bin from the calling thread's table: the number under which it stands may belong to another pool by now.
void clear_table_entries(const pool_bin* bin) {
  const tarn_pool_bins& table = tarn_pool_local_bins;
  for (std::size_t i = 0; i < table.count; ++i) {
    if (table.bins[i] == bin) table.bins[i] = &no_bin;
  }
}

bool is_numbered(const pool_core& pool) { return !pool.shared && !pool.is_single(); }

// The calling thread's bin of the pool, or one of its bins whose pool was destroyed, for reuse; null if there is
// neither.
pool_bin* find_own_bin(const pool_core* pool) {
  if (pool->is_single()) return nullptr;
  if (is_numbered(*pool)) {
    // The entry may hold a bin of the number's previous pool. There is no walk along all bins: the first uses of n
    // pools would take O(n^2) steps.
    tarn_pool_bin* const last = tarn_pool_local_bins.bins[pool->number];
    return last != &no_bin ? static_cast<pool_bin*>(last) : nullptr;
  }
  // The lock is needed because destroy() in another thread detaches bins from their pools.
  os::lock_guard guard(lock);
  pool_bin* detached = nullptr;
  for (pool_bin* bin = mine.first; bin != nullptr; bin = bin->next_of_thread) {
    if (bin->pool == pool) return bin;
    if (bin->pool == nullptr) detached = bin;
  }
  if (detached != nullptr) clear_table_entries(detached);
  return detached;
}

// ---- what the engine asks for ----

void age() {
  for_each([](pool_core& pool) {
    take_surplus(&pool, true);
    pool.age();
  });
}

bool has_work() {
  os::lock_guard guard(lock);
  for (const pool_core* pool = pools; pool != nullptr; pool = pool->next) {
    if (pool->has_work()) return true;
  }
  return false;
}

// Empties the calling thread's bins; with `retire` also detaches them from their pools and retires them. Each pool is
// pinned meanwhile, because another thread may be about to destroy it.
void empty_own_bins(bool retire) {
  pool_bin* bin = mine.first;
  while (bin != nullptr) {
    pool_bin* const next = bin->next_of_thread;
    magazine* chain = nullptr;
    pool_core* pool = nullptr;
    {
      os::lock_guard guard(lock);
      pool = bin->pool;
      if (pool != nullptr) {
        chain = bin->take_all();
        pool->pins.pin();
        if (retire) unlink_locked(bin);
      }
      if (retire) {
        bin->pool = nullptr;
        bin->next_of_thread = retired_bins;
        retired_bins = bin;
      }
    }
    if (pool != nullptr) {
      pool->put_back(chain);
      pool->settle();
      unpin(pool);
    }
    bin = next;
  }
}

void reclaim() { trim_all(); }

// The calling thread has adopted the thread cache of a thread that ended after its thread_ends(), or without it: it
// also adopts the bins that the ended thread has left.
void thread_adopts() {
  os::lock_guard guard(lock);
  for (pool_core* pool = pools; pool != nullptr; pool = pool->next) {
    for (pool_bin* bin = pool->bins; bin != nullptr; bin = bin->next) {
      if (bin->cache != engine::local_cache) continue;
      bin->next_of_thread = mine.first;
      mine.first = bin;
    }
  }
}

void thread_ends() {
  mine.ended = true;
  if (mine.first != nullptr) {
    const long self = os::system_call(SYS_gettid);
    for (pool_bin* bin = mine.first; bin != nullptr; bin = bin->next_of_thread) bin->thread_id = self;
    empty_own_bins(true);
    mine.first = nullptr;
  }
  const tarn_pool_bins table = tarn_pool_local_bins;
  tarn_pool_local_bins = {nullptr, 0};
  if (table.bins != nullptr) engine::blocks.deallocate(table.bins, table.count * sizeof(tarn_pool_bin*));
}

void walk_locks(const os::lock_walk& walk) {
  walk.list(lock, [&walk] {
    for (pool_core* pool = pools; pool != nullptr; pool = pool->next) pool->walk_locks(walk);
  });
}

// Other threads' bins were copied while their threads used them, so the slots in them are lost to the child. They are
// counted as moving, so that statistics do not take them for live objects; the number may be slightly wrong.
void after_fork_in_child() {
  os::lock_guard guard(lock);
  for (pool_bin* bin = mine.first; bin != nullptr; bin = bin->next_of_thread) {
    if (bin->pool != nullptr) unlink_locked(bin);
  }
  for (pool_core* pool = pools; pool != nullptr; pool = pool->next) {
    pool_bin* own = nullptr;  // the pool's own bin if it is linked; one that was never used is not
    for (pool_bin* bin = pool->bins; bin != nullptr; bin = bin->next) {
      if (bin == pool->own_bin) {
        own = bin;
      } else {
        pool->note_moving(static_cast<std::ptrdiff_t>(bin->count()));
      }
    }
    pool->bins = own;
    pool->forget_bins();
    pool->pins.reset();
    if (own != nullptr) own->next = own->previous = nullptr;
  }
  for (pool_bin* bin = mine.first; bin != nullptr; bin = bin->next_of_thread) {
    if (bin->pool != nullptr) link_locked(bin, bin->pool);
  }
}

// Empties the pool's bins and detaches them from it, and waits until no other thread has the pool pinned: a thread that
// ends, or a period of decay. New pins are refused while the pool is ending.
void isolate(tarn_pool* pool) {
  magazine* chain = nullptr;
  for (;;) {
    {
      os::lock_guard guard(lock);
      pool->pins.begin_ending();
      while (pool_bin* const bin = pool->bins) {
        magazine* last = bin->take_all();
        for (magazine* m = last; m != nullptr; m = last) {
          last = m->next;
          m->next = chain;
          chain = m;
        }
        unlink_locked(bin);
        // The bin stays in its thread's list, void, until the thread reuses it for another pool or ends.
        bin->pool = nullptr;
      }
      if (pool->bin_is_owners) pool->own_bin = nullptr;
      if (pool->pins.is_free()) break;
    }
    pool->pins.wait();
  }
  pool->put_back(chain);
}

// Frees the pool and all its spans; returns the bytes of these. Requires: isolate() has been called.
std::size_t release_isolated(tarn_pool* pool) {
  const std::size_t bytes = pool->release_everything();
  {
    os::lock_guard guard(lock);
    unlink_pool_locked(pool);
  }
  pool->free_parts();
  os::lock_guard guard(lock);
  if (pool->own_bin != nullptr) {
    pool->own_bin->next_of_thread = unused_bins;
    unused_bins = pool->own_bin;
    pool->own_bin = nullptr;
  }
  pool->next = unused_pools;
  unused_pools = pool;
  return bytes;
}

}  // namespace
}  // namespace pool_registry

void gather_spare_slots(pool_core& pool) { pool_registry::take_surplus(&pool, false); }

constinit const engine::front engine::pool_front{.order = engine::front::pools,
                                                 .age = pool_registry::age,
                                                 .has_work = pool_registry::has_work,
                                                 .reclaim = pool_registry::reclaim,
                                                 .thread_adopts = pool_registry::thread_adopts,
                                                 .thread_ends = pool_registry::thread_ends,
                                                 .walk_locks = pool_registry::walk_locks,
                                                 .after_fork_in_child = pool_registry::after_fork_in_child};

namespace pool_registry {

tarn_pool* create(const tarn_pool_request& request) {
  if (!is_valid(request)) {
    errno = EINVAL;
    return nullptr;
  }
  engine::attach_thread();
  engine::attach(engine::pool_front);
  tarn_pool* pool = nullptr;
  {
    os::lock_guard guard(lock);
    pool = make_locked(request);
  }
  if (pool != nullptr && request.own_bin != nullptr) {
    static_assert(sizeof(pool_bin) <= sizeof(tarn_pool_own_bin));
    static_assert(alignof(pool_bin) <= alignof(tarn_pool_own_bin));
    pool->own_bin = new (request.own_bin) pool_bin;
    pool->bin_is_owners = true;
  }
  if (pool != nullptr && request.initial_capacity != 0 && !pool->reserve(request.initial_capacity)) {
    destroy(pool);
    pool = nullptr;
  }
  if (pool == nullptr) errno = ENOMEM;
  return pool;
}

tarn_pool* find_or_create(const tarn_pool_request& request) {
  if (!is_valid(request)) {
    errno = EINVAL;
    return nullptr;
  }
  engine::attach_thread();
  engine::attach(engine::pool_front);
  const slot_layout wanted(request.size, request.alignment);
  os::lock_guard guard(lock);
  for (pool_core* pool = pools; pool != nullptr; pool = pool->next) {
    if (pool->shared && pool->layout().size == wanted.size && pool->layout().alignment == wanted.alignment &&
        pool->is_checked() == request.checked && pool->name() == name_of(request)) {
      return static_cast<tarn_pool*>(pool);
    }
  }
  tarn_pool* const pool = make_locked(request);
  if (pool == nullptr) {
    errno = ENOMEM;
  } else {
    pool->shared = true;
  }
  return pool;
}

std::size_t destroy(tarn_pool* pool) {
  isolate(pool);
  pool->trim();
  const std::size_t taken = pool->taken();
  if (taken != 0) {
    // Slots lost by fork are not live, but cannot be freed either, so the pool stays.
    const std::size_t lost = pool->waiting();
    os::lock_guard guard(lock);
    pool->pins.stop_ending();
    return taken > lost ? taken - lost : 0;
  }
  release_isolated(pool);
  return 0;
}

std::size_t release(tarn_pool* pool) {
  isolate(pool);
  pool->trim();
  return release_isolated(pool);
}

pool_bin* bin_of(pool_core* pool, tarn_pool_bin** where) {
  if (!pool_bin::is_void(*where)) return static_cast<pool_bin*>(*where);
  if (pool->is_single() && pool->own_bin != nullptr) {
    *where = pool->own_bin;
    if (pool->own_bin->pool == nullptr) {
      os::lock_guard guard(lock);
      link_locked(pool->own_bin, pool);
    }
    return pool->own_bin;
  }
  if (mine.ended) return nullptr;
  engine::attach_thread();
  if (is_numbered(*pool) && !grow_table_to(pool->number)) return nullptr;
  pool_bin* bin = find_own_bin(pool);
  if (bin == nullptr) {
    bin = new_bin();
    if (bin == nullptr) return nullptr;
    if (!pool->is_single()) {
      bin->next_of_thread = mine.first;
      mine.first = bin;
    }
  }
  if (bin->pool != pool) {
    os::lock_guard guard(lock);
    link_locked(bin, pool);
    if (pool->is_single()) pool->own_bin = bin;
  }
  *where = bin;
  if (is_numbered(*pool)) tarn_pool_local_bins.bins[pool->number] = bin;
  return bin;
}

void take_surplus(pool_core* pool, bool only_if_idle) {
  magazine* chain = nullptr;
  {
    os::lock_guard guard(lock);
    for (pool_bin* bin = pool->bins; bin != nullptr; bin = bin->next) {
      if (magazine* const m = bin->take_surplus(only_if_idle)) {
        m->next = chain;
        chain = m;
      }
    }
  }
  pool->put_back(chain);
}

std::size_t trim(pool_core* pool, pool_bin* own) {
  const std::size_t before = pool->bytes();
  if (own != nullptr) pool->put_back(own->take_all());
  take_surplus(pool, false);
  pool->trim();
  const std::size_t after = pool->bytes();
  return before > after ? before - after : 0;
}

std::size_t trim_all() {
  empty_own_bins(false);
  std::size_t bytes = 0;
  for_each([&bytes](pool_core& pool) { bytes += trim(&pool, nullptr); });
  return bytes;
}

// Counts in the order in which slots move, from bins to magazines and spans: a slot that moves meanwhile may be counted
// twice, but is not missed.
std::size_t cached(pool_core* pool) {
  std::size_t slots = 0;
  {
    os::lock_guard guard(lock);
    for (const pool_bin* bin = pool->bins; bin != nullptr; bin = bin->next) slots += bin->count();
  }
  return slots + pool->waiting();
}

pool_core* first_pinned() {
  os::lock_guard guard(lock);
  return pin_first_locked(pools);
}

pool_core* next_pinned(pool_core* pool) {
  pool_core* next = nullptr;
  bool ends = false;
  {
    os::lock_guard guard(lock);
    ends = pool->pins.unpin();
    next = pin_first_locked(pool->next);
  }
  if (ends) pool->pins.wake();
  return next;
}

}  // namespace pool_registry

}  // namespace tarn
