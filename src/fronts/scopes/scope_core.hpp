// SPDX-License-Identifier: MIT
// scope_core: the memory of one scope, or of one arena that the program has made through jemalloc's names: its blocks lie
// in spans of its own, so that all that is free goes back at once when it ends, or all of it when it is reset.
//
// The scope takes regions from the page heap and cuts spans from them:
//
//     region:  | cut: 64 B | cut: 640 B | dirty | (given back) | cut: 64 B | clean |
//
//   cut      cut into objects as a span of the size class is (objects.hpp)
//   large    one large block: a region of one span
//   dirty    empty; its memory waits for the scope's next span
//   clean    not used yet: it has no memory
//
// The page map gives all of them class 0, so free() takes its slow path and comes here, on any thread, and no object of a
// scope gets into a thread's magazine. Threads that have entered the scope have a bin of it (scope_bin.hpp).
//
// The charge. What may be resident is charged before it is taken: cut, large and dirty spans, to the scope and to all
// scopes around it. So   resident memory of the scope  <=  own_bytes_  <=  charged  <=  budget   at every moment; with
// `lends`, the last one holds for the scopes around only.
//
// Thread safety: any thread, for blocks that it owns. When a scope ends, the regions of its survivors get another owner,
// under the locks of both; so who wants the scope of a block reads it, takes its lock and looks again (with_owner()).
// Structures are type-stable: begin() makes one another scope's, and one that has been given back to the system reads as
// zeros, which is a scope without memory. Locks of two scopes are held together only by finish() and by fork: that with the higher `order` first.
// Idle scopes. A scope that has had empty spans is listed by the one around it, which is listed by the next one, and so on,
// so that who finds a scope full, or the system without memory, looks at what others have left, and at nobody else. Lists and links are guarded by
// a lock of their own, which is taken last.
// Invariants, under the lock: each span of a region has owner == the region, and the region `used` pages of such spans; a
// span is in room_[its class] if it is cut, accessible and has free objects, in dirty_ or clean_ if it is such a span,
// and in no list otherwise; own_bytes_ == the sum over spans that are not clean; dirty_bytes_ == the sum over dirty_;
// own_bytes_ + leaving_bytes_ <= charged().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/engine.hpp"
#include "fronts/scopes/scope_names.hpp"
#include "os/futex.hpp"
#include "os/mutex.hpp"
#include "os/report.hpp"
#include "pages/span.hpp"
#include "samples/followed/heap_samples.hpp"
#include "slots/objects.hpp"
#include "slots/size_class.hpp"
#include "tarn/scope.h"

namespace tarn {

class scope_core;
struct scope_bin;

// Memory that the page heap gave in one piece.
struct scope_region {
  scope_region* free_link = nullptr;  // of the metadata pool
  std::atomic<scope_core*> owner{nullptr};
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
  scope_core* core = nullptr;      // null: nothing leaves
  scope_leaving* outer = nullptr;  // of the same thread
};

struct arena_bytes {
  std::size_t small;
  std::size_t large;
  std::size_t spans;
};

class scope_core {
 public:
  // Values of span::list.
  // closing: about to become inaccessible, as cut_withheld and large_withheld are; its blocks may be freed.
  enum kind : std::uint8_t { cut, large, dirty, clean, closing, cut_withheld, large_withheld };

  // Of the smallest class a span has more objects than bits (span::inline_bits).
  static constexpr unsigned least_class = 2;
  // The class whose objects serve malloc's class `c` in a scope.
  static constexpr unsigned class_in_scope(unsigned c) { return c < least_class ? least_class : c; }

  constexpr explicit scope_core(unsigned its_order) : order(its_order) {}

  unsigned index = 0;    // of an arena; 0: it is no arena
  const unsigned order;  // in which locks are taken
  tarn_scope handle{};   // of the scope
  sample_owner sampled;  // blocks that the heap profile follows; those of classes lie outside of the scope

  // A scope begins. Requires: no span belongs to the structure.
  void begin(scope_name& row, const tarn_scope_options& options, scope_core& parent);
  [[nodiscard]] scope_core* parent() const { return parent_; }
  [[nodiscard]] scope_name* row() const { return row_; }
  [[nodiscard]] const tarn_scope_options& options() const { return options_; }
  [[nodiscard]] std::size_t charged() const { return charged_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t peak() const { return peak_.load(std::memory_order_relaxed); }
  // Scopes inside that have not ended.
  std::atomic<std::size_t> children{0};

  // The scope has ended. Waits for threads that are giving memory of it back.
  void retire();

  // ---- blocks ----

  // The span of a scope or arena that the pointer leads into; null: there is none.
  static span* span_of(const void* block) {
    span* const s = engine::map.span_of(address_of(block));
    const bool is_scoped = s != nullptr && s->state.load(std::memory_order_relaxed) == span_state::scoped &&
                           s->contains(address_of(block));
    return is_scoped ? s : nullptr;
  }
  // What has changed in the span before the owner changed is seen.
  static scope_core& owner_of(const span* s) {
    // acquire: partner of the release in sort_out_locked().
    return *region_of(s)->owner.load(std::memory_order_acquire);
  }
  // Whether a block can begin at the address: an object, or a large block.
  static bool is_object(const span* s, const void* block) {
    if (s->size_class == 0) return address_of(block) == s->start;
    const std::uintptr_t first = objects::first_of(s);
    return address_of(block) >= first &&
           is_multiple(address_of(block) - first, class_info(s->size_class).reciprocal);
  }

  // A block, past the threads' bins. Null: no memory, or over the budget. Requires: alignment is a power of two.
  // `bin`: that of the calling thread if it is in the scope, or null.
  void* allocate(std::size_t size, std::size_t alignment, scope_bin* bin = nullptr);
  // `bin`: not null: the heap profile may follow the block.
  void* allocate_large(std::size_t size, std::size_t alignment, bool zeroed, scope_bin* bin = nullptr);
  // A block that the heap profile follows, with pages of its own, in place of an object of `taken` bytes: objects above
  // 2 KiB are so large a part of a scope that the budget must know of them. Null: as above, or it is not to be followed.
  void* allocate_followed(std::size_t size, std::size_t taken, scope_bin* bin);
  // Puts at most `most` objects of the class into `out`. Returns their number; 0: no memory, or over the budget.
  std::size_t take_objects(unsigned size_class, void** out, std::size_t most, scope_bin* bin);
  // Puts the `count` free objects at `at` back into their spans; they may be another scope's by now.
  static void put_back(void* const* at, std::size_t count);

  // Frees a block. Ends the process if the pointer is not a live one. Requires: span_of(block) == s. take_back(s, block)
  // is called, if not null, under the scope's lock before the block is freed, unless it is, or becomes, inaccessible.
  static void deallocate(span* s, void* block, void (*take_back)(const span*, void*) = nullptr);
  // 0: the pointer is not a live block. Requires: as above.
  static std::size_t usable_size(const span* s, const void* block);

  // ---- the whole ----

  // Frees all blocks.
  void reset();
  struct remains {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
  };
  // The scope ends: gives back what is free, and leaves the rest to `heir`. `withholds`: survivors become inaccessible.
  // `report` may be null.
  remains finish(scope_core& heir, bool withholds, tarn_scope_report* report);
  // Gives empty spans back. Returns their bytes.
  std::size_t release_empty();
  // The same for at most so many scopes inside: others may leave memory as fast as it is taken.
  void release_idle_inside(std::size_t most);
  void age();
  [[nodiscard]] bool has_idle();
  // Of the lists of idle scopes, for fork: after all locks of scopes.
  static os::mutex& idle_lock();

  arena_bytes bytes();
  os::mutex& lock() TARN_RETURNS_LOCK(lock_) { return lock_; }
  void validate_locked() const TARN_REQUIRES(lock_);

  // Of the budget, for tests.
  bool charge(std::size_t bytes, scope_core*& full);
  void uncharge(std::size_t bytes);

  // In a forked child: what other threads were about to give back is lost, and not charged any more.
  void forget_leaving() TARN_NOT_ANALYZED;

 private:
  bool add_charge(std::size_t bytes, scope_core*& full);
  void take_off_charge(std::size_t bytes);
  void wake_waiters();
  bool reclaim_inside(std::size_t bytes, scope_core*& full);
  void note_idle() TARN_REQUIRES(lock_);
  void forget_idle() TARN_REQUIRES(lock_);
  void unlist();
  scope_core* take_idle_inside();
  [[nodiscard]] bool would_exceed(std::size_t charged, std::size_t bytes) const;
  friend class scope_core_test_access;

  // So many bytes of empty spans may wait for decay.
  static constexpr std::size_t dirty_of_scope = 1 * mib;

  static bool is_cut(const span* s) { return s->size_class != 0; }
  static bool is_withheld(const span* s) { return s->list == cut_withheld || s->list == large_withheld; }
  static scope_region* region_of(const span* s) {
    return static_cast<scope_region*>(s->owner.load(std::memory_order_relaxed));
  }
  template <class Work>
  static auto with_owner(const span* s, Work work);
  template <class Visit>
  static void for_each_span(const scope_region* region, Visit visit);

  // Pages.
  bool pay(std::size_t bytes, scope_bin* bin);
  bool ask(scope_core& full, std::size_t bytes, scope_bin* bin, int& tries, std::int64_t& waits_until);
  span* take(std::size_t pages, std::size_t alignment, kind how, page_heap::use use, scope_bin* bin);
  span* take_empty_locked(std::size_t pages, kind from) TARN_REQUIRES(lock_);
  span* take_region(std::size_t pages, std::size_t alignment, page_heap::use use);
  static void leave_region(span* s);
  void detach_locked(span* s, scope_leaving& to) TARN_REQUIRES(lock_);
  static void give_back(span_list& leaving, std::size_t keep);
  void begin_leaving_locked(scope_leaving& l) TARN_REQUIRES(lock_);
  static void end_leaving(scope_leaving& l, std::size_t keep);

  // Objects.
  span* take_large(std::size_t size, std::size_t alignment, bool zeroed, scope_bin* bin);
  bool add_span(unsigned size_class, scope_bin* bin);
  std::size_t take_locked(unsigned size_class, void** out, std::size_t most) TARN_REQUIRES(lock_);
  enum class freed : std::uint8_t { no, object, span };
  freed free_locked(span* s, void* const*& at, void* const* end) TARN_REQUIRES(lock_);
  void empty_locked(span* s) TARN_REQUIRES(lock_);
  [[nodiscard]] std::size_t most_dirty() const TARN_REQUIRES(lock_);
  void trim_dirty();

  // The end.
  struct departure;
  void sort_out_locked(scope_core* heir, departure& d) TARN_NOT_ANALYZED;
  void inherit_locked(span* s, departure& d) TARN_REQUIRES(lock_);
  static void hand_over_locked(scope_region* region, scope_core* heir) TARN_NOT_ANALYZED;
  void empty_lists_locked() TARN_REQUIRES(lock_);
  static void withhold(span* s);
  static void give_back_withheld(scope_leaving& l);

  tarn_scope_options options_{};
  scope_core* parent_ = nullptr;
  scope_name* row_ = nullptr;

  scope_core* idle_inside_ = nullptr;  // the first one that this scope lists
  scope_core* next_idle_ = nullptr;
  scope_core* previous_idle_ = nullptr;
  std::atomic<bool> is_listed_{false};  // written under the lock of the lists

  std::atomic<std::size_t> charged_{0};
  std::atomic<std::size_t> peak_{0};
  os::futex_word freed_{0};  // counts what was given back while somebody waits
  std::atomic<std::uint32_t> waiters_{0};

  os::mutex lock_{os::lock_rank::scope};
  scope_region* regions_ TARN_GUARDED_BY(lock_) = nullptr;
  span_list room_[size_classes::count] TARN_GUARDED_BY(lock_);
  span_list dirty_ TARN_GUARDED_BY(lock_);
  span_list clean_ TARN_GUARDED_BY(lock_);
  std::size_t own_bytes_ TARN_GUARDED_BY(lock_) = 0;
  std::size_t dirty_bytes_ TARN_GUARDED_BY(lock_) = 0;
  std::size_t least_dirty_ TARN_GUARDED_BY(lock_) = 0;  // of dirty_bytes_ since the last period, or less
  // How many scope_leaving the threads have, and their bytes.
  unsigned leaving_ TARN_GUARDED_BY(lock_) = 0;
  std::size_t leaving_bytes_ TARN_GUARDED_BY(lock_) = 0;
  std::size_t small_bytes_ TARN_GUARDED_BY(lock_) = 0;  // objects that are not in their spans
  std::size_t large_bytes_ TARN_GUARDED_BY(lock_) = 0;
};

// Calls work(core) for the scope that has the span, with its lock.
template <class Work>
auto scope_core::with_owner(const span* s, Work work) {
  for (;;) {
    const scope_region* const region = region_of(s);
    // The span has been given back: the pointer that led here is stale.
    if (region == nullptr) os::fatal("double free, or a pointer into memory that is free", s);
    scope_core* const core = region->owner.load(std::memory_order_relaxed);
    if (core == nullptr) os::fatal("double free, or a pointer into memory that is free", s);
    os::lock_guard guard(core->lock_, *core);
    if (region_of(s) == region && region->owner.load(std::memory_order_relaxed) == core) return work(*core);
  }
}

// In the order of addresses. visit(s) may change the span.
template <class Visit>
void scope_core::for_each_span(const scope_region* region, Visit visit) {
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
// What scopes without a parent leave, and whatever an ended scope's survivors go to. Nobody enters it.
extern constinit scope_core process_scope;
extern constinit scope_names names_of_scopes;
// Structures of regions.
extern constinit metadata_pool scope_regions;
#pragma GCC visibility pop

}  // namespace tarn
