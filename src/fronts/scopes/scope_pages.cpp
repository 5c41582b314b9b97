// SPDX-License-Identifier: MIT
#include "fronts/scopes/scope_pages.hpp"

#include <algorithm>
#include <cstdint>
#include <new>

#include "background/reclaim.hpp"
#include "base/chain.hpp"

namespace tarn {

constinit metadata_pool scope_regions{sizeof(scope_region), cache_line};

namespace {

// Regions for cut spans: an eighth of what the scope has, within these bounds.
constexpr std::size_t least_region = 64 * kib;
constexpr std::size_t most_region = 1 * mib;
constexpr std::size_t region_divisor = 8;
// An arena keeps so many bytes of empty spans; a scope as many as dirty_of_scope, this part of what it has, or half its
// budget.
constexpr std::size_t dirty_of_arena = 64 * kib;
constexpr std::size_t dirty_divisor = 4;
// A search for an empty span looks at so many.
constexpr int most_looked_at = 16;

// Of the calling thread. A purge of the page heap may run a period of decay, which ends others within.
thread_local constinit scope_leaving* innermost_leaving = nullptr;

}  // namespace

// Until the caller makes the span one of another kind, it counts as a large block.
static span* in_no_list(span* s) {
  s->list = scope_pages::large;
  s->capacity = 1;
  s->free_objects = 0;
  return s;
}

span* scope_pages::take_empty(std::size_t pages, kind from) {
  os::lock_guard guard(lock_, *this);
  span_list& list = from == dirty ? dirty_ : clean_;
  span* best = nullptr;
  int looks = most_looked_at;
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
  return in_no_list(best);
}

span* scope_pages::take_region(std::size_t pages, std::size_t alignment, page_heap::use use) {
  void* const memory = scope_regions.allocate(engine::metadata);
  if (memory == nullptr) return nullptr;
  std::size_t own = 0;
  {
    os::lock_guard guard(lock_, *this);
    own = own_bytes_;
  }
  const std::size_t wanted =
      use == page_heap::use::sparse && alignment <= 1 && pages < (least_region >> page_shift)
          ? std::clamp(own / region_divisor, least_region, most_region) >> page_shift
          : pages;
  const auto take_pages = [=](std::size_t length) {
    return engine::central_tier.take_pages(length, alignment, span_state::purging, use);
  };
  span* s = wanted > pages ? take_pages(wanted) : nullptr;
  if (s == nullptr) s = engine::take_or_reclaim([&] { return take_pages(pages); });
  if (s == nullptr) {
    scope_regions.deallocate(memory);
    return nullptr;
  }
  auto* const region = new (memory) scope_region;
  region->start = s->start;
  region->pages = region->used = s->pages;
  region->name = row_;
  s->size_class = 0;
  in_no_list(s);
  s->owner.store(region, std::memory_order_relaxed);
  region->owner.store(this, std::memory_order_relaxed);
  s->state.store(span_state::scoped, std::memory_order_relaxed);
  span* const rest = s->pages > pages ? engine::heap.split(s, pages) : nullptr;
  if (s->pages > pages) {  // no memory for a structure
    leave_region(s);
    engine::heap.deallocate(s);
    scope_regions.deallocate(region);
    return nullptr;
  }
  scope_charge* full = nullptr;
  bool is_kept = true;
  if (rest != nullptr) {
    rest->size_class = 0;
    // What may be resident is charged.
    rest->list = rest->dirty_pages == 0 ? clean : dirty;
    is_kept = rest->list == clean || charge(rest->bytes(), full);
  }
  {
    os::lock_guard guard(lock_, *this);
    chain::insert(regions_, region);
    own_bytes_ += s->bytes();
    if (rest != nullptr && !is_kept) {
      leave_region(rest);
      region->used -= rest->pages;
    } else if (rest != nullptr && rest->list == clean) {
      clean_.push_front(rest);
    } else if (rest != nullptr) {
      dirty_.push_front(rest);
      dirty_bytes_ += rest->bytes();
      own_bytes_ += rest->bytes();
      note_idle();
    }
  }
  if (!is_kept) engine::heap.deallocate(rest);
  return s;
}

void scope_pages::empty_locked(span* s) {
  engine::map.set_backing(s->start, s->pages, page_backing::young);
  s->dirty_pages = s->pages;
  s->size_class = 0;
  s->list = dirty;
  dirty_.push_front(s);
  dirty_bytes_ += s->bytes();
  note_idle();
}

void scope_pages::leave_region(span* s) {
  s->size_class = 0;
  s->owner.store(nullptr, std::memory_order_relaxed);
  s->state.store(span_state::purging, std::memory_order_relaxed);
}

void scope_pages::detach_locked(span* s, scope_leaving& to) {
  scope_region* const region = region_of(s);
  own_bytes_ -= s->list != clean ? s->bytes() : 0;
  region->used -= s->pages;
  leave_region(s);
  to.spans.push_back(s);
  to.bytes += s->bytes();
  if (region->used != 0) return;
  chain::erase(regions_, region);
  region->owner.store(nullptr, std::memory_order_relaxed);
  scope_regions.deallocate(region);
}

void scope_pages::detach_dirty_locked(span* s, scope_leaving& to) {
  dirty_.remove(s);
  dirty_bytes_ -= s->bytes();
  detach_locked(s, to);
}

// Gives spans to the page heap; about `keep` bytes of them stay backed.
static void give_back(span_list& leaving, std::size_t keep) {
  while (span* const s = leaving.pop_front()) {
    const std::size_t bytes = s->bytes();
    if (bytes <= keep) {
      keep -= bytes;
      engine::heap.deallocate(s);
    } else {
      engine::heap.release_to_system(s);
    }
  }
}

void scope_pages::begin_leaving_locked(scope_leaving& l) {
  if (l.spans.empty()) return;
  l.core = this;
  l.outer = innermost_leaving;
  innermost_leaving = &l;
  ++leaving_;
  leaving_bytes_ += l.bytes;
}

void scope_pages::end_leaving(scope_leaving& l, std::size_t keep) {
  scope_pages* const core = l.core;
  if (core == nullptr) return;
  give_back(l.spans, keep);
  {
    // Together, as a forked child sees it.
    os::lock_guard guard(core->lock_, *core);
    core->leaving_bytes_ -= l.bytes;
    core->take_off(l.bytes);
    l.bytes = 0;
  }
  core->wake_waiters();
  os::lock_guard guard(core->lock_, *core);
  --core->leaving_;
  innermost_leaving = l.outer;
}

// What the calling thread was about to give back when the handler of a signal forked, it gives back when that returns.
void scope_pages::forget_leaving() {
  unsigned own = 0;
  std::size_t own_bytes = 0;
  for (const scope_leaving* l = innermost_leaving; l != nullptr; l = l->outer) {
    if (l->core != this) continue;
    ++own;
    own_bytes += l->bytes;
  }
  take_off(leaving_bytes_ - own_bytes);
  leaving_ = own;
  leaving_bytes_ = own_bytes;
}

std::size_t scope_pages::most_dirty() const {
  if (order == 0) return 0;  // process_scope
  if (index != 0) return dirty_of_arena;
  return std::max({dirty_of_scope, own_bytes_ / dirty_divisor, limit_ / 2});
}

void scope_pages::trim_dirty() {
  scope_leaving l;
  std::size_t keep = 0;
  {
    os::lock_guard guard(lock_, *this);
    keep = limit_ != 0 ? 0 : SIZE_MAX;
    while (dirty_bytes_ > most_dirty()) detach_dirty_locked(dirty_.back(), l);
    begin_leaving_locked(l);
  }
  end_leaving(l, keep);
}

void scope_pages::age() {
  scope_leaving l;
  {
    os::lock_guard guard(lock_, *this);
    while (!dirty_.empty() && l.bytes + dirty_.back()->bytes() <= least_dirty_)
      detach_dirty_locked(dirty_.back(), l);
    least_dirty_ = dirty_bytes_;
    begin_leaving_locked(l);
  }
  end_leaving(l, 0);
}

bool scope_pages::has_idle() {
  os::lock_guard guard(lock_, *this);
  return dirty_bytes_ != 0;
}

void scope_pages::validate_locked() const {
  std::size_t own = 0;
  std::size_t empty = 0;
  std::size_t listed = 0;
  std::size_t in_lists = 0;
  for (const scope_region* region = regions_; region != nullptr; region = region->next) {
    TARN_INVARIANT("scope_pages", this, region->owner.load(std::memory_order_relaxed) == this);
    std::size_t used = 0;
    for_each_span(region, [&](const span* s) {
      used += s->pages;
      own += s->list != clean ? s->bytes() : 0;
      empty += s->list == dirty ? s->bytes() : 0;
      listed += s->list == dirty || s->list == clean ? 1U : 0U;
    });
    TARN_INVARIANT("scope_pages", this, region->used == used);
  }
  for (const span_list* const list : {&dirty_, &clean_}) {
    list->validate();
    for (const span* s = list->front(); s != nullptr; s = s->next) ++in_lists;
  }
  TARN_INVARIANT("scope_pages", this, own_bytes_ == own);
  TARN_INVARIANT("scope_pages", this, dirty_bytes_ == empty);
  TARN_INVARIANT("scope_pages", this, in_lists == listed);
  TARN_INVARIANT("scope_pages", this, own_bytes_ + leaving_bytes_ <= charged());
}

}  // namespace tarn
