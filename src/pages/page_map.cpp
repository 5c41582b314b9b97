// SPDX-License-Identifier: MIT
#include "pages/page_map.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tarn {

template <class Visit>
void page_map::for_each_leaf(std::uintptr_t start, std::size_t pages, Visit visit) const {
  while (pages != 0) {
    const std::size_t first = index_of(start);
    const std::size_t count = pages < leaf_pages - first ? pages : leaf_pages - first;
    visit(*leaf_of(start), first, count);
    start += count << page_shift;
    pages -= count;
  }
}

bool page_map::ensure(metadata_arena& metadata, std::uintptr_t start, std::size_t bytes) {
  const std::uintptr_t last = start + bytes - 1;
  if ((last >> address_bits) != 0) return false;
  for (std::size_t i = root_index(start); i <= root_index(last); ++i) {
    // acquire: partner of the release by which another thread installs the leaf (below). Not a load: the first to read a
    // page of the root, and then to write it, would fault twice.
    leaf* expected = nullptr;
    if (!root_[i].compare_exchange_strong(expected, nullptr, std::memory_order_acquire)) continue;
    // acquire: partner of the release that stores a spare leaf (below).
    leaf* fresh = spare_leaf_.load(std::memory_order_relaxed);
    if (fresh != nullptr) fresh = spare_leaf_.exchange(nullptr, std::memory_order_acquire);
    if (fresh == nullptr) fresh = static_cast<leaf*>(metadata.allocate_sparse(sizeof(leaf), page_size));
    if (fresh == nullptr) return false;
    // release: partner of the acquire of root_[i] above and of the readers' data dependency. A new leaf is all
    // zero: class 0, clean, no span.
    if (!root_[i].compare_exchange_strong(expected, fresh, std::memory_order_release,
                                          std::memory_order_relaxed)) {
      // release: partner of the acquire exchange above.
      spare_leaf_.store(fresh, std::memory_order_release);
    }
  }
  return true;
}

std::uintptr_t page_map::check_of(const span* s, std::size_t object_size) {
  const std::uint64_t reciprocal = ~std::uint64_t{0} / object_size + 1;
  // Where the first object would begin if the row of objects continued to the left to the span's first byte.
  const std::size_t objects = (s->bytes() + object_size - 1) / object_size;
  const std::uintptr_t first = s->end() - objects * object_size;
  return ((0 - first * reciprocal + class_mask) & ~class_mask) | s->size_class * class_step;
}

void page_map::set_objects(span* s, std::size_t object_size) {
  const std::uintptr_t check = check_of(s, object_size);
  for_each_leaf(s->start, s->pages, [=](leaf& l, std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      l.set_owner(i, s);
      l.set_check(i, check);
    }
  });
}

void page_map::clear_objects(const span* s) {
  for_each_leaf(s->start, s->pages, [](leaf& l, std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) l.set_check(i, 0);
  });
}

void page_map::map_pages(span* s) {
  for_each_leaf(s->start, s->pages, [s](leaf& l, std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) l.set_owner(i, s);
  });
}

void page_map::set_backing(std::uintptr_t start, std::size_t pages, page_backing value) {
  for_each_leaf(start, pages, [value](leaf& l, std::size_t first, std::size_t count) {
    std::memset(&l.backing[first], static_cast<int>(value), count);
  });
}

std::uintptr_t page_map::first_dirty(std::uintptr_t start, std::size_t pages) const {
  static_assert(static_cast<int>(page_backing::clean) == 0);
  std::uintptr_t found = 0;
  std::uintptr_t at = start;
  for_each_leaf(start, pages, [&](const leaf& l, std::size_t first, std::size_t count) {
    std::size_t i = first;
    std::uint64_t words[4] = {};
    while (found == 0 && i < first + count) {
      if (i + sizeof words <= first + count) {
        std::memcpy(words, &l.backing[i], sizeof words);
        if ((words[0] | words[1] | words[2] | words[3]) == 0) {
          i += sizeof words;
          continue;
        }
      }
      if (l.backing[i] != page_backing::clean) found = at + ((i - first) << page_shift);
      ++i;
    }
    at += count << page_shift;
  });
  return found != 0 ? found : at;
}

std::uintptr_t page_map::first_clean(std::uintptr_t start, std::size_t pages) const {
  std::uintptr_t found = 0;
  std::uintptr_t at = start;
  for_each_leaf(start, pages, [&](const leaf& l, std::size_t first, std::size_t count) {
    const page_backing* const begin = l.backing + first;
    const page_backing* const clean = std::find(begin, begin + count, page_backing::clean);
    if (found == 0 && clean != begin + count)
      found = at + (static_cast<std::size_t>(clean - begin) << page_shift);
    at += count << page_shift;
  });
  return found != 0 ? found : at;
}

std::size_t page_map::count_dirty(std::uintptr_t start, std::size_t pages) const {
  std::size_t dirty = 0;
  for_each_leaf(start, pages, [&dirty](const leaf& l, std::size_t first, std::size_t count) {
    std::size_t i = first;
    // Eight pages at a time, since a long span is counted each time a block is cut from it. Each byte that is not clean
    // has one of its two lowest bits set; the multiplication sums the eight bytes into the highest one.
    constexpr std::uint64_t ones = 0x0101010101010101U;
    static_assert(static_cast<int>(page_backing::stuck) < 4);
    for (std::uint64_t eight = 0; i + sizeof eight <= first + count; i += sizeof eight) {
      std::memcpy(&eight, &l.backing[i], sizeof eight);
      dirty += static_cast<std::size_t>((((eight | eight >> 1) & ones) * ones) >> 56);
    }
    for (; i < first + count; ++i) dirty += l.backing[i] != page_backing::clean ? 1 : 0;
  });
  return dirty;
}

namespace {

constexpr std::uintptr_t half_page = page_size / 2;

unsigned dropped_halves(page_backing backing) {
  return backing >= page_backing::dropped ? static_cast<unsigned>(backing) & 3U : 0;
}

}  // namespace

void page_map::begin_dropped(std::uintptr_t start, std::uintptr_t end) {
  for (std::uintptr_t at = align_up(start, half_page); at + half_page <= end; at += half_page) {
    page_backing& backing = leaf_of(at)->backing[index_of(at)];
    const unsigned half = at % page_size == 0 ? 1U : 2U;
    const unsigned before = dropped_halves(backing);
    // Before the page says so: a fork in between leaves too much, and nothing that is taken off twice.
    if ((before & half) == 0) dropped_.fetch_add(half_page, std::memory_order_relaxed);
    backing = static_cast<page_backing>(static_cast<unsigned>(page_backing::dropped) | before | half);
  }
}

std::size_t page_map::dropped_bytes(const span* s) const {
  std::size_t halves = 0;
  for_each_leaf(s->start, s->pages, [&halves](const leaf& l, std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i)
      halves += static_cast<std::size_t>(std::popcount(dropped_halves(l.backing[i])));
  });
  return halves * half_page;
}

void page_map::end_dropped(const span* s) {
  if (dropped_bytes() == 0) return;
  const std::size_t dropped = dropped_bytes(s);
  if (dropped == 0) return;
  set_backing(s->start, s->pages, page_backing::young);
  dropped_.fetch_sub(dropped, std::memory_order_relaxed);
}

bool page_map::note_huge(std::uintptr_t start, std::size_t bytes, bool may_be) {
  bool changed = false;
  for (std::uintptr_t at = align_down(start, huge_page_size); at < start + bytes; at += huge_page_size) {
    const std::size_t index = index_of(at) / (huge_page_size >> page_shift);
    if (leaf_of(at)->may_be_huge[index].exchange(may_be, std::memory_order_relaxed) != may_be) changed = true;
  }
  return changed;
}

}  // namespace tarn
