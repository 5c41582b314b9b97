// SPDX-License-Identifier: MIT
// scope_core's blocks: how they are taken out of spans, and freed.
#include <algorithm>

#include "fronts/scopes/scope_core.hpp"
#include "os/clock.hpp"
#include "os/memory.hpp"
#include "os/report.hpp"
#include "pages/zero_pages.hpp"
#include "slots/free_mark.hpp"
#include "slots/objects.hpp"

namespace tarn {
namespace {

// Page tables reach no further.
constexpr std::size_t largest_size = std::size_t{1} << 44;

}  // namespace

bool scope_core::add_span(unsigned size_class, scope_bin* bin) {
  span* const s = take(class_info(size_class).span_pages, 1, cut, page_heap::use::sparse, bin);
  if (s == nullptr) return false;
  objects::cut(s, size_class, s->inline_bits);
  if constexpr (hardened_build) {
    zero_dirty_pages(engine::map, s);
  } else {
    for (std::size_t i = 0; i < s->capacity; ++i) free_mark::set(objects::at(s, i));
  }
  engine::map.map_pages(s);
  os::lock_guard guard(lock_, *this);
  s->list = cut;
  room_[size_class].push_front(s);
  return true;
}

std::size_t scope_core::take_locked(unsigned size_class, void** out, std::size_t most) {
  span_list& room = room_[size_class];
  std::size_t taken = 0;
  while (taken < most && !room.empty()) {
    span* const s = room.front();
    const std::size_t here =
        objects::take_free(s, most - taken, [&](std::size_t i) { out[taken++] = objects::at(s, i); });
    s->free_objects = static_cast<std::uint16_t>(s->free_objects - here);
    if (s->free_objects == 0) room.remove(s);
  }
  small_bytes_ += taken * class_info(size_class).size;
  return taken;
}

std::size_t scope_core::take_objects(unsigned size_class, void** out, std::size_t most, scope_bin* bin) {
  do {
    os::lock_guard guard(lock_, *this);
    if (const std::size_t taken = take_locked(size_class, out, most)) return taken;
  } while (add_span(size_class, bin));
  return 0;
}

void* scope_core::allocate(std::size_t size, std::size_t alignment, scope_bin* bin) {
  const unsigned c = class_in_scope(aligned_class_of(size, alignment));
  if (c == size_classes::count) return allocate_large(size, alignment, false, bin);
  void* object = nullptr;
  if (take_objects(c, &object, 1, bin) == 0) return nullptr;
  engine::uncached_traffic.allocated += class_info(c).size;
  free_mark::clear(object);
  return object;
}

span* scope_core::take_large(std::size_t size, std::size_t alignment, bool zeroed, scope_bin* bin) {
  if (size > largest_size || alignment > largest_size - size) return nullptr;
  const std::size_t unit = os::page_unit();
  const std::size_t pages = align_up(std::max<std::size_t>(size, 1), unit) >> page_shift;
  span* const s = take(pages, std::max(alignment >> page_shift, std::size_t{1}), large,
                       zeroed ? page_heap::use::sparse : page_heap::use::filled, bin);
  if (s == nullptr) return nullptr;
  if (zeroed) zero_dirty_pages(engine::map, s);
  engine::uncached_traffic.allocated += s->bytes();
  {
    os::lock_guard guard(lock_, *this);
    s->list = large;
    s->capacity = 1;
    s->free_objects = 0;
    s->sample = nullptr;
    large_bytes_ += s->bytes();
  }
  return s;
}

void* scope_core::allocate_large(std::size_t size, std::size_t alignment, bool zeroed, scope_bin* bin) {
  span* const s = take_large(size, alignment, zeroed, bin);
  if (s == nullptr) return nullptr;
  if (bin != nullptr && engine::profile_countdown.is_due(engine::profile_samples, s->bytes()))
    s->sample = engine::samples.add(engine::profile_samples, s->start, size, s->bytes(), &sampled);
  return reinterpret_cast<void*>(s->start);
}

void* scope_core::allocate_followed(std::size_t size, std::size_t taken, scope_bin* bin) {
  const std::uint64_t weight = engine::profile_samples.follow(taken, os::now_ms());
  span* const s = weight != 0 ? take_large(taken, 1, false, bin) : nullptr;
  if (s == nullptr) return nullptr;
  s->sample = engine::samples.add_followed(weight, s->start, size, taken, false, &sampled);
  return reinterpret_cast<void*>(s->start);
}

// An empty span waits for the next one.
void scope_core::empty_locked(span* s) {
  engine::map.set_backing(s->start, s->pages, page_backing::young);
  s->dirty_pages = s->pages;
  s->size_class = 0;
  s->list = dirty;
  dirty_.push_front(s);
  dirty_bytes_ += s->bytes();
  note_idle();
}

// Frees the block at `at`, and those behind it that lie in the same span, up to `end`; `at` moves behind them.
// `span`: the last block was a withheld one and the last of its span, which is in no list. `no`: the block at `at` is free.
scope_core::freed scope_core::free_locked(span* s, void* const*& at, void* const* end) {
  if (s->list == dirty || s->list == clean) return freed::no;
  const bool was_full = s->free_objects == 0;
  void* const* const first = at;
  if (is_cut(s)) {
    do {
      if (!objects::set_free(s, objects::index_of(s, address_of(*at)))) return freed::no;
    } while (++at != end && s->contains(address_of(*at)));
    small_bytes_ -= static_cast<std::size_t>(at - first) * class_info(s->size_class).size;
  } else {
    if (!was_full) return freed::no;
    large_bytes_ -= s->bytes();
    ++at;
  }
  s->free_objects = static_cast<std::uint16_t>(s->free_objects + (at - first));
  const bool is_empty = s->free_objects == s->capacity;
  if (s->list == cut) {
    span_list& room = room_[s->size_class];
    if (was_full) room.push_front(s);
    // One empty span of a class stays, so that a program that takes and frees one block makes no span each time.
    if (!is_empty) return freed::object;
    if (room.front() == room.back() && this != &process_scope) {
      note_idle();
      return freed::object;
    }
    room.remove(s);
    empty_locked(s);
  } else if (s->list == large) {
    empty_locked(s);
  } else if (is_empty && is_withheld(s)) {
    return freed::span;
  }
  return freed::object;
}

void scope_core::deallocate(span* s, void* block, void (*take_back)(const span*, void*)) {
  if (!is_object(s, block)) os::fatal("invalid free of a pointer into a block", block);
  scope_core* core = nullptr;
  bool has_much = false;
  bool is_idle = false;
  scope_leaving withheld;
  live_sample* sample = nullptr;
  const std::size_t bytes = is_cut(s) ? class_info(s->size_class).size : s->bytes();
  const freed what = with_owner(s, [&](scope_core& owner) TARN_NOT_ANALYZED {
    core = &owner;
    // The mark is that of an object in a bin. Of survivors that are being withheld nothing may be read.
    if (s->list == cut && is_cut(s)) {
      if (take_back != nullptr) take_back(s, block);
      if (free_mark::is_set(block)) return freed::no;
      free_mark::set(block);
    }
    if (!is_cut(s) && s->list != dirty && s->list != clean) sample = s->sample;
    if (TARN_UNLIKELY(sample != nullptr)) heap_samples::announce_end(sample);
    void* const* at = &block;
    const freed result = owner.free_locked(s, at, at + 1);
    has_much = owner.dirty_bytes_ > owner.most_dirty();
    is_idle = owner.dirty_bytes_ >= dirty_of_scope && s->list == dirty;
    if (result == freed::span) {
      owner.detach_locked(s, withheld);
      owner.begin_leaving_locked(withheld);
    }
    return result;
  });
  if (is_idle) engine::central_tier.wake_decay();
  if (what == freed::no) os::fatal("double free", block);
  engine::uncached_traffic.freed += bytes;
  if (TARN_UNLIKELY(sample != nullptr)) engine::samples.remove(sample);
  if (what == freed::span) {
    give_back_withheld(withheld);
  } else if (TARN_UNLIKELY(has_much)) {
    core->trim_dirty();
  }
}

void scope_core::put_back(void* const* at, std::size_t count) {
  for (void* const* const end = at + count; at != end;) {
    span* s = span_of(*at);
    if (s == nullptr) os::fatal("a free block of a scope lies in no scope", *at);
    scope_core* core = nullptr;
    bool has_much = false;
    with_owner(s, [&](scope_core& owner) TARN_NOT_ANALYZED {
      core = &owner;
      do {
        if (owner.free_locked(s, at, end) != freed::object)
          os::fatal("double free, detected when the block returned to its span", *at);
        s = at != end ? span_of(*at) : nullptr;
      } while (s != nullptr && region_of(s)->owner.load(std::memory_order_relaxed) == core);
      has_much = owner.dirty_bytes_ > owner.most_dirty();
      return 0;
    });
    if (has_much) core->trim_dirty();
  }
}

std::size_t scope_core::usable_size(const span* s, const void* block) {
  if (!is_object(s, block)) return 0;
  if (!is_cut(s)) {
    if (s->list != large && s->list != closing && s->list != large_withheld) return 0;
    return s->sample != nullptr ? s->sample->taken : s->bytes();
  }
  const std::size_t size = class_info(s->size_class).size;
  // The mark, too, is read under the lock: another thread may be ending the scope and making the block inaccessible.
  return with_owner(s, [&](scope_core&) {
    const bool is_marked = s->list == cut && free_mark::is_set(block);
    return is_marked || objects::is_free(s, objects::index_of(s, address_of(block))) ? 0 : size;
  });
}

}  // namespace tarn
