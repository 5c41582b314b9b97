// SPDX-License-Identifier: MIT
#include "jemalloc/program_arena.hpp"

#include <algorithm>

#include "central/objects.hpp"
#include "malloc/program_arenas.hpp"
#include "os/memory.hpp"
#include "os/report.hpp"
#include "runtime/engine.hpp"

namespace tarn::jemalloc {
namespace {

// Page tables reach no further.
constexpr std::size_t largest_size = std::size_t{1} << 44;
// Of the smallest class a span has more objects than bits (span::inline_bits).
constexpr unsigned least_class = 2;
static_assert(objects::words(class_info(least_class).objects) <= span::inline_words);

// The class whose objects serve the request; size_classes::count: none. (The last object of a span ends at the span's
// end, so objects whose size is a multiple of the alignment are aligned.)
unsigned class_for(std::size_t size, std::size_t alignment) {
  if (size > largest_class_size || alignment > page_size) return size_classes::count;
  unsigned c = std::max(class_of_size(std::max(size, alignment)), least_class);
  while (c < size_classes::count && class_info(c).size % alignment != 0) ++c;
  return c;
}

span* take_span(program_arena& arena, std::size_t pages, std::size_t alignment_pages) {
  span* const s = engine::take_or_reclaim([=] {
    return engine::central_tier.take_pages(pages, alignment_pages, span_state::made, page_heap::use::filled);
  });
  if (s == nullptr) return nullptr;
  s->owner.store(&arena, std::memory_order_relaxed);
  engine::map.map_pages(s);
  return s;
}

}  // namespace

span* program_arena::span_of(const void* block) {
  span* const s = engine::map.span_of(address_of(block));
  const bool is_made = s != nullptr && s->state.load(std::memory_order_relaxed) == span_state::made &&
                       s->contains(address_of(block));
  return is_made ? s : nullptr;
}

// Whether an object begins at the address.
bool program_arena::is_object(const span* s, const void* block) {
  if (s->size_class == 0) return address_of(block) == s->start;
  const std::uintptr_t first = objects::first_of(s);
  return address_of(block) >= first && (address_of(block) - first) % class_info(s->size_class).size == 0;
}

void* program_arena::allocate(std::size_t size, std::size_t alignment) {
  const unsigned c = class_for(size, alignment);
  if (c == size_classes::count) return allocate_large(size, alignment);
  do {
    os::lock_guard guard(lock_, *this);
    if (void* const object = take_locked(c)) return object;
  } while (add_span(c));
  return nullptr;
}

void* program_arena::take_locked(unsigned size_class) {
  span* const s = room_[size_class].front();
  if (s == nullptr) return nullptr;
  std::size_t place = 0;
  objects::take_free(s, 1, [&place](std::size_t i) { place = i; });
  if (--s->free_objects == 0) {
    room_[size_class].remove(s);
    full_.push_front(s);
  }
  small_bytes_ += class_info(size_class).size;
  engine::apart.allocated += class_info(size_class).size;
  return objects::at(s, place);
}

bool program_arena::add_span(unsigned size_class) {
  const auto& info = class_info(size_class);
  span* const s = take_span(*this, info.span_pages, 1);
  if (s == nullptr) return false;
  s->size_class = static_cast<std::uint8_t>(size_class);
  s->capacity = s->free_objects = info.objects;
  s->free_bits = s->inline_bits;
  objects::set_all_free(s->free_bits, s->capacity);
  os::lock_guard guard(lock_, *this);
  room_[size_class].push_front(s);
  span_bytes_ += s->bytes();
  return true;
}

void* program_arena::allocate_large(std::size_t size, std::size_t alignment) {
  if (size > largest_size || alignment > largest_size - size) return nullptr;
  const std::size_t unit = std::max(page_size, os::system_page_size());
  const std::size_t pages = align_up(std::max<std::size_t>(size, 1), unit) >> page_shift;
  span* const s = take_span(*this, pages, std::max(alignment >> page_shift, std::size_t{1}));
  if (s == nullptr) return nullptr;
  s->size_class = 0;
  engine::apart.allocated += s->bytes();
  os::lock_guard guard(lock_, *this);
  large_.push_front(s);
  large_bytes_ += s->bytes();
  span_bytes_ += s->bytes();
  return reinterpret_cast<void*>(s->start);
}

void program_arena::release(span* s) {
  s->size_class = 0;
  s->owner.store(nullptr, std::memory_order_relaxed);
  s->state.store(span_state::purging, std::memory_order_relaxed);
  engine::heap.deallocate(s);
}

void program_arena::deallocate(span* s, void* block) {
  if (!is_object(s, block)) os::fatal("invalid free of a pointer into a block", block);
  bool was_free = false;
  bool is_empty = false;
  {
    os::lock_guard guard(lock_, *this);
    if (s->size_class == 0) {
      // Of two threads that free the same block, the second one finds the state changed.
      was_free = s->state.load(std::memory_order_relaxed) == span_state::purging;
      is_empty = !was_free;
      if (is_empty) {
        s->state.store(span_state::purging, std::memory_order_relaxed);
        large_.remove(s);
        large_bytes_ -= s->bytes();
        engine::apart.freed += s->bytes();
      }
    } else if (!objects::set_free(s, objects::index_of(s, address_of(block)))) {
      was_free = true;
    } else {
      span_list& room = room_[s->size_class];
      if (++s->free_objects == 1) {
        full_.remove(s);
        room.push_front(s);
      }
      small_bytes_ -= class_info(s->size_class).size;
      engine::apart.freed += class_info(s->size_class).size;
      // One empty span of a class stays, so that a program that takes and frees one block makes no span each time.
      is_empty = s->free_objects == s->capacity && room.front() != room.back();
      if (is_empty) room.remove(s);
    }
    if (is_empty) span_bytes_ -= s->bytes();
  }
  if (was_free) os::fatal("double free", block);
  if (is_empty) release(s);
}

std::size_t program_arena::usable_size(const span* s, const void* block) {
  if (!is_object(s, block)) return 0;
  if (s->size_class == 0) return s->bytes();
  os::lock_guard guard(lock_, *this);
  const bool is_free = objects::is_free(s, objects::index_of(s, address_of(block)));
  return is_free ? 0 : class_info(s->size_class).size;
}

void program_arena::reset() {
  for (;;) {
    span* s = nullptr;
    {
      os::lock_guard guard(lock_);
      s = full_.pop_front();
      for (unsigned c = 0; s == nullptr && c < size_classes::count; ++c) s = room_[c].pop_front();
      if (s != nullptr) {
        small_bytes_ -= std::size_t{static_cast<unsigned>(s->capacity - s->free_objects)} *
                        class_info(s->size_class).size;
      } else if (s = large_.pop_front(); s != nullptr) {
        large_bytes_ -= s->bytes();
      } else {
        return;
      }
      span_bytes_ -= s->bytes();
    }
    release(s);
  }
}

arena_bytes program_arena::bytes() {
  os::lock_guard guard(lock_, *this);
  return {small_bytes_, large_bytes_, span_bytes_};
}

void program_arena::validate_locked() const {
  std::size_t small = 0;
  std::size_t large = 0;
  std::size_t spans = 0;
  const auto add = [&](const span* s) {
    spans += s->bytes();
    small += s->size_class != 0
                 ? static_cast<std::size_t>(s->capacity - s->free_objects) * class_info(s->size_class).size
                 : 0;
    large += s->size_class == 0 ? s->bytes() : 0;
    TARN_INVARIANT("program_arena", this, s->owner.load(std::memory_order_relaxed) == this);
  };
  for (unsigned c = 0; c < size_classes::count; ++c) {
    for (const span* s = room_[c].front(); s != nullptr; s = s->next) {
      add(s);
      objects::validate(s);
      TARN_INVARIANT("program_arena", this, s->size_class == c && s->free_objects != 0);
    }
  }
  for (const span* s = full_.front(); s != nullptr; s = s->next) {
    add(s);
    TARN_INVARIANT("program_arena", this, s->free_objects == 0);
  }
  for (const span* s = large_.front(); s != nullptr; s = s->next) add(s);
  TARN_INVARIANT("program_arena", this, small_bytes_ == small && large_bytes_ == large);
  TARN_INVARIANT("program_arena", this, span_bytes_ == spans);
}

}  // namespace tarn::jemalloc

// What malloc/ calls.
namespace tarn {

extern const program_arena_functions functions_of_program_arenas;
constinit const program_arena_functions functions_of_program_arenas{
    .deallocate =
        [](void* block) {
          span* const s = jemalloc::program_arena::span_of(block);
          if (s == nullptr) return false;
          jemalloc::program_arena::owner_of(s).deallocate(s, block);
          return true;
        },
    .usable_size =
        [](const void* block) {
          const span* const s = jemalloc::program_arena::span_of(block);
          return s == nullptr ? 0 : jemalloc::program_arena::owner_of(s).usable_size(s, block);
        },
};

}  // namespace tarn
