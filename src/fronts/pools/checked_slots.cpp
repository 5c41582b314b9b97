// SPDX-License-Identifier: MIT
#include "fronts/pools/checked_slots.hpp"

#include <cstring>

#include "engine/engine.hpp"
#include "os/invariant.hpp"
#include "os/memory_marks.hpp"
#include "os/report.hpp"

namespace tarn {
namespace {

// A span's three books lie one after the other in span::free_bits; each has one bit per slot:
//
//     free_bits
//     | free: book_words words | live_book: book_words | filled_book: book_words |
enum : unsigned { live_book = 1, filled_book = 2 };

// A slot's bit in a book. Under the lock.
bool is_set(const span* s, std::size_t book_words, unsigned book, std::size_t index) {
  return objects::is_set(s->free_bits + book * book_words, index);
}
// Changes it; returns what it was.
bool exchange(const span* s, std::size_t book_words, unsigned book, std::size_t index, bool value) {
  const bool before = is_set(s, book_words, book, index);
  objects::write_run(s->free_bits + book * book_words, index, 1, value);
  return before;
}

}  // namespace

tarn_pool& checked_slots::check(tarn_pool* pool, const void* object, const char* what) {
  pool_shard* const shard = pool_shard::owner_of(object);
  if (shard == nullptr) {
    if (pool == nullptr) os::fatal_at(object, what, " of a pointer that is in no pool");
    os::fatal_at(object, what, " in the pool of ", pool->shown_name(), ", of a pointer that is in no pool");
  }
  auto* const owner = static_cast<tarn_pool*>(&shard->pool());
  const std::string_view name = owner->shown_name();
  if (pool != nullptr && owner != pool) {
    if (name == pool->shown_name())
      os::fatal_at(object, what, " in the pool of ", name, ", of an object of another pool of that name");
    os::fatal_at(object, what, " in the pool of ", pool->shown_name(), ", of an object of the pool of ",
                 name);
  }
  if (!owner->is_checked())
    os::fatal_at(object, what, " by checked code, of an object of the unchecked pool of ", name);
  const span* const s = engine::map.span_of(address_of(object));
  const slot_layout::position at = owner->layout_.find(s, address_of(object));
  const std::size_t book_words = owner->book_words(s);
  if (!at.is_exact)
    os::fatal_at(object, what, " of a pointer into an object of ", name, ", not to its start");
  bool known = false;
  bool live = false;
  {
    os::lock_guard guard(shard->lock);
    known = at.index < s->capacity;
    live = known && is_set(s, book_words, live_book, at.index);
  }
  if (!known) os::fatal_at(object, what, " of a pointer that never was an object of ", name);
  if (!live) os::fatal_at(object, "double ", what, " of ", name);
  return *owner;
}

void checked_slots::validate_locked(const tarn_pool& pool, const span* s) {
  const std::size_t book_words = pool.book_words(s);
  for (std::size_t w = 0; w < book_words; ++w) {
    const std::uint64_t live = s->free_bits[live_book * book_words + w];
    const std::uint64_t filled = s->free_bits[filled_book * book_words + w];
    TARN_INVARIANT("checked_slots", s, (live & filled) == 0);
  }
}

void checked_slots::hand_out(tarn_pool& pool, void* object) {
  const span* const s = engine::map.span_of(address_of(object));
  const std::size_t index = pool.layout_.find(s, address_of(object)).index;
  const std::size_t book_words = pool.book_words(s);
  const std::size_t size = pool.layout_.size;
  memory_marks::unpoison(object, size);
  bool filled = false;
  {
    os::lock_guard guard(pool_shard::owner_of(object)->lock);
    exchange(s, book_words, live_book, index, true);
    filled = exchange(s, book_words, filled_book, index, false);
    if (os::is_check_due(book_words)) validate_locked(pool, s);
  }
  memory_marks::show(object, size);
  const auto* const bytes = static_cast<const unsigned char*>(object);
  for (std::size_t i = 0; filled && i < size; ++i) {
    if (bytes[i] != pattern)
      os::fatal_at(object, "write after destroy of ", pool.shown_name(),
                   ", detected when its memory was allocated again");
  }
  memory_marks::renew(object, size);
}

tarn_pool& checked_slots::take_back(tarn_pool* pool, void* object) {
  tarn_pool& owner = check(pool, object, "destroy");
  const span* const s = engine::map.span_of(address_of(object));
  const std::size_t index = owner.layout_.find(s, address_of(object)).index;
  const std::size_t book_words = owner.book_words(s);
  std::memset(object, pattern, owner.layout_.size);
  memory_marks::poison(object, owner.layout_.size);
  memory_marks::hide(object, owner.layout_.size);
  bool was_live = false;
  {
    os::lock_guard guard(pool_shard::owner_of(object)->lock);
    was_live = exchange(s, book_words, live_book, index, false);
    exchange(s, book_words, filled_book, index, true);
    if (os::is_check_due(book_words)) validate_locked(owner, s);
  }
  // Another thread has destroyed the object since the check above.
  if (!was_live) os::fatal_at(object, "double destroy of ", owner.shown_name());
  return owner;
}

}  // namespace tarn
