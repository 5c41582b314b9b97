// SPDX-License-Identifier: MIT
// scope_pages: what a scope has from the page heap: regions, cut into spans, and its empty spans.
//
//     region:  | cut: 64 B | cut: 640 B | dirty | (given back) | cut: 64 B | clean |
//
//   cut      cut into objects as a span of the size class is (objects.hpp)
//   large    one large block: a region of one span
//   dirty    empty; its memory waits for the scope's next span
//   clean    not used yet: it has no memory
//
// Cut, large and dirty spans are charged:
//   resident memory of the scope  <=  own_bytes_  <=  charged  <=  budget   at every moment; with `lends`, the last one holds
// for the scopes around only.
//
// Thread safety: guarded by its lock. Locks of two scopes are held together only where a scope ends and by fork: that with
// the higher `order` first.
// Invariants, under the lock: each span of a region has owner == the region, and the region `used` pages of such spans;
// own_bytes_ == the sum over spans that are not clean; dirty_bytes_ == the sum over dirty_;
// own_bytes_ + leaving_bytes_ <= charged().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/engine.hpp"
#include "fronts/scopes/idle_scope.hpp"
#include "fronts/scopes/scope_names.hpp"
#include "os/mutex.hpp"
#include "pages/span.hpp"

namespace tarn {

class scope_pages;

// Memory that the page heap gave in one piece.
struct scope_region {
  scope_region* free_link = nullptr;  // of the metadata pool
  std::atomic<scope_pages*> owner{nullptr};
  scope_region* next = nullptr;
  scope_region* previous = nullptr;
  std::uintptr_t start = 0;
  std::uint32_t pages = 0;
  std::uint32_t used = 0;            // pages that have not been given back
  const scope_name* name = nullptr;  // of the scope that made it
};

// Empty spans that a thread takes out of a scope, until their charge is taken off; on that thread's stack. The spans are
// in no region.
struct scope_leaving {
  span_list spans;
  std::size_t bytes = 0;           // of them, as far as they are charged
  scope_pages* core = nullptr;     // null: nothing leaves
  scope_leaving* outer = nullptr;  // of the same thread
};

class scope_pages : public idle_scope {
 public:
  // Values of span::list.
  // closing: about to become inaccessible, as cut_withheld and large_withheld are; its blocks may be freed.
  enum kind : std::uint8_t { cut, large, dirty, clean, closing, cut_withheld, large_withheld };

  unsigned index = 0;    // of an arena; 0: it is no arena
  const unsigned order;  // in which locks are taken; 0: process_scope

  [[nodiscard]] scope_name* row() const { return row_; }
  os::mutex& lock() TARN_RETURNS_LOCK(lock_) { return lock_; }
  // A period of decay: gives back what no span was made of since the last one.
  void age();
  [[nodiscard]] bool has_idle();
  // In a forked child: what other threads were about to give back is lost, and not charged any more.
  void forget_leaving() TARN_NOT_ANALYZED;
  void validate_locked() const TARN_REQUIRES(lock_);

  constexpr explicit scope_pages(unsigned its_order) : order(its_order) {}

 protected:
  // So many bytes of empty spans may wait for decay.
  static constexpr std::size_t dirty_of_scope = 1 * mib;

  static scope_region* region_of(const span* s) {
    return static_cast<scope_region*>(s->owner.load(std::memory_order_relaxed));
  }
  // Calls visit(s) for the spans of a region, in the order of addresses; it may change the span.
  template <class Visit>
  static void for_each_span(const scope_region* region, Visit visit);

  // An empty span of at least that length, cut to it, out of dirty_ or clean_; null: none. It counts as a large block until
  // the caller makes it another.
  span* take_empty(std::size_t pages, kind from);
  // The first span of a new region, whose rest waits; null: no memory. Requires: the span is paid for.
  span* take_region(std::size_t pages, std::size_t alignment, page_heap::use use);
  // A span waits for the next one.
  void empty_locked(span* s) TARN_REQUIRES(lock_);
  // The span is on its way to the page heap.
  static void leave_region(span* s);
  // The span, which is in no list, leaves the scope; its charge remains.
  void detach_locked(span* s, scope_leaving& to) TARN_REQUIRES(lock_);
  // Between this and end_leaving() the scope and its parent do not become others'. About `keep` bytes stay backed.
  void begin_leaving_locked(scope_leaving& l) TARN_REQUIRES(lock_);
  static void end_leaving(scope_leaving& l, std::size_t keep);
  [[nodiscard]] std::size_t most_dirty() const TARN_REQUIRES(lock_);
  // Gives back what most_dirty() does not allow. Without a budget it stays backed until it decays.
  void trim_dirty();

  scope_name* row_ = nullptr;
  os::mutex lock_{os::lock_rank::scope};
  scope_region* regions_ TARN_GUARDED_BY(lock_) = nullptr;
  span_list dirty_ TARN_GUARDED_BY(lock_);
  span_list clean_ TARN_GUARDED_BY(lock_);
  std::size_t own_bytes_ TARN_GUARDED_BY(lock_) = 0;
  std::size_t dirty_bytes_ TARN_GUARDED_BY(lock_) = 0;
  std::size_t least_dirty_ TARN_GUARDED_BY(lock_) = 0;  // of dirty_bytes_ since the last period, or less
  // How many scope_leaving the threads have, and their bytes.
  unsigned leaving_ TARN_GUARDED_BY(lock_) = 0;
  std::size_t leaving_bytes_ TARN_GUARDED_BY(lock_) = 0;

 private:
  void detach_dirty_locked(span* s, scope_leaving& to) TARN_REQUIRES(lock_);
};

template <class Visit>
void scope_pages::for_each_span(const scope_region* region, Visit visit) {
  const std::uintptr_t end = region->start + (std::size_t{region->pages} << page_shift);
  for (std::uintptr_t at = region->start; at < end;) {
    // What has been given back belongs to others: another thread may have constructed its span a moment ago.
    span* const s = engine::map.visible_span_of(at);
    if (s == nullptr || region_of(s) != region || !s->contains(at)) {
      at += page_size;
      continue;
    }
    at = s->end();
    visit(s);
  }
}

#pragma GCC visibility push(hidden)
// Structures of regions.
extern constinit metadata_pool scope_regions;
#pragma GCC visibility pop

}  // namespace tarn
