// SPDX-License-Identifier: MIT
// scope_core: the memory of one scope, or of one arena that the program has made through jemalloc's names: its blocks lie
// in spans of its own, so that all that is free goes back at once when it ends, or all of it when it is reset.
//
// The page map gives its spans (scope_pages.hpp) class 0, so free() takes its slow path and comes here, on any thread, and no object of a
// scope gets into a thread's magazine. Threads that have entered the scope have a bin of it (scope_bin.hpp).
//
// Thread safety: any thread, for blocks that it owns. When a scope ends, the regions of its survivors get another owner,
// under the locks of both; so who wants the scope of a block reads it, takes its lock and looks again (with_owner()).
// Structures are type-stable: begin() makes one another scope's, and one that has been given back to the system reads as
// zeros, which is a scope without memory.
// Invariants, under the lock: those of scope_pages; a span is in room_[its class] if it is cut, accessible and has free
// objects, in dirty_ or clean_ if it is such a span, and in no list otherwise; small_bytes_ == the sum over objects that are
// not in their spans.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/engine.hpp"
#include "fronts/scopes/scope_pages.hpp"
#include "os/report.hpp"
#include "pages/span.hpp"
#include "samples/followed/heap_samples.hpp"
#include "slots/objects.hpp"
#include "slots/size_class.hpp"
#include "tarn/scope.h"

namespace tarn {

struct scope_bin;

// Puts what is in the bin back into its spans. Defined in scope_bin.cpp.
void empty_bin(scope_bin& bin);

struct arena_bytes {
  std::size_t small;
  std::size_t large;
  std::size_t spans;
};

class scope_core : public scope_pages {
 public:
  // Of the smallest class a span has more objects than bits (span::inline_bits).
  static constexpr unsigned least_class = 2;
  // The class whose objects serve malloc's class `c` in a scope.
  static constexpr unsigned class_in_scope(unsigned c) { return c < least_class ? least_class : c; }

  using scope_pages::scope_pages;

  tarn_scope handle{};   // of the scope
  sample_owner sampled;  // blocks that the heap profile follows; those of classes lie outside of the scope

  // A scope begins. Requires: no span belongs to the structure.
  void begin(scope_name& row, const tarn_scope_options& options, scope_core& parent);
  [[nodiscard]] scope_core* parent() const { return static_cast<scope_core*>(parent_); }
  [[nodiscard]] const tarn_scope_options& options() const { return options_; }
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
    return static_cast<scope_core&>(*region_of(s)->owner.load(std::memory_order_acquire));
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
  arena_bytes bytes();
  void validate_locked() const TARN_REQUIRES(lock_);

 private:
  friend class scope_core_test_access;

  static bool is_cut(const span* s) { return s->size_class != 0; }
  static bool is_withheld(const span* s) { return s->list == cut_withheld || s->list == large_withheld; }
  template <class Work>
  static auto with_owner(const span* s, Work work);

  // Spans.
  bool pay(std::size_t bytes, scope_bin* bin);
  bool reclaim_inside(std::size_t bytes, scope_charge*& full);
  bool ask(scope_core& full, std::size_t bytes, scope_bin* bin, int& tries, std::int64_t& waits_until);
  span* take(std::size_t pages, std::size_t alignment, kind how, page_heap::use use, scope_bin* bin);

  // Objects.
  span* take_large(std::size_t size, std::size_t alignment, bool zeroed, scope_bin* bin);
  bool add_span(unsigned size_class, scope_bin* bin);
  std::size_t take_locked(unsigned size_class, void** out, std::size_t most) TARN_REQUIRES(lock_);
  enum class freed : std::uint8_t { no, object, span };
  freed free_locked(span* s, void* const*& at, void* const* end) TARN_REQUIRES(lock_);

  // The end.
  struct departure;
  static void withhold(span* s);
  static void give_back_withheld(scope_leaving& l);

  tarn_scope_options options_{};
  span_list room_[size_classes::count] TARN_GUARDED_BY(lock_);
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
    auto* const core = static_cast<scope_core*>(region->owner.load(std::memory_order_relaxed));
    if (core == nullptr) os::fatal("double free, or a pointer into memory that is free", s);
    os::lock_guard guard(core->lock_, *core);
    if (region_of(s) == region && region->owner.load(std::memory_order_relaxed) == core) return work(*core);
  }
}

#pragma GCC visibility push(hidden)
// The thread runs a callback of a scope, in which no other callback is announced.
extern thread_local constinit bool thread_is_asked;
// What scopes without a parent leave, and whatever an ended scope's survivors go to. Nobody enters it.
extern constinit scope_core process_scope;
extern constinit scope_names names_of_scopes;
#pragma GCC visibility pop

}  // namespace tarn
