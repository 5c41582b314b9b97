// SPDX-License-Identifier: MIT
#include "pool/pool_bin.hpp"

#include <algorithm>
#include <cstring>

#include "pool/pool_magazine.hpp"

namespace tarn {

constinit void* const void_slots[2] = {nullptr, nullptr};

namespace {

// What a bin of a draining shard takes at once. They lie side by side, and so keep few spans.
constexpr std::size_t refill_while_draining = 60;

}  // namespace

void pool_bin::make_void() {
  // Nobody writes through it: at top there is no room, and below it no object.
  top = limit = const_cast<void**>(void_slots) + 1;
}

// ---- what others may take ----

magazine* pool_bin::take_spare() {
  if (spare.load(std::memory_order_relaxed) == nullptr) return nullptr;
  // acquire: what the owner wrote to the magazine before put_spare(). Of two takers one gets it.
  return spare.exchange(nullptr, std::memory_order_acquire);
}

void pool_bin::put_spare(magazine* m) {
  // release: partner of the acquire above.
  if (m != nullptr) spare.store(m, std::memory_order_release);
}

// ---- magazines ----

// Slots that a magazine may hold before they go back.
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

// After a miss: magazines become larger, up to what the pool allows. False if they did not.
bool pool_bin::grow() {
  const std::size_t next_most = most == 0 ? magazine_store::capacities[0] : std::size_t{most} * 5;
  const std::size_t wanted = std::min(next_most, pool->most_in_magazine());
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

// Returns an empty one, or null.
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
  magazine* const other = take_spare();
  magazine* full = other;
  if (other == nullptr || other->count == 0) full = shard->take_full();
  if (full != nullptr) {
    // What was loaded is empty: it, or the spare one, stays as the spare one.
    magazine* empty = loaded;
    pool->note_loaded(full->count);
    load(full);
    if (other != nullptr && other != full) {
      if (empty != nullptr) shard->leave_empty(empty);
      empty = other;
    }
    if (empty != nullptr) {
      empty->count = 0;
      put_spare(empty);
    }
    return detail::pop(this);
  }
  put_spare(other);
  grow();
  if (loaded == nullptr) return nullptr;
  magazine* const m = loaded;
  const std::size_t wanted = shard->draining() ? std::min<std::size_t>(most, refill_while_draining) : most;
  // Out of sight meanwhile: where memory is short, refill() gathers what all of this thread's bins hold.
  loaded = nullptr;
  make_void();
  m->count = static_cast<std::uint16_t>(pool->refill(*shard, m, std::min<std::size_t>(wanted, m->capacity)));
  if (m->count != 0) pool->note_loaded(m->count);
  load(m);
  pool->settle();
  return detail::pop(this);
}

void pool_bin::empty_in_place(magazine* m) {
  if (m->count != 0) pool->flush(m->bottom(), m->count);
  m->count = 0;
}

void pool_bin::make_room() {
  if (TARN_UNLIKELY(shard->draining()) && loaded != nullptr) {
    unload();
    empty_in_place(loaded);
    load(loaded);
    if (magazine* const m = take_spare()) {
      empty_in_place(m);
      put_spare(m);
    }
    return;
  }
  if (grow() || loaded == nullptr) return;
  magazine* const full = loaded;
  unload();
  if (full->count < std::min<std::size_t>(most_now(), full->capacity)) {
    // It was short because the shard was draining.
    load(full);
    return;
  }
  magazine* other = take_spare();
  if (other != nullptr && other->count != 0) other = hand_over(other);
  if (other == nullptr) other = shard->take_empty(most_now());
  if (other != nullptr) {
    load(other);
    put_spare(full);
    return;
  }
  // No memory for a second magazine.
  empty_in_place(full);
  load(full);
}

bool pool_bin::deallocate_slow(void* object) {
  slow_calls.store(slow_calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (top == limit) make_room();
  pool->settle();
  return detail::push(this, object);
}

// ---- giving back ----

magazine* pool_bin::take_all() {
  magazine* chain = take_spare();
  if (chain != nullptr) {
    chain->next = nullptr;
    pool->note_moving(chain->count);
  }
  if (loaded != nullptr) {
    unload();
    pool->note_moving(loaded->count);
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
  magazine* const m = take_spare();
  if (m != nullptr) pool->note_moving(m->count);
  return m;
}

__attribute__((no_sanitize("thread"))) std::size_t pool_bin::count() const {
  const magazine* const other = __atomic_load_n(reinterpret_cast<magazine* const*>(&spare), __ATOMIC_RELAXED);
  // Read one after the other while they change, they may be of two magazines.
  const magazine* const m = loaded;
  const auto bytes = m != nullptr ? reinterpret_cast<std::uintptr_t>(top) -
                                        reinterpret_cast<std::uintptr_t>(m->slots) - sizeof(void*)
                                  : 0;
  return std::min<std::size_t>(bytes / sizeof(void*), largest_magazine) +
         (other != nullptr ? other->count : 0);
}

}  // namespace tarn
