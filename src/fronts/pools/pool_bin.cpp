// SPDX-License-Identifier: MIT
#include "fronts/pools/pool_bin.hpp"

#include <algorithm>

#include "base/chain.hpp"

namespace tarn {

namespace {

// Most slots that a bin of a draining shard takes at once. They are taken from few spans, so few spans stay in use for
// them.
constexpr std::size_t refill_while_draining = 60;

// The entry of a thread's table where the thread has no bin: empty and full at once. Never written.
constinit tarn_pool_bin void_bin{no_magazine()->bottom(), no_magazine()->bottom()};

}  // namespace

tarn_pool_bin* pool_bin::no_bin() { return &void_bin; }

// ---- magazines ----

std::size_t pool_bin::most_now() const {
  if (TARN_LIKELY(!shard->draining())) return most_;
  return std::min<std::size_t>(most_, shard->most_while_draining());
}

// Up to the pool's length.
bool pool_bin::raise_most() {
  const std::size_t step = most_ == 0 ? magazine_store::capacities[0] : std::size_t{most_} * 5;
  const std::size_t wanted = std::min(step, core->most_in_magazine());
  if (wanted <= most_) return false;
  most_ = static_cast<std::uint16_t>(wanted);
  return true;
}

std::size_t pool_bin::refill(magazine* m) {
  const std::size_t wanted = shard->draining() ? std::min<std::size_t>(most_, refill_while_draining) : most_;
  // The bin is empty meanwhile: where memory is short, the pool's refill() empties all bins of this thread.
  make_void();
  const std::size_t found = core->refill(*shard, m, std::min<std::size_t>(wanted, m->capacity));
  core->release_surplus();
  return found;
}

// ---- slow paths ----

void* pool_bin::allocate_slow() {
  note_slow_call();
  if (!get_objects()) return nullptr;
  core->note_loaded(static_cast<std::size_t>(top() - loaded_->bottom()));
  return detail::pop(this);
}

bool pool_bin::deallocate_slow(void* object) {
  note_slow_call();
  if (top() == limit()) make_room();
  core->release_surplus();
  return detail::push(this, object);
}

// ---- giving back ----

magazine* pool_bin::take_all() {
  magazine* all = nullptr;
  for (magazine* const m : {spare_.take(), is_empty() ? nullptr : unload()}) {
    if (m == nullptr) continue;
    core->note_moving(m->count);
    chain::push(all, m);
  }
  make_void();
  most_ = 0;
  return all;
}

magazine* pool_bin::take_surplus(bool only_if_idle) {
  const std::uint32_t calls = slow_calls_.load(std::memory_order_relaxed);
  if (calls != slow_calls_seen_.exchange(calls, std::memory_order_relaxed) && only_if_idle) return nullptr;
  magazine* const m = spare_.take();
  if (m != nullptr) core->note_moving(m->count);
  return m;
}

__attribute__((no_sanitize("thread"))) std::size_t pool_bin::count() const {
  // Shared members are read in this function only: no_sanitize does not apply to functions that it calls.
  const magazine* const other =
      __atomic_load_n(reinterpret_cast<magazine* const*>(&spare_), __ATOMIC_RELAXED);
  // `loaded_` and `top` may change between the reads, and then belong to two magazines; so the result is limited to
  // largest_magazine.
  const auto bytes = reinterpret_cast<std::uintptr_t>(tarn_pool_bin::top) -
                     reinterpret_cast<std::uintptr_t>(loaded_->slots) - sizeof(void*);
  return std::min<std::size_t>(bytes / sizeof(void*), largest_magazine) +
         (other != nullptr ? other->count : 0);
}

}  // namespace tarn
