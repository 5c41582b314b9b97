// SPDX-License-Identifier: MIT
#include "fronts/pools/pool_shard.hpp"

#include <cstdint>
#include <utility>

#include "base/chain.hpp"
#include "engine/engine.hpp"
#include "fronts/pools/pool_magazine.hpp"
#include "os/memory.hpp"

namespace tarn {
namespace {

// A magazine of a draining shard may hold 1/draining_divisor of the shard's slots in use.
constexpr std::size_t draining_divisor = 256;
// A shard with more free bytes than this lets other shards take spans.
constexpr std::size_t spare_threshold = 8 * mib;

}  // namespace

// What pools do with spans: slot_depot.hpp. Under the lock of the shard.
struct pool_shard::front {
  explicit front(const pool_shard& s) : shard(s), layout(s.pool_.layout()) {}

  static span* next(const slot_depot& d, bool /*is_first*/) TARN_NOT_ANALYZED { return d.spans.best(); }
  static void open(span* s) {
    if (TARN_UNLIKELY(s->free_when_looked != 0)) engine::map.end_dropped(s);
    s->free_when_looked = 0;
  }
  [[nodiscard]] void* at(const span* s, std::size_t index) const { return layout.at(s, index); }
  static void taken(const span* /*s*/, std::size_t /*last*/) {}

  [[nodiscard]] span* elsewhere(span* s, const void* /*slot*/) const {
    return TARN_LIKELY(s->owner.load(std::memory_order_relaxed) == &shard) ? nullptr : s;
  }
  std::size_t set_free(span* s, const void* slot) {
    const slot_layout::position at = layout.find(s, address_of(slot));
    if (TARN_LIKELY(at.is_exact && at.index < s->capacity && objects::set_free(s, at.index))) return 1;
    fault = at.is_exact ? freed_twice : "destroy of a pointer into an object, not to its start";
    faulty = slot;
    return 0;
  }

  static constexpr const char* freed_twice = "double destroy, detected when the object returned to its span";

  const pool_shard& shard;
  const slot_layout layout;
  const char* fault = nullptr;
  const void* faulty = nullptr;
};

pool_shard* pool_shard::owner_of(const void* address) {
  const span* const s = engine::map.span_of(address_of(address));
  if (s == nullptr || !s->contains(address_of(address)) ||
      s->state.load(std::memory_order_relaxed) != span_state::pooled) {
    return nullptr;
  }
  return of(s);
}

pool_shard* pool_shard::of(const span* s) {
  // acquire: partner of the release in slot_depot::move_span_to(). The caller has a slot of the span, but not the lock
  // under which the span moved to another thread's shard, which may be new.
  return static_cast<pool_shard*>(static_cast<slot_depot*>(s->owner.load(std::memory_order_acquire)));
}

bool pool_shard::can_spare() const {
  if (bins.load(std::memory_order_relaxed) == 0) return true;
  const std::size_t waiting = full_hint() * pool_.most_in_magazine() * pool_.layout().size;
  return free_hint.load(std::memory_order_relaxed) + spare_bytes() + waiting > spare_threshold;
}

std::size_t pool_shard::most_while_draining() const {
  const std::size_t taken = taken_hint.load(std::memory_order_relaxed) / pool_.layout().size;
  return std::max<std::size_t>(taken / draining_divisor, 1);
}

// ---- slots ----

std::size_t pool_shard::carve_locked(void** slot, std::size_t most) {
  span* s = carving_;
  if (s == nullptr) {
    s = fresh_.pop_front();
    if (s == nullptr) return 0;
    spans.adopt(s);
  }
  const std::size_t first = s->capacity;
  const std::size_t room = pool_.slots_in(s) - first;
  const std::size_t count = std::min(most, room);
  for (std::size_t i = 0; i < count; ++i) *slot-- = pool_.layout().at(s, first + i);
  // It is spare if other threads have freed all its slots since this one found none to use.
  spans.extend(s, count);
  carving_ = count < room ? s : nullptr;
  return count;
}

void pool_shard::note_change_locked() {
  note_counts(pool_.layout().size);
  const std::size_t taken = spans.taken();
  if (taken > peak_.load(std::memory_order_relaxed)) peak_.store(taken, std::memory_order_relaxed);
  if (const std::size_t change = take_spare_change(); TARN_UNLIKELY(change != 0)) {
    pool_.spare_bytes.fetch_add(change, std::memory_order_relaxed);
    if (spare_bytes() > pool_shared::spare_limit) pool_.note_surplus();
  }
}

std::size_t pool_shard::take(magazine* m, std::size_t most, source from) {
  void** const top = m->slots + most;
  front f(*this);
  os::lock_guard guard(lock, *this);
  const std::size_t found = from == source::used ? slot_depot::take(f, top, most) : carve_locked(top, most);
  review(f.layout.size);
  note_change_locked();
  return found;
}

std::size_t pool_shard::put(void* const* freed, span** owners, std::size_t count, void** others,
                            bool& drains) {
  front f(*this);
  std::size_t left = 0;
  {
    os::lock_guard guard(lock, *this);
    left = slot_depot::put(f, freed, owners, count, others);
    drains = review(f.layout.size);
    note_change_locked();
  }
  if (TARN_UNLIKELY(f.fault != nullptr)) pool_.fatal(f.fault, f.faulty);
  return left;
}

// ---- magazines ----

magazine* pool_shard::take_empty(std::size_t slots) {
  if (magazine* const m = slot_depot::take_empty()) return m;
  magazine* const first = pool_magazine::allocate_some(slots);
  if (first == nullptr) return nullptr;
  magazine* more = std::exchange(first->next, nullptr);
  while (magazine* const m = chain::pop(more)) leave_empty(m);
  return first;
}

void pool_shard::leave_empty(magazine* m) {
  if (m->capacity < pool_.most_in_magazine() || empty_hint() >= pool_.most_waiting())
    return pool_magazine::deallocate(m);
  slot_depot::leave_empty(m);
}

magazine* pool_shard::take_to_put_back() {
  os::lock_guard guard(lock, *this);
  magazine* const m = full.pop();
  if (m != nullptr) pool_.note_moving(m->count);
  return m;
}

// ---- spans ----

void pool_shard::add_span(span* s) {
  os::lock_guard guard(lock, *this);
  s->owner.store(static_cast<slot_depot*>(this), std::memory_order_relaxed);
  fresh_.push_back(s);
}

span* pool_shard::take_fresh_span() {
  os::lock_guard guard(lock, *this);
  return fresh_.pop_front();
}

std::size_t pool_shard::ready() {
  os::lock_guard guard(lock, *this);
  std::size_t slots = 0;
  spans.for_each([&slots](const span& s) { slots += s.free_objects; });
  for (const span* s = fresh_.front(); s != nullptr; s = s->next) slots += pool_.slots_in(s);
  if (carving_ != nullptr) slots += pool_.slots_in(carving_) - carving_->capacity;
  return slots;
}

bool pool_shard::move_span_to(pool_shard& other) {
  const auto may = [&](const span* s)
                       TARN_NOT_ANALYZED { return s != carving_ || other.carving_ == nullptr; };
  const auto moved = [&](const span* s) TARN_NOT_ANALYZED {
    if (s == carving_) std::swap(carving_, other.carving_);
    note_change_locked();
    other.note_change_locked();
  };
  return slot_depot::move_span_to(other, may, moved);
}

span* pool_shard::detach_locked(span* s) {
  if (s == nullptr) return nullptr;
  if (s == carving_) carving_ = nullptr;
  s->state.store(span_state::purging, std::memory_order_relaxed);
  note_change_locked();
  return s;
}

span* pool_shard::take_empty_span(std::size_t keep) {
  os::lock_guard guard(lock, *this);
  span* s = spare_bytes() > keep ? spans.take_spare() : nullptr;
  if (s == nullptr && keep == 0) s = fresh_.pop_front();
  return detach_locked(s);
}

span* pool_shard::take_any_span() {
  os::lock_guard guard(lock, *this);
  span* s = spans.any();
  s != nullptr ? spans.remove(s) : void(s = fresh_.pop_front());
  return detach_locked(s);
}

void pool_shard::idle_front::drop() {
  engine::touch.withdraw_huge(held.of->start, held.of->bytes());
  is_dropped = true;
  held.for_each_page_run(
      [&](const os::address_range& run) { is_dropped &= os::purge(run.memory(), run.bytes()); });
  give_back();
}

void pool_shard::idle_front::give_back() {
  const std::size_t count = held.count();
  seen += count;
  std::size_t twice = held.capacity;
  with_owner(held.of, [&](slot_depot& owner) TARN_NOT_ANALYZED {
    // Under the lock: slots that were freed meanwhile may have been taken, which begins with end_dropped().
    if (is_dropped)
      held.for_each_page_run(
          [](const os::address_range& run) { engine::map.begin_dropped(run.start, run.end); });
    twice = owner.put_held(held);
    pool.note_moving(-static_cast<std::ptrdiff_t>(count));
    static_cast<pool_shard&>(owner).note_change_locked();
  });
  if (TARN_UNLIKELY(twice != held.capacity)) pool.fatal(front::freed_twice, pool.layout().at(held.of, twice));
}

void pool_shard::purge_idle_pages() {
  if (!has_free()) return;
  // Not on the stack, which may be a coroutine's.
  constexpr std::size_t most_bytes = objects::words(slot_layout::most_objects_huge) * sizeof(std::uint64_t);
  auto* const bits = static_cast<std::uint64_t*>(engine::blocks.allocate(most_bytes));
  if (bits == nullptr) return;
  held_slots held(pool_.layout().size, bits);
  idle_front idle{pool_, held, free_hint.load(std::memory_order_relaxed) / held.size};
  drop_idle_pages(idle, held, 0, SIZE_MAX);
  engine::blocks.deallocate(bits, most_bytes);
}

std::size_t pool_shard::taken() {
  os::lock_guard guard(lock, *this);
  return spans.taken();
}

}  // namespace tarn
