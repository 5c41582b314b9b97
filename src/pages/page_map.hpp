// SPDX-License-Identifier: MIT
// page_map: page -> span and size class, in one word: the first thing that free() reads.
//
// A radix tree of two levels over 48 bits of address. The root is in the program's zeroed data; a leaf covers 2 GiB and
// is taken from the metadata arena when a page in it is first used. Why two levels and not a flat table:
// docs/design/0002.
//
// Writers: the page heap and central, for pages of spans that only they use. Readers take no lock.
// Invariants:
//   - the class of a page is 0 unless the page belongs to a span cut into objects;
//   - all pages of such a span lead to it; of any other span, at least the first and the last page do.
// Ordering: ensure() publishes a leaf by a release; readers reach it by an acquire or by data dependency. The word of a
// page is written before a pointer into the page is handed out, so a thread that has the pointer sees the word.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "base/units.hpp"
#include "pages/metadata_arena.hpp"
#include "pages/span.hpp"

namespace tarn {

// Whether a page is backed by memory. Read and written by the page heap under its lock, and by the thread that has just
// been given the span. While a page is in use its backing keeps its last value.
enum class page_backing : std::uint8_t {
  clean,  // not backed, or never written since: it reads as zero
  young,  // may be backed; not yet free for a whole period of decay
  old,    // free, and was so already in the period before
  stuck,  // free, and the system has refused to take its memory
};

class page_map {
 public:
  static constexpr unsigned address_bits = 48;
  static constexpr unsigned leaf_bits = 18;
  static constexpr std::size_t leaf_pages = std::size_t{1} << leaf_bits;
  static constexpr std::size_t leaf_bytes = leaf_pages << page_shift;
  static constexpr std::size_t root_entries = std::size_t{1} << (address_bits - page_shift - leaf_bits);

 private:
  static constexpr std::uintptr_t class_mask = alignof(span) - 1;
  static constexpr std::uintptr_t address_mask = (std::uintptr_t{1} << address_bits) - 1;
  static constexpr std::size_t lead_step = 16;

  struct leaf {
    // One word per page, so that one load of one cache line answers everything free() asks:
    //
    //    63              48 47                          7 6           0
    //   +------------------+-----------------------------+------------+
    //   |  offset / 16     |  address of the span        | size class |
    //   +------------------+-----------------------------+------------+
    //
    // offset: how far into an object the page's first byte lies, in lead_step bytes. The class uses the bits that the
    // span's alignment leaves zero.
    std::atomic<std::uintptr_t> spans[leaf_pages];
    page_backing backing[leaf_pages];
  };

 public:
  constexpr page_map() = default;

  // Provides the leaves for [start, start + bytes) from `metadata`. False: no memory for a leaf. Makes system calls.
  bool ensure(metadata_arena& metadata, std::uintptr_t start, std::size_t bytes);

  // The word of one page. Any address may be looked up.
  class entry {
   public:
    // 0 if the address is not in a span cut into objects.
    [[nodiscard]] TARN_ALWAYS_INLINE std::size_t size_class() const { return bits_ & class_mask; }
    // The span that the page last belonged to, or null. The entry may be stale: the caller checks span::contains() and
    // the state.
    [[nodiscard]] TARN_ALWAYS_INLINE span* owner() const {
      return reinterpret_cast<span*>(bits_ & address_mask & ~class_mask);
    }
    // The distance of an address in this page from the first byte of some object of the span: a multiple of the object
    // size if and only if an object begins at the address. Requires size_class() != 0.
    [[nodiscard]] TARN_ALWAYS_INLINE std::size_t distance(std::uintptr_t address) const {
      return (bits_ >> address_bits) * lead_step + (address & (page_size - 1));
    }

   private:
    friend page_map;
    explicit entry(std::uintptr_t bits) : bits_(bits) {}
    std::uintptr_t bits_;
  };

  [[nodiscard]] TARN_ALWAYS_INLINE entry find(std::uintptr_t address) const {
    if constexpr (addresses_may_be_tagged) {
      if (TARN_UNLIKELY((address >> address_bits) != 0)) return entry(0);
    }
    const leaf* l = leaf_of(address);
    return entry(TARN_LIKELY(l != nullptr) ? l->spans[index_of(address)].load(std::memory_order_relaxed) : 0);
  }
  [[nodiscard]] std::size_t class_of(std::uintptr_t address) const { return find(address).size_class(); }
  [[nodiscard]] span* span_of(std::uintptr_t address) const { return find(address).owner(); }

  // These write; the pages lie in ranges passed to ensure().
  void set_span(std::uintptr_t address, span* s) {
    leaf_of(address)->spans[index_of(address)].store(address_of(s), std::memory_order_relaxed);
  }
  void set_ends(span* s) {
    set_span(s->start, s);
    set_span(s->end() - 1, s);
  }
  // Makes every page of the span lead to it and to its class. Objects have `object_size` bytes (8 or a multiple of 16),
  // and the last one ends where the span ends.
  void set_objects(span* s, std::size_t object_size);
  // Makes every page of the span lead to it, with class 0.
  void map_pages(const span* s);
  // Checks that every page of the span leads to it and to the class, for objects of `object_size` bytes; class 0: at
  // least its first and its last page.
  void validate(const span* s, std::size_t size_class, std::size_t object_size) const {
    const std::size_t pages_between = size_class != 0 || s->pages == 1 ? 1 : s->pages - 1;
    for (std::size_t page = 0; page < s->pages; page += pages_between) {
      const std::uintptr_t at = s->start + (page << page_shift);
      const entry e = find(at);
      TARN_INVARIANT("page_map", s, e.owner() == s);
      TARN_INVARIANT("page_map", s, e.size_class() == size_class);
      TARN_INVARIANT("page_map", s, size_class == 0 || (s->end() - at + e.distance(at)) % object_size == 0);
    }
  }

  [[nodiscard]] page_backing backing(std::uintptr_t address) const {
    return leaf_of(address)->backing[index_of(address)];
  }
  void set_backing(std::uintptr_t start, std::size_t pages, page_backing value);
  // The first page that is not clean; the end of the range if all are.
  [[nodiscard]] std::uintptr_t first_dirty(std::uintptr_t start, std::size_t pages) const;
  // How many of the pages are not clean.
  [[nodiscard]] std::size_t count_dirty(std::uintptr_t start, std::size_t pages) const;

 private:
  // aarch64 ignores the top byte of an address, so a tagged pointer accesses the same memory as the pointer that was
  // handed out. The page map treats a tagged address as unknown, since values computed from it would be wrong. On
  // x86-64 such a pointer faults at its first use.
#if defined(__aarch64__)
  static constexpr bool addresses_may_be_tagged = true;
#else
  static constexpr bool addresses_may_be_tagged = false;
#endif

  static std::size_t index_of(std::uintptr_t address) { return (address >> page_shift) & (leaf_pages - 1); }
  static std::size_t root_index(std::uintptr_t address) {
    return (address >> (page_shift + leaf_bits)) & (root_entries - 1);
  }
  [[nodiscard]] TARN_ALWAYS_INLINE leaf* leaf_of(std::uintptr_t address) const {
    // relaxed: the data dependency orders later reads, and a thread that holds a pointer into the page received it
    // after the leaf was published.
    return root_[root_index(address)].load(std::memory_order_relaxed);
  }
  // Calls visit(leaf, first index, count) for each leaf's part of the range.
  template <class Visit>
  void for_each_leaf(std::uintptr_t start, std::size_t pages, Visit visit) const;

  std::atomic<leaf*> root_[root_entries]{};
  // An untouched leaf, left by a thread that lost the race to install one.
  std::atomic<leaf*> spare_leaf_{nullptr};
};

}  // namespace tarn
