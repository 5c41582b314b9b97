// SPDX-License-Identifier: MIT
#include "fronts/scopes/scope_core.hpp"

#include <algorithm>

#include "os/clock.hpp"
#include "os/memory.hpp"
#include "os/report.hpp"
#include "pages/zero_pages.hpp"
#include "slots/free_mark.hpp"
#include "slots/objects.hpp"

namespace tarn {

constinit scope_core process_scope{0};
thread_local constinit bool thread_is_asked = false;
constinit scope_names names_of_scopes;

static_assert(objects::words(class_info(scope_core::least_class).objects) <= span::inline_words);

namespace {

// Page tables reach no further.
constexpr std::size_t largest_size = std::size_t{1} << 44;
// A callback that always says that it has freed something is not believed more often than this for one allocation.
constexpr int most_callbacks = 64;
// How long a thread that waits for memory sleeps at most before it looks again: the wake-up is a hint.
constexpr std::int64_t longest_sleep_ms = 10;
// Others may leave memory as fast as it is taken.
constexpr int most_looks = 4096;

}  // namespace

// ---- owners ----

void scope_core::begin(scope_name& row, const tarn_scope_options& options, scope_core& parent) {
  os::lock_guard guard(lock_, *this);
  row_ = &row;
  options_ = options;
  scope_charge::begin(options.limit, options.over == TARN_SCOPE_LEND, parent);
  children.store(0, std::memory_order_relaxed);
}

void scope_core::retire() {
  for (;; os::sleep_ms(1)) {
    os::lock_guard guard(lock_, *this);
    if (leaving_ != 0) continue;
    forget_idle();
    options_ = {};
    limit_ = 0;
    parent_ = nullptr;
    row_ = nullptr;
    return;
  }
}

// ---- empty spans and the budget ----

std::size_t scope_core::release_empty() {
  scope_leaving l;
  std::size_t bytes = 0;
  {
    os::lock_guard guard(lock_, *this);
    dirty_bytes_ = 0;
    while (span* const s = dirty_.pop_front()) detach_locked(s, l);
    for (unsigned c = 0; c < size_classes::count; ++c) {
      span* const s = room_[c].front();
      if (s == nullptr || s != room_[c].back() || s->free_objects != s->capacity) continue;
      room_[c].remove(s);
      detach_locked(s, l);
    }
    bytes = l.bytes;
    begin_leaving_locked(l);
  }
  end_leaving(l, 0);
  return bytes;
}

void scope_core::release_idle_inside(std::size_t most) {
  for (std::size_t i = 0; i < most; ++i) {
    auto* const idle = static_cast<scope_core*>(take_idle_inside());
    if (idle == nullptr) return;
    idle->release_empty();
  }
}

// Charges after memory has been given back that this scope, those around it up to the full one, or others inside that one
// have left.
bool scope_core::reclaim_inside(std::size_t bytes, scope_charge*& full) {
  for (scope_core* c = this; c != nullptr; c = c != full ? c->parent() : nullptr) c->release_empty();
  for (int looks = 0; looks < most_looks; ++looks) {
    if (charge(bytes, full)) return true;
    auto* const idle =
        full != this ? static_cast<scope_core*>(static_cast<scope_core*>(full)->take_idle_inside()) : nullptr;
    if (idle == nullptr) return false;
    idle->release_empty();
  }
  return false;
}

// What the program wants to happen when `full` has no room. True: try again.
bool scope_core::ask(scope_core& full, std::size_t bytes, scope_bin* bin, int& tries,
                     std::int64_t& waits_until) {
  const tarn_scope_options& options = full.options_;
  if (thread_is_asked) return false;
  if (options.on_full != nullptr && bin != nullptr && tries < most_callbacks) {
    ++tries;
    scope_name::add(full.row_->callbacks);
    thread_is_asked = true;
    const int answer = options.on_full(options.context, full.handle, bytes);
    thread_is_asked = false;
    if (answer != 0) return true;
  }
  if (options.over != TARN_SCOPE_WAIT || options.wait_ms == 0) return false;
  const std::int64_t now = os::now_ms();
  if (waits_until < 0) {
    waits_until = now + options.wait_ms;
    scope_name::add(full.row_->waits);
  }
  if (now >= waits_until) return false;
  full.wait(std::min(waits_until - now, longest_sleep_ms));
  return true;
}

// Charges, if need be after memory of the scope has been given back, or the program has done something about it.
bool scope_core::pay(std::size_t bytes, scope_bin* bin) {
  scope_charge* full = nullptr;
  if (TARN_LIKELY(charge(bytes, full))) return true;
  int tries = 0;
  std::int64_t waits_until = -1;
  do {
    if (bin != nullptr) empty_bin(*bin);
    if (reclaim_inside(bytes, full)) return true;
  } while (ask(static_cast<scope_core&>(*full), bytes, bin, tries, waits_until));
  if (scope_name* const row = static_cast<scope_core*>(full)->row_) scope_name::add(row->failures);
  return false;
}

// A span that is in no list, which the caller makes one of kind `how`.
span* scope_core::take(std::size_t pages, std::size_t alignment, kind how, page_heap::use use,
                       scope_bin* bin) {
  const std::size_t bytes = pages << page_shift;
  engine::heap.prepare_split();
  if (alignment <= 1) {
    if (span* const s = take_empty(pages, dirty)) return s;
  }
  if (!pay(bytes, bin)) return nullptr;
  if (alignment <= 1 && how == cut) {
    if (span* const s = take_empty(pages, clean)) return s;
  }
  span* const s = take_region(pages, alignment, use);
  if (s == nullptr) uncharge(bytes);
  return s;
}

// ---- blocks ----

bool scope_core::add_span(unsigned size_class, scope_bin* bin) {
  span* const s = take(class_info(size_class).span_pages, 1, cut, page_heap::use::sparse, bin);
  if (s == nullptr) return false;
  objects::cut(s, size_class, s->inline_bits);
  if constexpr (hardened_build) {
    zero_dirty_pages(engine::map, s);
  } else {
    for (std::size_t i = 0; i < s->capacity; ++i) free_mark::set(engine::map, size_class, objects::at(s, i));
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
  free_mark::clear(engine::map, c, object);
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
      if (free_mark::is_set(engine::map, s->size_class, block)) return freed::no;
      free_mark::set(engine::map, s->size_class, block);
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
  // The list and the mark are read under the lock: another thread may be ending the scope and making the block
  // inaccessible.
  return with_owner(s, [&](scope_core&) -> std::size_t {
    if (!is_cut(s)) {
      if (s->list != large && s->list != closing && s->list != large_withheld) return 0;
      return s->sample != nullptr ? s->sample->taken : s->bytes();
    }
    const bool is_marked = s->list == cut && free_mark::is_set(engine::map, s->size_class, block);
    const bool is_free = is_marked || objects::is_free(s, objects::index_of(s, address_of(block)));
    return is_free ? 0 : class_info(s->size_class).size;
  });
}

// ---- figures and checks ----

arena_bytes scope_core::bytes() {
  os::lock_guard guard(lock_, *this);
  return {small_bytes_, large_bytes_, own_bytes_};
}

void scope_core::validate_locked() const {
  scope_pages::validate_locked();
  std::size_t small = 0;
  std::size_t in_lists = 0;
  std::size_t listed = 0;
  for (const scope_region* region = regions_; region != nullptr; region = region->next) {
    for_each_span(region, [&](const span* s) {
      // A span that add_span() is cutting is still `large`.
      if (s->list == large || !is_cut(s)) return;
      objects::validate(s);
      small += static_cast<std::size_t>(s->capacity - s->free_objects) * class_info(s->size_class).size;
      listed += s->list == cut && s->free_objects != 0 ? 1U : 0U;
    });
  }
  for (const span_list& room : room_) {
    room.validate();
    for (const span* s = room.front(); s != nullptr; s = s->next) ++in_lists;
  }
  TARN_INVARIANT("scope_core", this, small_bytes_ == small);
  TARN_INVARIANT("scope_core", this, in_lists == listed);
}

}  // namespace tarn
