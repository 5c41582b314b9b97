// SPDX-License-Identifier: MIT
#include "pool/pool_shard.hpp"

#include <algorithm>
#include <utility>

#include "base/chain.hpp"
#include "os/memory.hpp"
#include "pool/pool_magazine.hpp"
#include "runtime/engine.hpp"

namespace tarn {
namespace {

// A refill takes slots from at most this many spans.
constexpr std::size_t spans_per_refill = 16;
// A magazine of a draining shard may hold 1/draining_divisor of the shard's slots in use.
constexpr std::size_t draining_divisor = 256;
// A shard with more free bytes than this lets other shards take spans.
constexpr std::size_t spare_threshold = 8 * mib;

}  // namespace

pool_shard* pool_shard::owner_of(const void* address) {
  const span* const s = engine::map.span_of(address_of(address));
  if (s == nullptr || !s->contains(address_of(address)) ||
      s->state.load(std::memory_order_relaxed) != span_state::pooled) {
    return nullptr;
  }
  // acquire: partner of the release in move_span_to(). The caller has a slot of the span, but not the lock under which the
  // span moved to another thread's shard, which may be new.
  return static_cast<pool_shard*>(s->owner.load(std::memory_order_acquire));
}

bool pool_shard::can_spare() const {
  if (bins.load(std::memory_order_relaxed) == 0) return true;
  const std::size_t slots = free_hint() + std::size_t{depot_.full_hint()} * pool_.most_in_magazine();
  return slots * pool_.layout().size > spare_threshold;
}

// ---- slots ----

std::size_t pool_shard::take_used_locked(void** slot, std::size_t most) {
  const slot_layout& layout = pool_.layout();
  std::size_t found = 0;
  for (std::size_t visited = 0; found < most && visited < spans_per_refill; ++visited) {
    span* const s = depot_.best();
    // Takes slots of an empty span only if no other span has any.
    if (s == nullptr || (s->list == object_depot::spare_list && found != 0)) break;
    if (s->list == object_depot::spare_list) account_spare_locked(-static_cast<std::ptrdiff_t>(s->bytes()));
    const std::size_t count =
        objects::take_free(s, most - found, [&](std::size_t index) { *slot-- = layout.at(s, index); });
    found += count;
    depot_.change_free_count(s, -static_cast<int>(count));
    s->free_when_looked = 0;
    if (s->list == object_depot::no_list) full_.push_front(s);
  }
  return found;
}

std::size_t pool_shard::carve_locked(void** slot, std::size_t most) {
  span* s = carving_;
  if (s == nullptr) {
    s = fresh_.pop_front();
    if (s == nullptr) return 0;
    full_.push_front(s);
  }
  const std::size_t first = s->capacity;
  const std::size_t room = pool_.slots_in(s) - first;
  const std::size_t count = std::min(most, room);
  for (std::size_t i = 0; i < count; ++i) *slot-- = pool_.layout().at(s, first + i);
  // It is spare if other threads have freed all its slots since this one found none to use.
  if (s->list == object_depot::spare_list) account_spare_locked(-static_cast<std::ptrdiff_t>(s->bytes()));
  depot_.extend(s, count);
  carving_ = count < room ? s : nullptr;
  return count;
}

void pool_shard::account_spare_locked(std::ptrdiff_t bytes) {
  // Unsigned arithmetic wraps, so that adding a negative change subtracts.
  const auto change = static_cast<std::size_t>(bytes);
  spare_bytes_.store(spare_bytes() + change, std::memory_order_relaxed);
  pool_.spare_bytes.fetch_add(change, std::memory_order_relaxed);
  if (spare_bytes() > pool_shared::spare_limit) pool_.note_surplus();
}

void pool_shard::note_change_locked() {
  const std::size_t taken = depot_.taken();
  if (taken > peak_.load(std::memory_order_relaxed)) peak_.store(taken, std::memory_order_relaxed);
  free_hint_.store(static_cast<std::size_t>(depot_.free_slots()) + spare_bytes() / pool_.layout().size,
                   std::memory_order_relaxed);
  most_while_draining_.store(std::max<std::size_t>(taken / draining_divisor, 1), std::memory_order_relaxed);
}

std::size_t pool_shard::take(magazine* m, std::size_t most, source from) {
  void** const top = m->slots + most;
  os::lock_guard guard(depot_.lock, *this);
  const std::size_t found = from == source::used ? take_used_locked(top, most) : carve_locked(top, most);
  depot_.review(pool_.layout().size);
  note_change_locked();
  return found;
}

std::size_t pool_shard::put(void* const* freed, span** owners, std::size_t count, void** others,
                            bool& drains) {
  const slot_layout layout = pool_.layout();
  const char* fault = nullptr;
  const void* faulty = nullptr;
  std::size_t left = 0;
  {
    os::lock_guard guard(depot_.lock, *this);
    std::size_t quiet = 0;
    for (std::size_t i = 0; i < count; ++i) {
      span* const s = owners[i];
      if (TARN_UNLIKELY(s->owner.load(std::memory_order_relaxed) != this)) {
        owners[left] = s;
        others[left++] = freed[i];
        continue;
      }
      const slot_layout::position at = layout.find(s, address_of(freed[i]));
      if (TARN_UNLIKELY(!at.is_exact || at.index >= s->capacity || !objects::set_free(s, at.index))) {
        fault = at.is_exact ? "double destroy, detected when the object returned to its span"
                            : "destroy of a pointer into an object, not to its start";
        faulty = freed[i];
        continue;
      }
      if (TARN_LIKELY(object_depot::try_add_free_in_place(s))) {
        ++quiet;
        continue;
      }
      if (s->list == object_depot::no_list) full_.remove(s);
      if (depot_.change_free_count(s, 1)) account_spare_locked(static_cast<std::ptrdiff_t>(s->bytes()));
    }
    depot_.add_free_slots(quiet);
    drains = depot_.review(layout.size);
    note_change_locked();
  }
  if (TARN_UNLIKELY(fault != nullptr)) pool_.fatal(fault, faulty);
  return left;
}

// ---- full magazines ----

magazine* pool_shard::take_full() {
  // Read without the lock: a stale value only costs a refill.
  if (depot_.full_hint() == 0) return nullptr;
  os::lock_guard guard(depot_.lock, *this);
  return depot_.full.pop();
}

bool pool_shard::give_full(magazine* m, magazine*& empty) {
  // Read without the lock: with a stale value the shard keeps a few magazines more or less.
  if (draining() || depot_.full_hint() >= pool_.most_waiting()) return false;
  os::lock_guard guard(depot_.lock, *this);
  depot_.full.push(m);
  empty = depot_.empty.pop();
  return true;
}

// ---- empty magazines ----

magazine* pool_shard::take_empty(std::size_t slots) {
  if (depot_.empty_hint() != 0) {
    os::lock_guard guard(depot_.lock, *this);
    if (magazine* const m = depot_.empty.pop()) return m;
  }
  magazine* const first = pool_magazine::allocate_some(slots);
  if (first == nullptr) return nullptr;
  magazine* more = std::exchange(first->next, nullptr);
  while (magazine* const m = chain::pop(more)) leave_empty(m);
  return first;
}

void pool_shard::leave_empty(magazine* m) {
  if (m->capacity < pool_.most_in_magazine() || depot_.empty_hint() >= pool_.most_waiting()) {
    return pool_magazine::deallocate(m);
  }
  m->count = 0;
  os::lock_guard guard(depot_.lock, *this);
  depot_.empty.push(m);
}

void pool_shard::free_idle_empties(bool all) {
  magazine* idle = nullptr;
  {
    os::lock_guard guard(depot_.lock, *this);
    idle = depot_.empty.take_idle(all);
  }
  while (magazine* const m = chain::pop(idle)) pool_magazine::deallocate(m);
}

magazine* pool_shard::take_idle_magazines(bool all) {
  os::lock_guard guard(depot_.lock, *this);
  return depot_.full.take_idle(all, [this](const magazine& m) { pool_.note_moving(m.count); });
}

std::size_t pool_shard::waiting() {
  std::size_t slots = 0;
  os::lock_guard guard(depot_.lock, *this);
  for (const magazine* m = depot_.full.first(); m != nullptr; m = m->next) slots += m->count;
  return slots;
}

// ---- spans ----

void pool_shard::add_span(span* s) {
  os::lock_guard guard(depot_.lock, *this);
  s->owner.store(this, std::memory_order_relaxed);
  fresh_.push_back(s);
}

span* pool_shard::take_fresh_span() {
  os::lock_guard guard(depot_.lock, *this);
  return fresh_.pop_front();
}

std::size_t pool_shard::ready() {
  os::lock_guard guard(depot_.lock, *this);
  auto slots = static_cast<std::size_t>(depot_.free_slots());
  depot_.for_each_spare([&slots](const span& s) { slots += s.capacity; });
  for (const span* s = fresh_.front(); s != nullptr; s = s->next) slots += pool_.slots_in(s);
  if (carving_ != nullptr) slots += pool_.slots_in(carving_) - carving_->capacity;
  return slots;
}

bool pool_shard::move_span_to(pool_shard& other) {
  // Locks of one rank are taken in the order in which fork takes them, that of the shards' indices. (Not analyzed:
  // which lock of the two is which is known at run time only.)
  pool_shard& first = index_ < other.index_ ? *this : other;
  pool_shard& second = index_ < other.index_ ? other : *this;
  os::lock_guard first_guard(first.depot_.lock, first);
  os::lock_guard second_guard(second.depot_.lock, second);
  span* const s = depot_.most_free();
  if (s == nullptr || (s == carving_ && other.carving_ != nullptr)) return false;
  if (s->list == object_depot::spare_list) account_spare_locked(-static_cast<std::ptrdiff_t>(s->bytes()));
  depot_.remove(s);
  if (s == carving_) std::swap(carving_, other.carving_);
  s->owner.store(&other, std::memory_order_release);  // partner: the acquire in owner_of()
  other.depot_.adopt(s);
  if (s->list == object_depot::spare_list)
    other.account_spare_locked(static_cast<std::ptrdiff_t>(s->bytes()));
  note_change_locked();
  other.note_change_locked();
  return true;
}

span* pool_shard::detach_locked(span* s) {
  if (s == nullptr) return nullptr;
  if (s == carving_) carving_ = nullptr;
  s->state.store(span_state::purging, std::memory_order_relaxed);
  note_change_locked();
  return s;
}

span* pool_shard::take_empty_span(std::size_t keep) {
  os::lock_guard guard(depot_.lock, *this);
  span* s = spare_bytes() > keep ? depot_.take_spare_span() : nullptr;
  if (s != nullptr) {
    account_spare_locked(-static_cast<std::ptrdiff_t>(s->bytes()));
  } else if (keep == 0) {
    s = fresh_.pop_front();
  }
  return detach_locked(s);
}

span* pool_shard::take_any_span() {
  if (span* const s = take_empty_span(0)) return s;
  os::lock_guard guard(depot_.lock, *this);
  span* s = full_.pop_front();
  if (s == nullptr) s = depot_.best();
  if (s != nullptr) depot_.remove(s);
  return detach_locked(s);
}

bool pool_shard::take_idle_slots(idle_slots& idle, std::uint8_t walk) {
  os::lock_guard guard(depot_.lock, *this);
  span* const s = depot_.find_from_back([walk](span* each) {
    if (each->looked_at == walk) return walk_step::list_done;
    each->looked_at = walk;
    return each->free_objects != each->free_when_looked ? walk_step::found : walk_step::next;
  });
  if (s == nullptr) return false;
  idle.of = s;
  idle.capacity = s->capacity;
  idle.count = s->free_objects;
  std::copy_n(s->free_bits, objects::words(idle.capacity), idle.bits);
  std::fill_n(s->free_bits, objects::words(idle.capacity), 0);
  pool_.note_moving(idle.count);
  depot_.change_free_count(s, -idle.count);
  full_.push_front(s);
  return true;
}

bool pool_shard::return_idle_slots(const idle_slots& idle, std::uint8_t walk) {
  span* const s = idle.of;
  os::lock_guard guard(depot_.lock, *this);
  // Slots freed meanwhile make the span one that another shard may take.
  if (s->owner.load(std::memory_order_relaxed) != this) return false;
  for (std::size_t w = 0; w < objects::words(idle.capacity); ++w) s->free_bits[w] |= idle.bits[w];
  if (s->list == object_depot::no_list) full_.remove(s);
  if (depot_.change_free_count(s, idle.count)) account_spare_locked(static_cast<std::ptrdiff_t>(s->bytes()));
  pool_.note_moving(-idle.count);
  s->free_when_looked = s->free_objects;
  s->looked_at = walk;
  note_change_locked();
  return true;
}

void pool_shard::purge_idle_pages(std::uint8_t walk) {
  if (free_hint() == 0) return;
  // Not on the stack, which may be a coroutine's.
  constexpr std::size_t most_bytes = objects::words(slot_layout::most_objects_huge) * sizeof(std::uint64_t);
  idle_slots idle;
  idle.bits = static_cast<std::uint64_t*>(engine::blocks.allocate(most_bytes));
  if (idle.bits == nullptr) return;
  while (take_idle_slots(idle, walk)) {
    const span* const s = idle.of;
    engine::touch.withdraw_huge(s->start, s->bytes());
    objects::for_each_page_run(idle.bits, idle.capacity, s->start, s->start, pool_.layout().size,
                               [](const os::address_range& run) { os::purge(run.memory(), run.bytes()); });
    // acquire: as in owner_of().
    while (
        !static_cast<pool_shard*>(s->owner.load(std::memory_order_acquire))->return_idle_slots(idle, walk)) {
    }
  }
  engine::blocks.deallocate(idle.bits, most_bytes);
}

std::size_t pool_shard::taken() {
  os::lock_guard guard(depot_.lock, *this);
  return depot_.taken();
}

}  // namespace tarn
