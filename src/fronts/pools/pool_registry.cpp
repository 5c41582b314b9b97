// SPDX-License-Identifier: MIT
#include "fronts/pools/pool_registry.hpp"

#include <cerrno>
#include <new>

#include "base/chain.hpp"

extern "C" {
constinit thread_local tarn_pool_bins tarn_pool_local_bins{nullptr, 0};
}

namespace tarn {
namespace pool_registry {

constinit engine::front_registry<tarn_pool, pool_bin> pools{os::lock_rank::pools};

namespace {

bool is_valid(const tarn_pool_options& r) {
  constexpr std::size_t largest_object = slot_layout::largest_size;
  return (r.name != nullptr || r.name_length == 0) && r.object_size != 0 && r.object_size <= largest_object &&
         is_power_of_two(r.alignment) && r.alignment <= largest_object &&
         r.shards <= pool_core::most_shards && r.magazine_length <= largest_magazine;
}

tarn_pool* failed(int error) {
  errno = error;
  return nullptr;
}

magazine* take_all(pool_bin& bin) { return bin.take_all(); }

void put_back(pool_core& pool, magazine* all) {
  pool.put_back(all);
  pool.release_surplus();
}

// The bin of a single-threaded pool, which belongs to no thread. Null when there is no memory.
pool_bin* own_bin(tarn_pool* pool) {
  if (pool->own_bin == nullptr) pool->own_bin = pools.new_bin();
  if (pool->own_bin != nullptr && pool->own_bin->core == nullptr) pools.link(pool->own_bin, pool);
  return pool->own_bin;
}

// Empties the pool's bins and detaches them from it, and waits until no other thread has the pool pinned: a thread that
// ends, or a period of decay.
void isolate(tarn_pool* pool) {
  magazine* all = nullptr;
  pools.detach_bins(pool, [&all](pool_bin& bin) { chain::prepend(all, bin.take_all()); });
  if (pool->bin_is_owners) pool->own_bin = nullptr;
  pool->put_back(all);
}

// Frees the pool and all its spans; returns the bytes of these. Requires: isolate() has been called.
std::size_t release_isolated(tarn_pool* pool) {
  const std::size_t bytes = pool->release_everything();
  if (pool->own_bin != nullptr) pools.keep_unused(std::exchange(pool->own_bin, nullptr));
  pools.free(pool, [pool] { pool->free_shards(); });
  return bytes;
}

bool has_work() {
  if (pools.has_work()) return true;
  bool work = false;
  os::lock_guard guard(pools.lock());
  pools.for_each_locked([&work](const tarn_pool& pool) { work = work || pool.has_work(); });
  return work;
}

// In a forked child. The slots in the bins of other threads count as moving, so that statistics do not take them for
// live objects; the number may be slightly wrong.
pool_bin* lose_bins(tarn_pool& pool) {
  pool_bin* own = nullptr;  // the pool's own bin if it is linked
  bool has_others = false;
  for (pool_bin* bin = pool.bins; bin != nullptr; bin = bin->next) {
    if (bin == pool.own_bin) {
      own = bin;
    } else {
      // Another thread may have been filling it, so its count may be too low.
      has_others = true;
      pool.note_moving(static_cast<std::ptrdiff_t>(bin->count()));
    }
  }
  pool.forget_bins();
  pool.note_lost_slots(has_others);
  return own;
}

}  // namespace

tarn_pool* create(const tarn_pool_options& request) {
  if (!is_valid(request)) return failed(EINVAL);
  tarn_pool* pool = pools.create(engine::pool_front, request);
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
  return pool != nullptr ? pool : failed(ENOMEM);
}

tarn_pool* find_or_create(const tarn_pool_options& request) {
  if (!is_valid(request)) return failed(EINVAL);
  engine::attach_thread();
  engine::attach(engine::pool_front);
  const slot_layout wanted(request.object_size, request.alignment);
  os::lock_guard guard(pools.lock());
  tarn_pool* found = nullptr;
  pools.for_each_locked([&](tarn_pool& pool) {
    if (pool.shared && pool.layout().size == wanted.size && pool.layout().alignment == wanted.alignment &&
        pool.is_checked() == (request.checked != 0) && pool.name() == engine::front_name(request)) {
      found = &pool;
    }
  });
  if (found != nullptr) return found;
  found = pools.make_locked(request);
  if (found == nullptr) return failed(ENOMEM);
  found->shared = true;
  return found;
}

std::size_t destroy(tarn_pool* pool) {
  isolate(pool);
  pool->trim();
  const std::size_t taken = pool->taken();
  if (taken != 0) {
    // Slots lost by fork are not live, but cannot be freed either, so the pool stays.
    const std::size_t lost = pool->waiting();
    os::lock_guard guard(pools.lock());
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

pool_bin* bin_of(tarn_pool* pool, tarn_pool_bin** where) {
  if (!pool_bin::is_void(*where)) return static_cast<pool_bin*>(*where);
  pool_bin* const bin = pool->is_single() ? own_bin(pool) : pools.bin_of(pool, !pool->shared);
  if (bin != nullptr) *where = bin;
  return bin;
}

void take_surplus(pool_core* pool, bool only_if_idle) {
  magazine* all = nullptr;
  {
    os::lock_guard guard(pools.lock());
    for (pool_bin* bin = pool->bins; bin != nullptr; bin = bin->next) {
      if (magazine* const m = bin->take_surplus(only_if_idle)) chain::push(all, m);
    }
  }
  pool->put_back(all);
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
  pools.empty_own_bins(take_all, put_back);
  std::size_t bytes = 0;
  pools.for_each([&bytes](pool_core& pool) { bytes += trim(&pool, nullptr); });
  return bytes;
}

// Counts in the order in which slots move, from bins to magazines and spans: a slot that moves meanwhile may be counted
// twice, but is not missed.
std::size_t cached(pool_core* pool) {
  std::size_t slots = 0;
  {
    os::lock_guard guard(pools.lock());
    for (const pool_bin* bin = pool->bins; bin != nullptr; bin = bin->next) slots += bin->count();
  }
  return slots + pool->waiting();
}

}  // namespace pool_registry

void gather_spare_slots(pool_core& pool) { pool_registry::take_surplus(&pool, false); }

constinit const engine::front engine::pool_front{
    .order = engine::front::pools,
    .age =
        [] {
          pool_registry::pools.for_each([](tarn_pool& pool) {
            pool_registry::take_surplus(&pool, true);
            pool.age();
          });
          pool_registry::pools.age();
        },
    .has_work = pool_registry::has_work,
    .reclaim = [] { pool_registry::trim_all(); },
    .reclaim_walks = true,
    .thread_adopts = [] { pool_registry::pools.thread_adopts(); },
    .thread_ends = [] { pool_registry::pools.thread_ends(pool_registry::take_all, pool_registry::put_back); },
    .walk_locks =
        [](const os::lock_walk& walk) {
          pool_registry::pools.walk_locks(walk, [&walk](tarn_pool& pool) { pool.walk_locks(walk); });
        },
    .after_fork_in_child = [] { pool_registry::pools.after_fork_in_child(pool_registry::lose_bins); },
    .metrics = &pool_registry::metrics};

}  // namespace tarn
