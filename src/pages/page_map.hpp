// SPDX-License-Identifier: MIT
// page_map: page -> span, size class, and where its objects begin: the first thing that free() reads.
//
// A radix tree of two levels over 48 bits of address. The root is in the program's zeroed data; a leaf covers 1 GiB and
// is taken from the metadata arena when a page in it is first used. Why two levels and not a flat table:
// docs/design/0002.
//
// Writers: the page heap and central, for pages of spans that only they use. Readers take no lock.
// Invariants:
//   - the class of a page is 0 unless the page belongs to a span cut into objects;
//   - all pages of such a span lead to it; of any other span, at least the first and the last page do.
// Ordering: ensure() publishes a leaf by a release; readers reach it by an acquire or by data dependency. The words of a
// page are written before a pointer into the page is handed out, so a thread that has the pointer sees them. Only the
// first word changes while blocks of the span live, when the span is divided into grains (grains.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/architecture.hpp"
#include "base/compiler.hpp"
#include "base/units.hpp"
#include "pages/metadata_arena.hpp"
#include "pages/span.hpp"

namespace tarn {

// Whether a page is backed by memory. Read and written by the page heap under its lock, and by the thread that has just
// been given the span. While a page is in use, only begin_dropped() and end_dropped() change its backing.
enum class page_backing : std::uint8_t {
  clean,  // not backed, or never written since: it reads as zero
  young,  // may be backed; not yet free for a whole period of decay
  old,    // free, and was so already in the period before
  stuck,  // free, and the system has refused to take its memory
  // From here on of a page of a span in use, never of a free one: one half of it, or both (bits 0 and 1), have only free objects and
  // are not backed.
  dropped = 4,
};

class page_map {
 public:
  static constexpr unsigned address_bits = 48;
  static constexpr unsigned leaf_bits = 17;
  static constexpr std::size_t leaf_pages = std::size_t{1} << leaf_bits;
  static constexpr std::size_t leaf_bytes = leaf_pages << page_shift;
  // An entry holds a size class times this many bytes: those of a bin of thread_cache, which so needs no multiplication.
  static constexpr std::size_t class_step = 32;
  static constexpr std::uintptr_t class_mask = 0xffff;
  static constexpr std::size_t root_entries = std::size_t{1} << (address_bits - page_shift - leaf_bits);
  // So many bytes of memory have one mark: a place for one byte, of whoever owns the memory (slots/free_mark.hpp).
  static constexpr std::size_t bytes_per_mark = 1 * kib;

 private:
  // The first word of a page answers everything that the fast path of free() asks:
  //
  //    63                                                  16 15              0
  //   +------------------------------------------------------+-----------------+
  //   |  -(first byte of an object) * reciprocal, rounded up |  size class * 32 |
  //   +------------------------------------------------------+-----------------+
  //
  // It is the same for all pages of a span cut into objects. begins_object() says why the low bits do no harm. The words
  // of all other pages are 0 and, in a leaf that has never had objects there, not resident.
  struct leaf {
    std::uintptr_t checks[leaf_pages];  // written by set_check()
    std::atomic<span*> owners[leaf_pages];
    page_backing backing[leaf_pages];
    std::uint8_t marks[leaf_bytes / bytes_per_mark];
    std::atomic<bool> may_be_huge[leaf_bytes / huge_page_size];

    void set_check(std::size_t index, std::uintptr_t check) {
      __atomic_store_n(&checks[index], check, __ATOMIC_RELAXED);
    }
    // release: partner of the acquire in visible_span_of(). The span has been constructed before.
    void set_owner(std::size_t index, span* s) { owners[index].store(s, std::memory_order_release); }
  };

 public:
  static constexpr std::size_t metadata_per_leaf = sizeof(leaf);

  constexpr page_map() = default;

  // Provides the leaves for [start, start + bytes) from `metadata`. False: no memory for a leaf. Makes system calls.
  bool ensure(metadata_arena& metadata, std::uintptr_t start, std::size_t bytes);

  // What is known of one page. Any address may be looked up.
  class entry {
   public:
    // Whether there was ever memory of the page heap in this part of the address space.
    [[nodiscard]] TARN_ALWAYS_INLINE bool has_leaf() const { return leaf_ != nullptr; }
    // 0 if the address is not in a span cut into objects.
    [[nodiscard]] TARN_ALWAYS_INLINE std::size_t size_class() const {
      return (check_ & class_mask) / class_step;
    }
    // size_class() * class_step.
    [[nodiscard]] TARN_ALWAYS_INLINE std::size_t class_offset() const { return check_ & class_mask; }
    // The span that the page, that of the address, last belonged to, or null. The entry may be stale: the caller checks
    // span::contains() and the state. Not null if size_class() is not 0.
    [[nodiscard]] TARN_ALWAYS_INLINE span* owner(std::uintptr_t address) const {
      // relaxed: the spans are type-stable, and the caller has got the address from a thread that knew the span.
      return leaf_ != nullptr ? leaf_->owners[index_of(address)].load(std::memory_order_relaxed) : nullptr;
    }
    // The mark of the address. Requires: size_class() is not 0.
    [[nodiscard]] TARN_ALWAYS_INLINE std::uint8_t& mark(std::uintptr_t address) const {
      return leaf_->marks[mark_index(address)];
    }
    // Whether an object begins at this address of the page. `reciprocal` is that of the size of the class's objects,
    // ceil(2^64 / size), or 0 for class 0: then no object does.
    //
    // An object begins where the distance from the first byte of another one is a multiple of the size. With the low 64
    // bits of distance * reciprocal, that is so if and only if they are less than the reciprocal (objects.hpp:
    // is_multiple). Multiplication distributes over the subtraction in `distance`, so the entry has the product of the
    // first byte already. What rounding and the class add is less than 2^17; where an object begins, the product is less
    // than the span's length, and everywhere else it is the reciprocal or more, which is at least 2^46.
    [[nodiscard]] TARN_ALWAYS_INLINE bool begins_object(std::uintptr_t address,
                                                        std::uint64_t reciprocal) const {
      return address * reciprocal + check_ < reciprocal;
    }

   private:
    friend page_map;
    entry() = default;
    entry(leaf& l, std::size_t index) : leaf_(&l), check_(TARN_PLAIN_LOAD(l.checks[index])) {}
    // Two words: an entry is passed in registers.
    leaf* leaf_ = nullptr;
    std::uintptr_t check_ = 0;
  };

  [[nodiscard]] TARN_ALWAYS_INLINE entry find(std::uintptr_t address) const {
    if constexpr (addresses_may_be_tagged) {
      if (TARN_UNLIKELY((address >> address_bits) != 0)) return {};
    }
    leaf* const l = leaf_of(address);
    return TARN_LIKELY(l != nullptr) ? entry(*l, index_of(address)) : entry();
  }
  [[nodiscard]] std::size_t class_of(std::uintptr_t address) const { return find(address).size_class(); }
  [[nodiscard]] span* span_of(std::uintptr_t address) const { return find(address).owner(address); }
  // The same for a thread that has the address from nobody, and may find a span that is being made.
  [[nodiscard]] span* visible_span_of(std::uintptr_t address) const {
    const leaf* const l = leaf_of(address);
    // acquire: partner of the release in leaf::set_owner().
    return l != nullptr ? l->owners[index_of(address)].load(std::memory_order_acquire) : nullptr;
  }

  // As entry::mark(), for an address in a range passed to ensure().
  [[nodiscard]] TARN_ALWAYS_INLINE std::uint8_t& mark(std::uintptr_t address) const {
    return known_leaf_of(address)->marks[mark_index(address)];
  }

  // These write; the pages lie in ranges passed to ensure().
  // Requires: the page has class 0, as in every span of the page heap. Its word is not touched, nor made resident.
  void set_span(std::uintptr_t address, span* s) {
    if constexpr (TARN_CHECKS) TARN_INVARIANT("page_map", s, class_of(address) == 0);
    leaf_of(address)->set_owner(index_of(address), s);
  }
  void set_ends(span* s) {
    set_span(s->start, s);
    set_span(s->end() - 1, s);
  }
  // Makes every page of the span lead to it and to its class. Objects have `object_size` bytes, and the last one ends
  // where the span ends.
  void set_objects(span* s, std::size_t object_size);
  // All pages have class 0 again; they go on leading to the span.
  void clear_objects(const span* s);
  // Makes every page of the span lead to it. Requires: the pages have class 0.
  void map_pages(span* s);
  // Checks that every page of the span leads to it and to the class, for objects of `object_size` bytes; class 0: at
  // least its first and its last page.
  void validate(const span* s, std::size_t size_class, std::size_t object_size) const {
    const std::size_t pages_between = size_class != 0 || s->pages == 1 ? 1 : s->pages - 1;
    const std::uintptr_t check = size_class != 0 ? check_of(s, object_size) : 0;
    for (std::size_t page = 0; page < s->pages; page += pages_between) {
      const std::uintptr_t at = s->start + (page << page_shift);
      const entry e = find(at);
      TARN_INVARIANT("page_map", s, e.owner(at) == s);
      TARN_INVARIANT("page_map", s, e.size_class() == size_class);
      TARN_INVARIANT("page_map", s, e.check_ == check);
    }
  }

  [[nodiscard]] page_backing backing(std::uintptr_t address) const {
    return leaf_of(address)->backing[index_of(address)];
  }
  void set_backing(std::uintptr_t start, std::size_t pages, page_backing value);
  // The first page that is not clean; the end of the range if all are.
  [[nodiscard]] std::uintptr_t first_dirty(std::uintptr_t start, std::size_t pages) const;
  // The same for the first page that is clean.
  [[nodiscard]] std::uintptr_t first_clean(std::uintptr_t start, std::size_t pages) const;
  // How many of the pages are not clean.
  [[nodiscard]] std::size_t count_dirty(std::uintptr_t start, std::size_t pages) const;

  // System pages of free objects in a span in use have gone back to the system; or all of the span may be backed from now on.
  // Calls for one span do not overlap: the caller holds its free objects, or the lock of its depot, or has the span alone.
  void begin_dropped(std::uintptr_t start, std::uintptr_t end);
  void end_dropped(const span* s);
  // The bytes of whole halves of pages that are dropped: of one span, and of all.
  [[nodiscard]] std::size_t dropped_bytes(const span* s) const;
  [[nodiscard]] std::size_t dropped_bytes() const { return dropped_.load(std::memory_order_relaxed); }

  // Notes of the ranges of huge pages that overlap [start, start + bytes) whether huge pages may back them. True: one has
  // changed. At first none is. Noted after the system has been asked for them, and before they are opted out, so that
  // those not noted are opted out, or will be in a moment.
  bool note_huge(std::uintptr_t start, std::size_t bytes, bool may_be);

 private:
  // aarch64 ignores the top byte of an address, so a tagged pointer accesses the same memory as the pointer that was
  // handed out. The page map treats a tagged address as unknown, since values computed from it would be wrong. On
  // x86-64 such a pointer faults at its first use.
  static constexpr bool addresses_may_be_tagged = arch::ignores_top_byte;

  static std::size_t index_of(std::uintptr_t address) { return (address >> page_shift) & (leaf_pages - 1); }
  static std::size_t mark_index(std::uintptr_t address) {
    return address / bytes_per_mark % (leaf_bytes / bytes_per_mark);
  }
  static std::size_t root_index(std::uintptr_t address) {
    return (address >> (page_shift + leaf_bits)) & (root_entries - 1);
  }
  [[nodiscard]] TARN_ALWAYS_INLINE leaf* leaf_of(std::uintptr_t address) const {
    // relaxed: the data dependency orders later reads, and a thread that holds a pointer into the page received it
    // after the leaf was published.
    return root_[root_index(address)].load(std::memory_order_relaxed);
  }
  // The same for an address in a range passed to ensure(), which lies below 2^address_bits.
  [[nodiscard]] TARN_ALWAYS_INLINE leaf* known_leaf_of(std::uintptr_t address) const {
    return root_[address >> (page_shift + leaf_bits)].load(std::memory_order_relaxed);
  }
  // The first word of the pages of a span cut into objects.
  static std::uintptr_t check_of(const span* s, std::size_t object_size);
  // Calls visit(leaf, first index, count) for each leaf's part of the range.
  template <class Visit>
  void for_each_leaf(std::uintptr_t start, std::size_t pages, Visit visit) const;

  std::atomic<leaf*> root_[root_entries]{};
  std::atomic<std::size_t> dropped_{0};  // bytes
  // An untouched leaf, left by a thread that lost the race to install one.
  std::atomic<leaf*> spare_leaf_{nullptr};
};

}  // namespace tarn
