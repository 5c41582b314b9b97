// SPDX-License-Identifier: MIT
#include "scope/scope_core.hpp"

#include <algorithm>
#include <climits>
#include <new>

#include "base/chain.hpp"
#include "central/free_mark.hpp"
#include "central/objects.hpp"
#include "os/memory.hpp"
#include "os/report.hpp"
#include "pages/zero_pages.hpp"

namespace tarn {

constinit scope_core process_scope{0};
constinit scope_names names_of_scopes;
constinit metadata_pool scope_chunks{sizeof(scope_chunk), cache_line};

static_assert(objects::words(class_info(scope_core::least_class).objects) <= span::inline_words);

namespace {

// Page tables reach no further.
constexpr std::size_t largest_size = std::size_t{1} << 44;
// Chunks for cut spans: an eighth of what the scope has, within these bounds.
constexpr std::size_t least_chunk = 64 * kib;
constexpr std::size_t most_chunk = 1 * mib;
constexpr std::size_t chunk_divisor = 8;
// An arena keeps so many bytes of empty spans; a scope as many as these, this part of what it has, or half its budget.
constexpr std::size_t dirty_of_arena = 64 * kib;
constexpr std::size_t dirty_of_scope = 1 * mib;
constexpr std::size_t dirty_divisor = 4;
// A search for an empty span looks at so many.
constexpr int most_looks = 16;

// The class whose objects serve the request; size_classes::count: none. (The last object of a span ends at the span's
// end, so objects whose size is a multiple of the alignment are aligned.)
unsigned class_for(std::size_t size, std::size_t alignment) {
  if (size > largest_class_size || alignment > page_size) return size_classes::count;
  unsigned c = scope_core::class_in_scope(class_of_size(std::max(size, alignment)));
  while (c < size_classes::count && class_info(c).size % alignment != 0) ++c;
  return c;
}

bool is_cut(const span* s) { return s->size_class != 0; }
bool is_withheld(const span* s) {
  return s->list == scope_core::cut_withheld || s->list == scope_core::large_withheld;
}

}  // namespace

// ---- owners ----

void scope_core::begin(scope_name& row, const tarn_scope_options& options, scope_core& parent) {
  os::lock_guard guard(lock_, *this);
  row_ = &row;
  options_ = options;
  parent_ = &parent;
  charged_.store(0, std::memory_order_relaxed);
  peak_.store(0, std::memory_order_relaxed);
  children.store(0, std::memory_order_relaxed);
}

void scope_core::retire() {
  for (;; os::sleep_ms(1)) {
    os::lock_guard guard(lock_, *this);
    if (leaving_ != 0) continue;
    options_ = {};
    parent_ = nullptr;
    row_ = nullptr;
    return;
  }
}

// Calls work(core) for the scope that has the span, with its lock.
template <class Work>
auto scope_core::with_owner(const span* s, Work work) {
  for (;;) {
    const scope_chunk* const chunk = chunk_of(s);
    // The span has been given back: the pointer that led here is stale.
    if (chunk == nullptr) os::fatal("double free, or a pointer into memory that is free", s);
    scope_core* const core = chunk->owner.load(std::memory_order_relaxed);
    if (core == nullptr) os::fatal("double free, or a pointer into memory that is free", s);
    os::lock_guard guard(core->lock_, *core);
    if (chunk_of(s) == chunk && chunk->owner.load(std::memory_order_relaxed) == core) return work(*core);
  }
}

// In the order of addresses. visit(s) may change the span.
template <class Visit>
void scope_core::for_each_span(const scope_chunk* chunk, Visit visit) {
  const std::uintptr_t end = chunk->start + (std::size_t{chunk->pages} << page_shift);
  for (std::uintptr_t at = chunk->start; at < end;) {
    // What has been given back belongs to others: another thread may have constructed its span a moment ago.
    span* const s = engine::map.visible_span_of(at);
    if (s == nullptr || chunk_of(s) != chunk || !s->contains(at)) {
      at += page_size;
      continue;
    }
    at = s->end();
    visit(s);
  }
}

// ---- objects ----

bool scope_core::add_span(unsigned size_class, scope_bin* bin) {
  const auto& info = class_info(size_class);
  span* const s = take(info.span_pages, 1, cut, page_heap::use::sparse, bin);
  if (s == nullptr) return false;
  s->size_class = static_cast<std::uint8_t>(size_class);
  s->free_objects = s->capacity = info.objects;
  s->free_bits = s->inline_bits;
  objects::set_all_free(s->free_bits, s->capacity);
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
  const unsigned c = class_for(size, alignment);
  if (c == size_classes::count) return allocate_large(size, alignment, false, bin);
  void* object = nullptr;
  if (take_objects(c, &object, 1, bin) == 0) return nullptr;
  engine::apart.allocated += class_info(c).size;
  free_mark::clear(object);
  return object;
}

void* scope_core::allocate_large(std::size_t size, std::size_t alignment, bool zeroed, scope_bin* bin) {
  if (size > largest_size || alignment > largest_size - size) return nullptr;
  const std::size_t unit = std::max(page_size, os::system_page_size());
  const std::size_t pages = align_up(std::max<std::size_t>(size, 1), unit) >> page_shift;
  span* const s = take(pages, std::max(alignment >> page_shift, std::size_t{1}), large,
                       zeroed ? page_heap::use::sparse : page_heap::use::filled, bin);
  if (s == nullptr) return nullptr;
  if (zeroed) zero_dirty_pages(engine::map, s);
  engine::apart.allocated += s->bytes();
  os::lock_guard guard(lock_, *this);
  s->list = large;
  s->capacity = 1;
  s->free_objects = 0;
  large_bytes_ += s->bytes();
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
}

// `span`: the block was a withheld one, and its span is now in no list and no chunk.
scope_core::freed scope_core::free_locked(span* s, const void* block) {
  if (s->list == dirty || s->list == clean) return freed::no;
  if (is_cut(s)) {
    if (!objects::set_free(s, objects::index_of(s, address_of(block)))) return freed::no;
    small_bytes_ -= class_info(s->size_class).size;
  } else {
    if (s->free_objects != 0) return freed::no;
    large_bytes_ -= s->bytes();
  }
  const bool was_full = ++s->free_objects == 1;
  const bool is_empty = s->free_objects == s->capacity;
  if (s->list == cut) {
    span_list& room = room_[s->size_class];
    if (was_full) room.push_front(s);
    // One empty span of a class stays, so that a program that takes and frees one block makes no span each time.
    if (!is_empty || (room.front() == room.back() && this != &process_scope)) return freed::object;
    room.remove(s);
    empty_locked(s);
  } else if (s->list == large) {
    empty_locked(s);
  } else if (is_empty && is_withheld(s)) {
    detach_locked(s);
    ++leaving_;
    return freed::span;
  }
  return freed::object;
}

void scope_core::deallocate(span* s, void* block) {
  if (!is_object(s, block)) os::fatal("invalid free of a pointer into a block", block);
  scope_core* core = nullptr;
  bool has_much = false;
  bool is_idle = false;
  const std::size_t bytes = is_cut(s) ? class_info(s->size_class).size : s->bytes();
  const freed what = with_owner(s, [&](scope_core& owner) TARN_NOT_ANALYZED {
    core = &owner;
    // The mark is that of an object in a bin. Of survivors that are being withheld nothing may be read.
    if (s->list == cut && is_cut(s)) {
      if (free_mark::is_set(block)) return freed::no;
      free_mark::set(block);
    }
    const freed result = owner.free_locked(s, block);
    has_much = owner.dirty_bytes_ > owner.most_dirty();
    is_idle = owner.dirty_bytes_ >= dirty_of_scope && s->list == dirty;
    return result;
  });
  if (is_idle) engine::central_tier.wake_decay();
  if (what == freed::no) os::fatal("double free", block);
  engine::apart.freed += bytes;
  if (what == freed::span) {
    core->give_back_withheld(s);
  } else if (TARN_UNLIKELY(has_much)) {
    core->trim_dirty();
  }
}

void scope_core::put_back(void* const* objects, std::size_t count) {
  for (std::size_t i = 0; i < count;) {
    span* const first = span_of(objects[i]);
    if (first == nullptr) os::fatal("a free block of a scope lies in no scope", objects[i]);
    scope_core* core = nullptr;
    bool has_much = false;
    with_owner(first, [&](scope_core& owner) TARN_NOT_ANALYZED {
      core = &owner;
      for (; i < count; ++i) {
        span* const s = span_of(objects[i]);
        if (s == nullptr || chunk_of(s)->owner.load(std::memory_order_relaxed) != core) break;
        if (owner.free_locked(s, objects[i]) != freed::object)
          os::fatal("double free, detected when the block returned to its span", objects[i]);
      }
      has_much = owner.dirty_bytes_ > owner.most_dirty();
      return 0;
    });
    if (has_much) core->trim_dirty();
  }
}

std::size_t scope_core::usable_size(const span* s, const void* block) {
  if (!is_object(s, block)) return 0;
  if (!is_cut(s)) return s->list == large || s->list == large_withheld ? s->bytes() : 0;
  const std::size_t size = class_info(s->size_class).size;
  if (!hardened_build && s->list == cut) return free_mark::is_set(block) ? 0 : size;
  return with_owner(s, [&](scope_core&) {
    return objects::is_free(s, objects::index_of(s, address_of(block))) ? 0 : size;
  });
}

// ---- figures and checks ----

arena_bytes scope_core::bytes() {
  os::lock_guard guard(lock_, *this);
  return {small_bytes_, large_bytes_, own_bytes_};
}

void scope_core::validate_locked() const {
  std::size_t own = 0;
  std::size_t empty = 0;
  std::size_t small = 0;
  std::size_t in_lists = 0;
  std::size_t listed = 0;
  for (const scope_chunk* chunk = chunks_; chunk != nullptr; chunk = chunk->next) {
    TARN_INVARIANT("scope_core", this, chunk->owner.load(std::memory_order_relaxed) == this);
    std::size_t used = 0;
    for_each_span(chunk, [&](const span* s) {
      used += s->pages;
      own += s->list != clean ? s->bytes() : 0;
      empty += s->list == dirty ? s->bytes() : 0;
      // A span that add_span() is cutting is still `large`.
      if (s->list != large && is_cut(s)) {
        objects::validate(s);
        small += static_cast<std::size_t>(s->capacity - s->free_objects) * class_info(s->size_class).size;
      }
      const bool has_list =
          s->list == dirty || s->list == clean || (s->list == cut && is_cut(s) && s->free_objects != 0);
      listed += static_cast<std::size_t>(has_list);
    });
    TARN_INVARIANT("scope_core", this, chunk->used == used);
  }
  const auto count = [&](const span_list& list) {
    list.validate();
    for (const span* s = list.front(); s != nullptr; s = s->next) ++in_lists;
  };
  for (const span_list& room : room_) count(room);
  count(dirty_);
  count(clean_);
  TARN_INVARIANT("scope_core", this, own_bytes_ == own);
  TARN_INVARIANT("scope_core", this, dirty_bytes_ == empty);
  TARN_INVARIANT("scope_core", this, small_bytes_ == small);
  TARN_INVARIANT("scope_core", this, in_lists == listed);
}

// ---- pages ----

// An empty span of at least that length, cut to it, out of dirty_ or clean_; null: none.
span* scope_core::take_empty_locked(std::size_t pages, kind from) {
  span_list& list = from == dirty ? dirty_ : clean_;
  span* best = nullptr;
  int looks = most_looks;
  for (span* s = list.front(); s != nullptr && looks != 0; s = s->next, --looks) {
    if (s->pages >= pages && (best == nullptr || s->pages < best->pages)) best = s;
  }
  if (best == nullptr) return nullptr;
  span* rest = nullptr;
  if (best->pages > pages) {
    rest = engine::heap.split_prepared(best, pages);
    if (rest == nullptr) return nullptr;
  }
  list.remove(best);
  if (rest != nullptr) {
    rest->size_class = 0;
    rest->list = from;
    list.push_front(rest);
  }
  if (from == dirty) {
    dirty_bytes_ -= best->bytes();
    least_dirty_ = std::min(least_dirty_, dirty_bytes_);
  } else {
    own_bytes_ += best->bytes();
  }
  return best;
}

// A span that is in no list; the caller makes it one of kind `how`. Until then it counts as one.
span* scope_core::take(std::size_t pages, std::size_t alignment, kind how, page_heap::use use,
                       scope_bin* bin) {
  const std::size_t bytes = pages << page_shift;
  engine::heap.prepare_split();
  if (alignment <= 1) {
    os::lock_guard guard(lock_, *this);
    if (span* const s = take_empty_locked(pages, dirty)) {
      s->list = large;  // in no list
      s->capacity = 1;
      s->free_objects = 0;
      return s;
    }
  }
  if (!pay(bytes, bin)) return nullptr;
  if (alignment <= 1 && how == cut) {
    os::lock_guard guard(lock_, *this);
    if (span* const s = take_empty_locked(pages, clean)) {
      s->list = large;
      s->capacity = 1;
      s->free_objects = 0;
      return s;
    }
  }
  span* const s = take_chunk(pages, alignment, use);
  if (s == nullptr) uncharge(bytes);
  return s;
}

// The first span of a new chunk, whose rest waits. Requires: the span is paid for.
span* scope_core::take_chunk(std::size_t pages, std::size_t alignment, page_heap::use use) {
  void* const memory = scope_chunks.allocate(engine::metadata);
  if (memory == nullptr) return nullptr;
  std::size_t own = 0;
  {
    os::lock_guard guard(lock_, *this);
    own = own_bytes_;
  }
  const std::size_t wanted =
      use == page_heap::use::sparse && alignment <= 1 && pages < (least_chunk >> page_shift)
          ? std::clamp(own / chunk_divisor, least_chunk, most_chunk) >> page_shift
          : pages;
  const auto take_pages = [=](std::size_t length) {
    return engine::central_tier.take_pages(length, alignment, span_state::purging, use);
  };
  span* s = wanted > pages ? take_pages(wanted) : nullptr;
  if (s == nullptr) s = engine::take_or_reclaim([&] { return take_pages(pages); });
  if (s == nullptr) {
    scope_chunks.deallocate(memory);
    return nullptr;
  }
  auto* const chunk = new (memory) scope_chunk;
  chunk->start = s->start;
  chunk->pages = chunk->used = s->pages;
  chunk->name = row_;
  s->size_class = 0;
  s->list = large;
  s->capacity = 1;
  s->free_objects = 0;
  s->owner.store(chunk, std::memory_order_relaxed);
  chunk->owner.store(this, std::memory_order_relaxed);
  s->state.store(span_state::scoped, std::memory_order_relaxed);
  span* const rest = s->pages > pages ? engine::heap.split(s, pages) : nullptr;
  if (s->pages > pages) {  // no memory for a structure
    s->owner.store(nullptr, std::memory_order_relaxed);
    s->state.store(span_state::purging, std::memory_order_relaxed);
    engine::heap.deallocate(s);
    scope_chunks.deallocate(chunk);
    return nullptr;
  }
  scope_core* full = nullptr;
  bool is_kept = true;
  if (rest != nullptr) {
    rest->size_class = 0;
    // What may be resident is charged.
    rest->list = rest->dirty_pages == 0 ? clean : dirty;
    is_kept = rest->list == clean || charge(rest->bytes(), full);
  }
  {
    os::lock_guard guard(lock_, *this);
    chain::insert(chunks_, chunk);
    own_bytes_ += s->bytes();
    if (rest != nullptr && !is_kept) {
      rest->owner.store(nullptr, std::memory_order_relaxed);
      rest->state.store(span_state::purging, std::memory_order_relaxed);
      chunk->used -= rest->pages;
    } else if (rest != nullptr && rest->list == clean) {
      clean_.push_front(rest);
    } else if (rest != nullptr) {
      dirty_.push_front(rest);
      dirty_bytes_ += rest->bytes();
      own_bytes_ += rest->bytes();
    }
  }
  if (!is_kept) engine::heap.deallocate(rest);
  return s;
}

// The span, which is in no list, leaves the scope; its charge remains.
void scope_core::detach_locked(span* s) {
  scope_chunk* const chunk = chunk_of(s);
  own_bytes_ -= s->list != clean ? s->bytes() : 0;
  chunk->used -= s->pages;
  s->size_class = 0;
  s->owner.store(nullptr, std::memory_order_relaxed);
  s->state.store(span_state::purging, std::memory_order_relaxed);
  if (chunk->used != 0) return;
  chain::erase(chunks_, chunk);
  chunk->owner.store(nullptr, std::memory_order_relaxed);
  scope_chunks.deallocate(chunk);
}

// Gives spans to the page heap; about `keep` bytes of them stay backed. Returns their bytes.
std::size_t scope_core::give_back(span_list& leaving, std::size_t keep) {
  std::size_t total = 0;
  while (span* const s = leaving.pop_front()) {
    const std::size_t bytes = s->bytes();
    total += bytes;
    if (bytes <= keep) {
      keep -= bytes;
      engine::heap.deallocate(s);
    } else {
      engine::heap.release_to_system(s);
    }
  }
  return total;
}

// After ++leaving_: until the charge is right, the scope and its parent must not become others'.
void scope_core::end_leaving(span_list& leaving, std::size_t bytes, std::size_t keep) {
  give_back(leaving, keep);
  uncharge(bytes);
  os::lock_guard guard(lock_, *this);
  --leaving_;
}

std::size_t scope_core::most_dirty() const {
  if (this == &process_scope) return 0;
  if (index != 0) return dirty_of_arena;
  return std::max({dirty_of_scope, own_bytes_ / dirty_divisor, options_.budget / 2});
}

// Gives back what most_dirty() does not allow. Without a budget it stays backed until it decays.
void scope_core::trim_dirty() {
  span_list leaving;
  std::size_t bytes = 0;
  {
    os::lock_guard guard(lock_, *this);
    while (dirty_bytes_ > most_dirty()) {
      span* const s = dirty_.back();
      dirty_.remove(s);
      dirty_bytes_ -= s->bytes();
      bytes += s->bytes();
      detach_locked(s);
      leaving.push_back(s);
    }
    ++leaving_;
  }
  end_leaving(leaving, bytes, options_.budget != 0 ? 0 : bytes);
}

// A period of decay: gives back what no span was made of since the last one.
void scope_core::age() {
  span_list leaving;
  std::size_t bytes = 0;
  {
    os::lock_guard guard(lock_, *this);
    while (!dirty_.empty() && bytes + dirty_.back()->bytes() <= least_dirty_) {
      span* const s = dirty_.back();
      dirty_.remove(s);
      bytes += s->bytes();
      detach_locked(s);
      leaving.push_back(s);
    }
    dirty_bytes_ -= bytes;
    least_dirty_ = dirty_bytes_;
    ++leaving_;
  }
  end_leaving(leaving, bytes, 0);
}

bool scope_core::has_idle() {
  os::lock_guard guard(lock_, *this);
  return dirty_bytes_ != 0;
}

std::size_t scope_core::release_empty() {
  span_list leaving;
  std::size_t bytes = 0;
  {
    os::lock_guard guard(lock_, *this);
    bytes = dirty_bytes_;
    dirty_bytes_ = 0;
    while (span* const s = dirty_.pop_front()) {
      detach_locked(s);
      leaving.push_back(s);
    }
    for (unsigned c = 0; c < size_classes::count; ++c) {
      span* const s = room_[c].front();
      if (s == nullptr || s != room_[c].back() || s->free_objects != s->capacity) continue;
      room_[c].remove(s);
      bytes += s->bytes();
      detach_locked(s);
      leaving.push_back(s);
    }
    ++leaving_;
  }
  end_leaving(leaving, bytes, 0);
  return bytes;
}

// ---- the end ----

struct scope_core::departure {
  span_list leaving;
  span_list closing;  // to be made inaccessible
  bool withholds = false;
  std::size_t given = 0;  // bytes that leave and are charged
  std::size_t held = 0;   // bytes of spans that stay
  std::size_t large_bytes = 0;
  std::uint64_t blocks[size_classes::count] = {};  // 0: large ones
};

// Divides a chunk into what leaves and what stays, for `heir`; null: all leaves. Requires: the locks of both.
void scope_core::sort_out_locked(scope_chunk* chunk, scope_core* heir, departure& d) {
  span* run = nullptr;
  std::size_t run_pages = 0;
  const auto end_run = [&] {
    if (run == nullptr) return;
    if (run->pages < run_pages) engine::heap.join(run, run_pages);
    d.leaving.push_back(run);
    run = nullptr;
  };
  for_each_span(chunk, [&](span* s) TARN_NOT_ANALYZED {
    const bool is_live = s->list != dirty && s->list != clean && s->free_objects != s->capacity;
    if (!is_live || heir == nullptr) {
      if (run != nullptr && run->start + (run_pages << page_shift) != s->start) end_run();
      if (run == nullptr) {
        run = s;
        run_pages = 0;
      }
      run_pages += s->pages;
      d.given += s->list != clean ? s->bytes() : 0;
      chunk->used -= s->pages;
      s->size_class = 0;
      s->owner.store(nullptr, std::memory_order_relaxed);
      s->state.store(span_state::purging, std::memory_order_relaxed);
      return;
    }
    end_run();
    const auto live = static_cast<std::size_t>(s->capacity - s->free_objects);
    d.blocks[s->size_class] += live;
    d.held += s->bytes();
    heir->own_bytes_ += s->bytes();
    if (is_cut(s)) {
      heir->small_bytes_ += live * class_info(s->size_class).size;
    } else {
      heir->large_bytes_ += s->bytes();
      d.large_bytes += s->bytes();
    }
    if (d.withholds && !is_withheld(s)) {
      s->list = closing;
      d.closing.push_back(s);
    } else if (s->list == cut && s->free_objects != 0) {
      heir->room_[s->size_class].push_front(s);
    }
  });
  end_run();
  if (chunk->used == 0) {
    chunk->owner.store(nullptr, std::memory_order_relaxed);
    scope_chunks.deallocate(chunk);
  } else if (heir != nullptr) {
    chain::insert(heir->chunks_, chunk);
    // release: partner of the acquire in owner_of(), so that a thread in the heir's scope that frees a block without a
    // lock sees that the block's span is being withheld.
    chunk->owner.store(heir, std::memory_order_release);
  }
}

void scope_core::empty_lists_locked() {
  chunks_ = nullptr;
  for (span_list& room : room_) room = {};
  dirty_ = {};
  clean_ = {};
  own_bytes_ = dirty_bytes_ = least_dirty_ = small_bytes_ = large_bytes_ = 0;
}

void scope_core::reset() {
  departure d;
  {
    os::lock_guard guard(lock_, *this);
    for (scope_chunk* chunk = chunks_; chunk != nullptr;) {
      scope_chunk* const next = chunk->next;
      sort_out_locked(chunk, nullptr, d);
      chunk = next;
    }
    empty_lists_locked();
  }
  give_back(d.leaving, SIZE_MAX);
  uncharge(d.given);
}

// Makes the survivors of a span inaccessible, unless all of them have been freed meanwhile.
void scope_core::withhold(span* s) {
  if (((s->start | s->bytes()) & (os::system_page_size() - 1)) == 0)
    os::forbid_access(reinterpret_cast<void*>(s->start), s->bytes());
  scope_core* core = nullptr;
  const bool is_empty = with_owner(s, [&](scope_core& owner) TARN_NOT_ANALYZED {
    core = &owner;
    s->list = is_cut(s) ? cut_withheld : large_withheld;
    if (s->free_objects != s->capacity) return false;
    owner.detach_locked(s);
    ++owner.leaving_;
    return true;
  });
  if (is_empty) core->give_back_withheld(s);
}

// A span that has been inaccessible. Requires: ++leaving_ after it was detached.
void scope_core::give_back_withheld(span* s) {
  os::allow_access(reinterpret_cast<void*>(s->start), s->bytes());
  span_list leaving;
  leaving.push_back(s);
  end_leaving(leaving, s->bytes(), 0);
}

void scope_core::finish(scope_core& heir, bool withholds, tarn_scope_report& report) TARN_NOT_ANALYZED {
  departure d;
  d.withholds = withholds;
  os::mutex& first = order > heir.order ? lock_ : heir.lock_;
  os::mutex& second = order > heir.order ? heir.lock_ : lock_;
  {
    os::lock_guard guard(first);
    os::lock_guard inner(second);
    for (scope_chunk* chunk = chunks_; chunk != nullptr;) {
      scope_chunk* const next = chunk->next;
      sort_out_locked(chunk, &heir, d);
      chunk = next;
    }
    empty_lists_locked();
  }
  if (engine::guards.samples() != 0)
    engine::guards.hand_over(this, &heir, [&d](unsigned c) { ++d.blocks[class_in_scope(c)]; });
  report = {};
  report.peak = peak();
  report.held = d.held;
  for (unsigned i = 1; i <= size_classes::count; ++i) {
    const unsigned c = i % size_classes::count;
    if (d.blocks[c] == 0) continue;
    tarn_scope_survivors& row = report.classes[report.count++];
    row = {class_info(c).size, d.blocks[c], c == 0 ? d.large_bytes : d.blocks[c] * class_info(c).size, 0};
    report.blocks += row.blocks;
    report.bytes += row.bytes;
  }
  report.given = d.given;
  give_back(d.leaving, options_.keep);
  while (span* const s = d.closing.pop_front()) withhold(s);
  uncharge(d.given);
}

}  // namespace tarn
