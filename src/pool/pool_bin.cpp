// SPDX-License-Identifier: MIT
#include "pool/pool_bin.hpp"

#include <algorithm>
#include <cstring>

#include "pool/pool_magazine.hpp"

namespace tarn {

constinit void* const void_slots[2] = {nullptr, nullptr};

namespace {

// Most slots that a bin of a draining shard takes at once. They are taken from few spans, so few spans stay in use for
// them.
constexpr std::size_t refill_while_draining = 60;

// The entry of a thread's table where the thread has no bin: empty and full at once. Never written.
constinit tarn_pool_bin void_bin{const_cast<void**>(void_slots) + 1, const_cast<void**>(void_slots) + 1};

}  // namespace

tarn_pool_bin* pool_bin::no_bin() { return &void_bin; }

void pool_bin::make_void() {
  // The const_cast is safe: push() finds no room at top and pop() no object below it, so neither writes.
  top = limit = const_cast<void**>(void_slots) + 1;
}

// ---- the spare magazine, which other threads may take ----

magazine* pool_bin::take_spare_magazine() {
  if (spare.load(std::memory_order_relaxed) == nullptr) return nullptr;
  // acquire: partner of the release in put_spare_magazine(); makes the owner's writes to the magazine visible. Of two
  // threads that take it, one gets it.
  return spare.exchange(nullptr, std::memory_order_acquire);
}

void pool_bin::put_spare_magazine(magazine* m) {
  // release: partner of the acquire in take_spare_magazine().
  if (m != nullptr) spare.store(m, std::memory_order_release);
}

// ---- magazines ----

// The most slots that a magazine may hold now.
std::size_t pool_bin::most_now() const {
  if (TARN_LIKELY(!shard->draining())) return most;
  return std::min<std::size_t>(most, shard->most_while_draining());
}

void pool_bin::load(magazine* m) {
  loaded = m;
  top = m->bottom() + m->count;
  limit = m->bottom() + std::max<std::size_t>(std::min<std::size_t>(most_now(), m->capacity), m->count);
}

void pool_bin::unload() { loaded->count = static_cast<std::uint16_t>(top - loaded->bottom()); }

// After a miss: loads a larger magazine, up to the pool's length, so that later misses are rarer. False if there is no
// room afterwards.
bool pool_bin::grow() {
  const std::size_t next_most = most == 0 ? magazine_store::capacities[0] : std::size_t{most} * 5;
  const std::size_t wanted = std::min(next_most, core->most_in_magazine());
  if (wanted <= most) return false;
  most = static_cast<std::uint16_t>(wanted);
  if (loaded == nullptr) {
    magazine* const m = shard->take_empty(wanted);
    if (m != nullptr) load(m);
    return m != nullptr;
  }
  unload();
  magazine* const old = loaded;
  if (old->capacity >= wanted) {
    load(old);
    return top != limit;
  }
  magazine* const m = shard->take_empty(wanted);
  if (m == nullptr) return false;
  m->count = old->count;
  std::memcpy(static_cast<void*>(m->bottom()), static_cast<const void*>(old->bottom()),
              m->count * sizeof(void*));
  load(m);
  pool_magazine::deallocate(old);
  return top != limit;
}

// Hands the magazine over to other threads if it is full, else puts its slots back into spans. Returns an empty
// magazine, or null.
magazine* pool_bin::hand_over(magazine* m) {
  magazine* empty = nullptr;
  if (m->count >= most && pool_core::give_full(m, empty)) return empty;
  empty_in_place(m);
  if (m->capacity >= most) return m;
  pool_magazine::deallocate(m);
  return nullptr;
}

// ---- slow paths ----

void* pool_bin::allocate_slow() {
  slow_calls.store(slow_calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  magazine* const other = take_spare_magazine();
  magazine* full = other;
  if (other == nullptr || other->count == 0) full = shard->take_full();
  if (full != nullptr) {
    // The loaded magazine is empty. It, or the old spare magazine, becomes the spare one; the other goes to the shard.
    magazine* empty = loaded;
    core->note_loaded(full->count);
    load(full);
    if (other != nullptr && other != full) {
      if (empty != nullptr) shard->leave_empty(empty);
      empty = other;
    }
    if (empty != nullptr) {
      empty->count = 0;
      put_spare_magazine(empty);
    }
    return detail::pop(this);
  }
  put_spare_magazine(other);
  grow();
  if (loaded == nullptr) return nullptr;
  magazine* const m = loaded;
  const std::size_t wanted = shard->draining() ? std::min<std::size_t>(most, refill_while_draining) : most;
  // The bin is empty during refill(): where memory is short, refill() empties all bins of this thread.
  loaded = nullptr;
  make_void();
  m->count = static_cast<std::uint16_t>(core->refill(*shard, m, std::min<std::size_t>(wanted, m->capacity)));
  if (m->count != 0) core->note_loaded(m->count);
  load(m);
  core->settle();
  return detail::pop(this);
}

void pool_bin::empty_in_place(magazine* m) {
  if (m->count != 0) core->flush(m->bottom(), m->count);
  m->count = 0;
}

void pool_bin::make_room() {
  if (TARN_UNLIKELY(shard->draining()) && loaded != nullptr) {
    unload();
    empty_in_place(loaded);
    load(loaded);
    if (magazine* const m = take_spare_magazine()) {
      empty_in_place(m);
      put_spare_magazine(m);
    }
    return;
  }
  if (grow() || loaded == nullptr) return;
  magazine* const full = loaded;
  unload();
  if (full->count < std::min<std::size_t>(most_now(), full->capacity)) {
    // The limit was low because the shard was draining; it no longer is.
    load(full);
    return;
  }
  magazine* other = take_spare_magazine();
  if (other != nullptr && other->count != 0) other = hand_over(other);
  if (other == nullptr) other = shard->take_empty(most_now());
  if (other != nullptr) {
    load(other);
    put_spare_magazine(full);
    return;
  }
  // No memory for a second magazine.
  empty_in_place(full);
  load(full);
}

bool pool_bin::deallocate_slow(void* object) {
  slow_calls.store(slow_calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (top == limit) make_room();
  core->settle();
  return detail::push(this, object);
}

// ---- giving back ----

magazine* pool_bin::take_all() {
  magazine* chain = take_spare_magazine();
  if (chain != nullptr) {
    chain->next = nullptr;
    core->note_moving(chain->count);
  }
  if (loaded != nullptr) {
    unload();
    core->note_moving(loaded->count);
    loaded->next = chain;
    chain = loaded;
    loaded = nullptr;
    make_void();
  }
  most = 0;
  return chain;
}

magazine* pool_bin::take_surplus(bool only_if_idle) {
  const std::uint32_t calls = slow_calls.load(std::memory_order_relaxed);
  if (calls != slow_calls_seen.exchange(calls, std::memory_order_relaxed) && only_if_idle) return nullptr;
  magazine* const m = take_spare_magazine();
  if (m != nullptr) core->note_moving(m->count);
  return m;
}

__attribute__((no_sanitize("thread"))) std::size_t pool_bin::count() const {
  const magazine* const other = __atomic_load_n(reinterpret_cast<magazine* const*>(&spare), __ATOMIC_RELAXED);
  // `loaded` and `top` may change between the reads, and then belong to two magazines; so the result is limited to
  // largest_magazine.
  const magazine* const m = loaded;
  const auto bytes = m != nullptr ? reinterpret_cast<std::uintptr_t>(top) -
                                        reinterpret_cast<std::uintptr_t>(m->slots) - sizeof(void*)
                                  : 0;
  return std::min<std::size_t>(bytes / sizeof(void*), largest_magazine) +
         (other != nullptr ? other->count : 0);
}

}  // namespace tarn
