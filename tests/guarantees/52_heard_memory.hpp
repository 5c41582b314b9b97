// SPDX-License-Identifier: MIT
// heard_memory: a listener at libc's munmap and madvise, as libraries with a cache of registered memory have one, and the
// check that it hears of every page of a block that goes. The including program leads the two functions to
// listen_to_munmap() and listen_to_madvise().
// Owner: each program includes this header once. Thread safety: the check is made by one thread; the listener may be
// called by any.
#pragma once

#include <malloc.h>
#include <sys/syscall.h>

#include "inject.hpp"

namespace guarantee::heard {

constexpr size_t page = 4096;  // at most the system's
constexpr size_t most_pages = 32768;

// The pages of the blocks of one round, in the order of their addresses, and whether the listener has heard that each
// goes.
inline uintptr_t pages[most_pages];
inline bool heard[most_pages];
inline size_t page_count = 0;
inline size_t calls = 0;
inline thread_local bool within = false;
inline thread_local int of_libc = 7;

inline void note(uintptr_t start, size_t bytes) {
  size_t low = 0;
  for (size_t high = page_count; low < high;) {
    const size_t middle = (low + high) / 2;
    (pages[middle] < start ? low : high) = pages[middle] < start ? middle + 1 : middle;
  }
  for (; low < page_count && pages[low] < start + bytes; ++low) heard[low] = true;
}

// What registration caches do in their listeners: use the heap, and leave errno as they like.
inline void use_heap() {
  for (const size_t size : {24U, 1000U, 70000U, 600000U}) {
    void* const block = take(size);
    TARN_CHECK(block != nullptr, "no memory in the listener");
    memset(block, 1, size);
    give(block);
  }
}

inline void listen(void* start, size_t bytes) {
  TARN_CHECK(of_libc == 7, "the listener is called in a thread that libc does not know");
  TARN_CHECK(!within, "the listener is called within itself");
  within = true;
  ++calls;
  note(reinterpret_cast<uintptr_t>(start), bytes);
  use_heap();
  errno = EBADF;
  within = false;
}

inline int listen_to_munmap(void* start, size_t bytes) {
  listen(start, bytes);
  return static_cast<int>(syscall(SYS_munmap, start, bytes));
}

inline int listen_to_madvise(void* start, size_t bytes, int advice) {
  if (advice == MADV_DONTNEED) listen(start, bytes);
  return static_cast<int>(syscall(SYS_madvise, start, bytes, advice));
}

// Whether the page is not in memory any more.
inline bool is_gone(uintptr_t at) {
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(at), page, &resident) != 0 || (resident & 1) == 0;
}

inline size_t check_pages(const char* what) {
  size_t gone = 0;
  size_t unheard = 0;
  for (size_t i = 0; i < page_count; ++i) {
    if (!is_gone(pages[i])) continue;
    ++gone;
    unheard += heard[i] ? 0 : 1;
  }
  TARN_CHECK(unheard == 0, "%s: %zu of %zu pages went back unheard", what, unheard, gone);
  return gone;
}

inline int compare(const void* a, const void* b) {
  const auto left = *static_cast<const uintptr_t*>(a);
  const auto right = *static_cast<const uintptr_t*>(b);
  return left < right ? -1 : left > right;
}

// Remembers the whole pages of the blocks.
inline void remember(void* const* blocks, size_t count, size_t size) {
  page_count = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto start = reinterpret_cast<uintptr_t>(blocks[i]);
    for (uintptr_t at = start / page * page; at < start + size && page_count < most_pages; at += page)
      pages[page_count++] = at;
  }
  qsort(pages, page_count, sizeof *pages, compare);
  memset(heard, 0, sizeof heard);
}

inline void free_all(void* const* blocks, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    errno = 0;
    give(blocks[i]);
    TARN_CHECK(errno == 0, "free sets errno %d while somebody listens", errno);
  }
}

// A little work while idle memory ages.
inline void rest() {
  for (int i = 0; i < 30; ++i) {
    use_heap();
    sleep_ms(10);
  }
}

inline size_t free_and_check(size_t count, size_t size) {
  static void* blocks[20000];
  for (size_t i = 0; i < count; ++i) {
    blocks[i] = take(size);
    TARN_CHECK(blocks[i] != nullptr, "no memory");
    memset(blocks[i], 1, size);
  }
  remember(blocks, count, size);
  free_all(blocks, count);
  check_pages("after free");
  rest();
  check_pages("after a rest");
  malloc_trim(0);
  return check_pages("after malloc_trim");
}

// A large block that grows may move: the pages of the old place go.
inline size_t grow_and_check() {
  constexpr size_t before = 8 * mib;
  void* block = take(before);
  void* const behind = take(before);  // so that it does not grow in place
  TARN_CHECK(block != nullptr && behind != nullptr, "no memory");
  memset(block, 1, before);
  remember(&block, 1, before);
  block = hide(realloc(block, 40 * mib));
  TARN_CHECK(block != nullptr, "no memory");
  TARN_CHECK(first_nonzero(block, before) == 0 && static_cast<char*>(block)[before - 1] == 1,
             "contents lost");
  check_pages("after realloc");
  malloc_trim(0);
  const size_t gone = check_pages("after realloc and malloc_trim");
  give(block);
  give(behind);
  return gone;
}

inline int check_all() {
  const size_t gone = free_and_check(1, 32 * mib) + free_and_check(20000, 1000) + free_and_check(200, 200000);
  TARN_CHECK(calls != 0 && gone > 1000, "only %zu pages went back, in %zu calls that were heard", gone,
             calls);
  measured("%zu pages went back, and %zu more when a block moved; all heard, in %zu calls", gone,
           grow_and_check(), calls);
  return holds;
}

}  // namespace guarantee::heard
