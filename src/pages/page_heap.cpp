// SPDX-License-Identifier: MIT
#include "pages/page_heap.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/hardened.hpp"
#include "os/memory.hpp"
#include "os/own_threads/thread.hpp"

namespace tarn {
namespace {

// The most runs of dirty pages of a partly dirty span that are tried.
constexpr std::size_t most_runs = 8;
// Fewer dirty free bytes than this are not worth a background thread.
constexpr std::size_t watch_bytes = 1 * mib;
// Blocks of at least this length get a mapping of their own; shorter ones are taken from reservations.
constexpr std::size_t own_mapping_from = 4 * mib;
// A request of at least this length is a large block: memory is purged before it takes fresh memory.
constexpr std::size_t large_from = 256 * kib;
// The pages of a longer span are not marked if it is purged at once: marking takes 130 KiB of the page map for each GiB, most
// of which may never have been used.
constexpr std::size_t longest_marked = 1 * gib;

// Cuts `s` to its first `pages` pages; `rest`, a new structure, has the others. It lies in the same mapping; a border
// behind it is no longer behind `s`. The caller sets the dirty pages of both.
TARN_ALWAYS_INLINE void cut_end(span* s, std::size_t pages, span* rest) {
  rest->start = s->start + (pages << page_shift);
  rest->pages = static_cast<std::uint32_t>(s->pages - pages);
  s->pages = static_cast<std::uint32_t>(pages);
  rest->own_mapping = s->own_mapping;
  rest->borders = s->borders & all_behind;
  s->borders &= all_before;
}

}  // namespace

// ---- span structures ----

bool page_heap::ensure_span_structs() {
  {
    os::lock_guard guard(lock_, *this);
    if (structs_.is_ready()) return true;
  }
  for (std::uint32_t i = 0; i < span_supply::group; ++i) {
    span* const s = structs_.make(metadata_);
    if (s == nullptr) break;
    os::lock_guard guard(lock_, *this);
    structs_.put(s);
  }
  os::lock_guard guard(lock_, *this);
  return structs_.is_ready();
}

bool page_heap::has_idle_structs() {
  {
    os::lock_guard guard(lock_, *this);
    if (structs_.has_many()) return true;
  }
  return structs_.has_returns();
}

// A period of decay: structures that nobody has needed since the last one go to their store, which gives memory back.
void page_heap::age_structs() {
  std::uint32_t idle = 0;
  {
    os::lock_guard guard(lock_, *this);
    idle = structs_.end_period();
  }
  while (idle != 0 && !os::background_thread_must_end()) {
    os::lock_guard guard(lock_, *this);
    idle = structs_.give_up(idle);
  }
  structs_.give_memory_back(metadata_);
}

// ---- free spans ----

void page_heap::insert_locked(span* s) {
  s->state.store(span_state::free, std::memory_order_relaxed);
  s->list = walk_;
  map_.set_ends(s);
  free_.insert(s);
  frees_.store(frees_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  free_pages_ += s->pages;
  free_dirty_.store(free_dirty_.load(std::memory_order_relaxed) + s->dirty_pages, std::memory_order_relaxed);
}

void page_heap::remove_locked(span* s) {
  free_.remove(s);
  s->list = 0;
  free_pages_ -= s->pages;
  free_dirty_.store(free_dirty_.load(std::memory_order_relaxed) - s->dirty_pages, std::memory_order_relaxed);
}

// Whether two neighbours may be joined: same kind of mapping, a total length that span::pages can hold, and at most
// longest_mixed if the result is partly dirty.
bool page_heap::may_join(const span* a, const span* b) {
  const std::size_t pages = std::size_t{a->pages} + b->pages;
  const std::size_t dirty = std::size_t{a->dirty_pages} + b->dirty_pages;
  return a->own_mapping == b->own_mapping && pages <= std::numeric_limits<decltype(span::pages)>::max() &&
         (pages <= longest_mixed || dirty == 0 || dirty == pages);
}

// Joins `s` with its free neighbours and inserts the result.
void page_heap::coalesce_locked(span* s) {
  // A page map entry may be stale. But a free span that ends or starts exactly here must be the neighbour. Beyond a guard
  // there is none, and the entry would be a further page to touch.
  if (span* before = s->has_border(guard_before) ? nullptr : map_.span_of(s->start - 1);
      before != nullptr && before->state.load(std::memory_order_relaxed) == span_state::free &&
      before->end() == s->start && may_join(before, s)) {
    remove_locked(before);
    s->start = before->start;
    s->pages += before->pages;
    s->dirty_pages += before->dirty_pages;
    s->borders = joined_borders(before->borders, s->borders);
    structs_.put(before);
  }
  if (span* after = s->has_border(guard_behind) ? nullptr : map_.span_of(s->end());
      after != nullptr && after->state.load(std::memory_order_relaxed) == span_state::free &&
      after->start == s->end() && may_join(s, after)) {
    remove_locked(after);
    append_locked(s, after);
  }
  insert_locked(s);
}

// `after` becomes the end of `s`.
void page_heap::append_locked(span* s, span* after) {
  s->pages += after->pages;
  s->dirty_pages += after->dirty_pages;
  s->borders = joined_borders(s->borders, after->borders);
  structs_.put(after);
}

// The span of the heap that `address`, the first or last byte of a span's neighbour, belongs to. Null: the address does
// not belong to the heap, or its span is being unmapped. The state comes first: the store of structures writes to the other
// members of a retired one without the page heap's lock.
span* page_heap::span_around(std::uintptr_t address) const {
  span* const s = map_.span_of(address);
  return s != nullptr && !s->is_retired() && s->contains(address) ? s : nullptr;
}

// Of a span that was cut in two, whose structure still has the dirty pages of both parts: counts those of the shorter part,
// unless all pages are equal, and subtracts.
void page_heap::divide_dirty_pages(span* s, span* rest) const {
  if (s->dirty_pages == 0) {
    rest->dirty_pages = 0;
  } else if (s->dirty_pages == s->pages + rest->pages) {
    s->dirty_pages = s->pages;
    rest->dirty_pages = rest->pages;
  } else if (s->pages <= rest->pages) {
    const std::size_t dirty = map_.count_dirty(s->start, s->pages);
    rest->dirty_pages = static_cast<std::uint32_t>(s->dirty_pages - dirty);
    s->dirty_pages = static_cast<std::uint32_t>(dirty);
  } else {
    rest->dirty_pages = static_cast<std::uint32_t>(map_.count_dirty(rest->start, rest->pages));
    s->dirty_pages -= rest->dirty_pages;
  }
}

// Cuts `s`, which is in no list, to its first `pages` pages and returns the rest, also in no list. Requires: a span
// structure is available. Neither part has state `free`, so coalescing one does not join the other.
span* page_heap::cut_locked(span* s, std::size_t pages) {
  span* const rest = structs_.take();
  cut_end(s, pages, rest);
  s->state.store(span_state::purging, std::memory_order_relaxed);
  divide_dirty_pages(s, rest);
  return rest;
}

// The address in the free span `s` at which to take `pages` pages of which at least `least_dirty` are dirty. 0: none
// was found.
std::uintptr_t page_heap::place_in(const span* s, std::size_t pages, std::size_t alignment,
                                   std::size_t least_dirty, use how) const {
  const std::uintptr_t last = align_down(s->end() - (pages << page_shift), alignment << page_shift);
  if (s->dirty_pages == s->pages) return align_up(s->start, alignment << page_shift);
  if (s->dirty_pages == 0) return how == use::dense ? align_up(s->start, alignment << page_shift) : last;
  // Partly dirty: where a run of dirty pages begins, or as close before it as the length allows.
  std::uintptr_t run = s->start;
  for (std::size_t looks = most_runs; looks != 0; --looks) {
    run = map_.first_dirty(run, (s->end() - run) >> page_shift);
    const std::uintptr_t start = std::min(align_up(run, alignment << page_shift), last);
    if (least_dirty == 0 || map_.count_dirty(start, pages) >= least_dirty) return start;
    if (start == last) break;
    run = map_.first_clean(run, (s->end() - run) >> page_shift);
  }
  return 0;
}

span* page_heap::take_locked(std::size_t pages, std::size_t alignment, source from, use how,
                             std::size_t most_looks) {
  const bool roomy = from == source::roomy;
  const std::size_t place = roomy ? 2 * pages : pages;
  // Long enough for any alignment of the start.
  const std::size_t with_room = place + alignment - 1;
  // Of `any` free memory, a dirty span that fits is taken whatever part of it is dirty.
  std::size_t least_dirty = 0;
  if (from != source::any) least_dirty = from == source::backed ? place : (place + 1) / 2;
  span* s = roomy ? free_.longest(free_spans::half::dirty)
                  : free_.best_fit(free_spans::half::dirty, with_room, least_dirty, most_looks);
  if (roomy && s != nullptr && s->pages < with_room) return nullptr;
  if (s == nullptr && from == source::any) {
    // The structures and the page map's entries of many short spans lie on as many pages, which a child would copy.
    if (TARN_UNLIKELY(touch_.is_young_child(in_use_bytes()))) s = free_.longest(free_spans::half::clean);
    if (s == nullptr || s->pages < with_room)
      s = free_.best_fit(free_spans::half::clean, with_room, 0, most_looks);
  }
  const std::uintptr_t aligned = s != nullptr ? place_in(s, place, alignment, least_dirty, how) : 0;
  if (aligned == 0) return nullptr;
  remove_locked(s);
  if (const std::size_t before = (aligned - s->start) >> page_shift; before != 0) {
    span* const front = s;
    s = cut_locked(front, before);
    coalesce_locked(front);
  }
  if (s->pages > pages) coalesce_locked(cut_locked(s, pages));
  return s;
}

// ---- taking and giving back ----

// Whether the span consists of whole system pages. A partial one cannot be dropped: the system rounds the length up.
bool page_heap::is_whole(const span* s) {
  return ((s->start | s->bytes()) & (os::system_page_size() - 1)) == 0;
}

// Sets the backing of all pages of a span that only the caller uses. Skips the write if all pages are known to be clean
// already.
void page_heap::set_span_backing(span* s, page_backing backing) {
  if (backing != page_backing::clean || s->dirty_pages != 0) map_.set_backing(s->start, s->pages, backing);
  s->dirty_pages = backing == page_backing::clean ? 0 : s->pages;
}

span* page_heap::take(std::size_t pages, std::size_t alignment, span_state state, source from, use how,
                      std::size_t most_looks) {
  const std::size_t bytes = pages << page_shift;
  const bool foreseen =
      from == source::any && how == use::filled && touch_.evidence().foresees(bytes, in_use_bytes());
  const use as = foreseen ? use::dense : how;
  for (;;) {
    if (!ensure_span_structs()) return nullptr;
    touch_plan plan;
    span* s = nullptr;
    bool ahead = false;
    {
      os::lock_guard guard(lock_, *this);
      // Another thread may have used up what ensure_span_structs() found.
      if (!structs_.is_ready()) continue;
      s = take_locked(pages, alignment, from, as, most_looks);
      if (s == nullptr) return nullptr;
      if (TARN_UNLIKELY(exceeds_most(pages))) {
        coalesce_locked(s);
        return nullptr;
      }
      s->state.store(state, std::memory_order_relaxed);
      s->is_first_use = first_use_.take_locked(s->start, s->end());
      map_.set_ends(s);
      account_in_use(static_cast<std::ptrdiff_t>(pages));
      if (how == use::filled && s->dirty_pages == 0) touch_.evidence().note_fresh(s->start, bytes, foreseen);
      if (as == use::dense) {
        plan = touch_.plan_locked(s->start, bytes, in_use_bytes());
        ahead = !plan.is_empty();
        if (ahead) ++unlocked_users_;
      } else {
        touch_.withhold_locked(s->start, s->end());
      }
      if (as == use::filled && s->dirty_pages < s->pages / 2) {
        const std::uintptr_t fresh = s->dirty_pages == 0 ? s->start : map_.first_clean(s->start, pages);
        plan = touch_.plan_block(s->start, bytes, fresh, in_use_bytes());
      }
    }
    touch_.carry_out(plan);
    if (plan.huge_bytes != 0) map_.note_huge(plan.huge_start, plan.huge_bytes, true);
    if (ahead) end_unlocked_use();
    if (plan.has_next && !is_taken_over(*this)) touch_ahead();
    return s;
  }
}

// Whether `pages` more pages in use would bring the backed bytes above the most that may be backed.
bool page_heap::exceeds_most(std::size_t pages) const {
  const std::size_t most = limits_.most();
  return TARN_UNLIKELY(most != backing_limits::none) &&
         backed_bytes() + metadata_.used() + (pages << page_shift) > most;
}

// Before `pages` more pages are used: purges free pages if the backed bytes would exceed their limit. False: they would
// all the same.
bool page_heap::make_room(std::size_t pages) {
  if (TARN_LIKELY(!exceeds_most(pages))) return true;
  const std::size_t most = limits_.most();
  const std::size_t bytes = pages << page_shift;
  const std::size_t used = in_use_bytes() + metadata_.used();
  if (bytes <= most && used <= most - bytes) purge_until(most - bytes - used);
  if (!exceeds_most(pages)) return true;
  limits_.note_refusal();
  return false;
}

bool page_heap::is_satisfiable(std::size_t bytes) {
  if (bytes > os::machine_bytes() || bytes > limits_.most()) return false;
  std::size_t held = 0;
  {
    os::lock_guard guard(lock_, *this);
    held = reserved_ << page_shift;
  }
  return bytes <= held || os::can_reserve(bytes - held);
}

span* page_heap::allocate(std::size_t pages, std::size_t alignment, span_state state, source from, use how) {
  if (from == source::any && !make_room(pages)) return nullptr;
  span* const s = allocate_within_limit(pages, alignment, state, from, how);
  if (s != nullptr) note_growth();
  return s;
}

span* page_heap::allocate_within_limit(std::size_t pages, std::size_t alignment, span_state state,
                                       source from, use how) {
  const bool mapped = from == source::any && may_map(pages, own_mapping_from);
  if (mapped) {
    if (span* s = take(pages, alignment, state, source::warm, how)) return s;
    if (is_still_refused(pages, pages << page_shift)) return nullptr;
    // A block that the caller zeroes, or of which it may use a part only, gets fresh memory.
    if (how == use::filled && alignment <= 1) {
      if (span* s = allocate_grown(pages, state)) return s;
    }
    if (span* s = allocate_mapped(pages, alignment, state, how)) return s;
    // More than the machine's memory: refuse, since a reservation would accept what the overcommit policy has just
    // refused.
    if (pages << page_shift > os::machine_bytes()) return nullptr;
  } else if (from == source::any && pages << page_shift >= large_from) {
    purge_before_block(pages << page_shift);
  }
  int purges_waited = 0;
  for (;;) {
    const std::size_t frees = frees_.load(std::memory_order_relaxed);
    if (span* s = take(pages, alignment, state, from, how)) return s;
    if (from != source::any || !make_room(pages)) return nullptr;
    if (!mapped && is_still_refused(pages, align_up(pages << page_shift, least_growth))) return nullptr;
    if (grow(pages, alignment) || wait_for_purge(purges_waited)) continue;
    // The system has no more memory. Search all free spans for a fit; then take spans out of quarantine, unmap idle
    // mappings, or free parts of reservations, and try again. Parts of reservations come last: holes between spans in
    // quarantine would leave reservations that are too short for most requests.
    if (span* s = take(pages, alignment, state, from, how, free_spans::all_spans)) return s;
    if (!is_satisfiable(pages << page_shift)) return nullptr;
    if (!(hardened_build && give_back_kept_span()) && unmap_idle() == 0 &&
        unmap_free((pages + alignment - 1) << page_shift, purges_waited) == 0) {
      // A refusal with an alignment says nothing of requests without one, which need less.
      if (alignment <= 1) note_refused(pages, frees);
      return nullptr;
    }
    if (mapped) {
      if (span* s = allocate_mapped(pages, alignment, state, how)) return s;
    }
  }
}

void page_heap::deallocate(span* s, page_backing backing) {
  map_.end_dropped(s);
  // A long block, such as the old one of a vector that has grown, is rarely asked for again.
  const bool is_long = s->bytes() > limits_.most_free(0);
  const std::size_t limit = limits_.most_free(is_long ? 0 : in_use_bytes());
  if (backing != page_backing::clean && is_whole(s) && s->bytes() > std::max(limit, longest_marked)) {
    purge_whole_soon(s);
  } else {
    departure idle;
    {
      os::lock_guard guard(lock_, *this);
      account_in_use(-static_cast<std::ptrdiff_t>(s->pages));
      set_span_backing(s, backing);
      idle = free_locked(s);
      if (backing != page_backing::clean) has_idle_memory_.store(true, std::memory_order_relaxed);
    }
    unmap(idle);
  }
  const std::size_t dirty = dirty_bytes();
  if (TARN_UNLIKELY(dirty > limit)) purge_beyond(limit);
  if (dirty >= watch_bytes) free_memory_gathered(*this);
}

bool page_heap::extend(span* s, std::size_t pages) {
  if (!make_room(pages - s->pages) || !ensure_span_structs()) return false;
  {
    os::lock_guard guard(lock_, *this);
    const std::size_t more = pages - s->pages;
    span* after = map_.span_of(s->end());
    if (after == nullptr || after->state.load(std::memory_order_relaxed) != span_state::free ||
        after->start != s->end() || after->pages < more || after->own_mapping != s->own_mapping ||
        !structs_.is_ready()) {
      return false;
    }
    remove_locked(after);
    if (after->pages > more) coalesce_locked(cut_locked(after, more));
    first_use_.take_locked(after->start, after->end());
    append_locked(s, after);
    map_.set_ends(s);
    account_in_use(static_cast<std::ptrdiff_t>(more));
  }
  note_growth();
  return true;
}

bool page_heap::shrink(span* s, std::size_t pages) {
  if (!ensure_span_structs()) return false;
  span* rest = nullptr;
  {
    os::lock_guard guard(lock_, *this);
    rest = structs_.take();
    if (rest == nullptr) return false;
    cut_end(s, pages, rest);
    map_.set_ends(s);
    map_.set_ends(rest);
  }
  divide_dirty_pages(s, rest);
  deallocate(rest);
  return true;
}

span* page_heap::join(const span_run& run) {
  if (os::is_check_due()) run.validate();
  span* const s = run.first_;
  if (run.others_ == nullptr) return s;
  os::lock_guard guard(lock_, *this);
  s->pages = run.pages_;
  s->dirty_pages = run.dirty_pages_;
  s->borders = joined_borders(s->borders, run.others_->borders);
  run.others_->retire();
  structs_.put_all(run.others_, run.tail_, static_cast<std::uint32_t>(run.other_count_));
  map_.set_ends(s);
  return s;
}

span* page_heap::split(span* s, std::size_t pages) {
  return ensure_span_structs() ? split_prepared(s, pages) : nullptr;
}

span* page_heap::split_prepared(span* s, std::size_t pages) {
  os::lock_guard guard(lock_, *this);
  const std::size_t all = s->pages;
  span* const rest = structs_.take();
  if (rest == nullptr) return nullptr;
  cut_end(s, pages, rest);
  // Both parts stay correct if a dirty span counts as dirty from end to end: no page is called clean that may be dirty.
  if (s->dirty_pages != 0) {
    map_.set_backing(s->start, all, page_backing::young);
    s->dirty_pages = s->pages;
    rest->dirty_pages = rest->pages;
  } else {
    rest->dirty_pages = 0;
  }
  rest->owner.store(s->owner.load(std::memory_order_relaxed), std::memory_order_relaxed);
  rest->state.store(s->state.load(std::memory_order_relaxed), std::memory_order_relaxed);
  map_.set_ends(s);
  map_.set_ends(rest);
  return rest;
}

// ---- figures and checks ----

page_heap_stats page_heap::stats() {
  os::lock_guard guard(lock_, *this);
  page_heap_stats out;
  const std::size_t dirty = free_dirty_.load(std::memory_order_relaxed);
  out.reserved = reserved_ << page_shift;
  out.in_use = in_use_.load(std::memory_order_relaxed) << page_shift;
  out.free_dirty = (dirty + transit_.pages()) << page_shift;
  out.free_clean = (free_pages_ - dirty) << page_shift;
  out.returned = returned_;
  out.ahead = std::min(touch_.ahead_locked(), out.free_clean);
  out.dropped = std::min(map_.dropped_bytes(), out.in_use);
  return out;
}

// Behind a guard lies no span; where there is no border, a span or one that is being unmapped.
void page_heap::validate_neighbour_locked(const span* s, const span* neighbour, std::uint8_t border,
                                          std::uint8_t guard) const {
  const bool is_unmapping = !transit_.empty() || transit_.are_lost();
  const bool has_border = s->own_mapping || s->has_border(border);
  TARN_INVARIANT("page_heap", this, neighbour == nullptr || !s->has_border(guard));
  TARN_INVARIANT("page_heap", this, neighbour != nullptr || has_border || is_unmapping);
}

void page_heap::validate_free_locked(const span* s) const {
  const span* const before = span_around(s->start - 1);
  const span* const after = span_around(s->end());
  const bool is_after_free =
      after != nullptr && after->state.load(std::memory_order_relaxed) == span_state::free;
  TARN_INVARIANT("page_heap", this, map_.span_of(s->start) == s && map_.span_of(s->end() - 1) == s);
  TARN_INVARIANT("page_heap", this, s->dirty_pages == map_.count_dirty(s->start, s->pages));
  TARN_INVARIANT("page_heap", this, map_.dropped_bytes(s) == 0);
  validate_neighbour_locked(s, before, border_before, guard_before);
  validate_neighbour_locked(s, after, border_behind, guard_behind);
  TARN_INVARIANT("page_heap", this, before == nullptr || before->end() == s->start);
  TARN_INVARIANT("page_heap", this, after == nullptr || after->start == s->end());
  TARN_INVARIANT("page_heap", this, !is_after_free || !may_join(s, after));
}

void page_heap::validate_locked() const {
  free_.validate(span_state::free);
  transit_.validate();
  structs_.validate();
  touch_.validate_locked();
  first_use_.validate_locked();
  std::size_t free_sum = 0;
  std::size_t dirty_sum = 0;
  for (const auto half : {free_spans::half::dirty, free_spans::half::clean}) {
    for (std::size_t bin = 0; bin < free_spans::bin_count; ++bin) {
      for (const span* s = free_.bin(half, bin).front(); s != nullptr; s = s->next) {
        validate_free_locked(s);
        free_sum += s->pages;
        dirty_sum += s->dirty_pages;
      }
    }
  }
  const std::size_t free_dirty = free_dirty_.load(std::memory_order_relaxed);
  const std::size_t in_use = in_use_.load(std::memory_order_relaxed);
  TARN_INVARIANT("page_heap", this, free_dirty == dirty_sum);
  TARN_INVARIANT("page_heap", this, free_pages_ == free_sum);
  TARN_INVARIANT("page_heap", this, in_use + free_pages_ + transit_.pages() == reserved_);
  ranges_.validate_locked(in_use + free_pages_, reserved_);
}

}  // namespace tarn
