// SPDX-License-Identifier: MIT
// Lines 1, 2 and 5: who provides the functions, and where blocks lie.
#include <new>
#include <string>

#include "contract.hpp"

namespace contract {
namespace {

// ---- line 1 ----

// With all replaceable forms of operator new and delete (size_t is unsigned long on all platforms of tarn).
constexpr const char* names[] = {
    "malloc",
    "free",
    "calloc",
    "realloc",
    "reallocarray",
    "cfree",
    "free_sized",
    "free_aligned_sized",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
    "malloc_usable_size",
    "malloc_trim",
    "mallinfo",
    "mallinfo2",
    "malloc_stats",
    "malloc_info",
    "mallopt",
    "_Znwm",                                // new(size)
    "_ZnwmRKSt9nothrow_t",                  // new(size, nothrow)
    "_ZnwmSt11align_val_t",                 // new(size, align)
    "_ZnwmSt11align_val_tRKSt9nothrow_t",   // new(size, align, nothrow)
    "_Znam",                                // new[](size)
    "_ZnamRKSt9nothrow_t",                  // new[](size, nothrow)
    "_ZnamSt11align_val_t",                 // new[](size, align)
    "_ZnamSt11align_val_tRKSt9nothrow_t",   // new[](size, align, nothrow)
    "_ZdlPv",                               // delete(p)
    "_ZdlPvm",                              // delete(p, size)
    "_ZdlPvRKSt9nothrow_t",                 // delete(p, nothrow)
    "_ZdlPvSt11align_val_t",                // delete(p, align)
    "_ZdlPvmSt11align_val_t",               // delete(p, size, align)
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",  // delete(p, align, nothrow)
    "_ZdaPv",                               // delete[](p)
    "_ZdaPvm",                              // delete[](p, size)
    "_ZdaPvRKSt9nothrow_t",                 // delete[](p, nothrow)
    "_ZdaPvSt11align_val_t",                // delete[](p, align)
    "_ZdaPvmSt11align_val_t",               // delete[](p, size, align)
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",  // delete[](p, align, nothrow)
};

// For a block of another heap, usable_size has no right answer, and realloc or free crash.
void check_and_free(void* block, size_t size, const char* source) {
  TARN_CHECK(block != nullptr, "%s: no block", source);
  TARN_CHECK(f.usable_size(block) >= size, "%s: usable size %zu of a block of %zu", source,
             f.usable_size(block), size);
  memset(block, 0x5a, size);
  void* const moved = f.realloc(hide(block), size * 3);
  TARN_CHECK(moved != nullptr, "%s: its block cannot be reallocated", source);
  f.free(moved);
}

// Blocks that libc and libstdc++ allocate for the program to free.
void check_library_blocks() {
  check_and_free(strdup("a string that libc copies"), 20, "strdup");
  static char long_text[2 * mib];
  memset(long_text, 'x', sizeof long_text - 1);
  const size_t before = large_bytes();
  char* const copy = strdup(long_text);
  TARN_CHECK(!is_tarn() || large_bytes() >= before + sizeof long_text, "strdup does not allocate from tarn");
  check_and_free(copy, sizeof long_text, "strdup");
  char* line = nullptr;
  size_t capacity = 0;
  char text[] = "one line\n";
  FILE* const stream = fmemopen(text, sizeof text - 1, "r");
  TARN_CHECK(stream != nullptr && getline(&line, &capacity, stream) > 0, "getline fails");
  fclose(stream);
  check_and_free(line, capacity, "getline");
  char* printed = nullptr;
  TARN_CHECK(asprintf(&printed, "%01000d", 7) == 1000, "asprintf fails");
  check_and_free(printed, 1001, "asprintf");
  check_and_free(realpath("/proc/self", nullptr), 5, "realpath");
}

struct alignas(256) aligned_object {
  char bytes[2 * mib];
};
struct destroyed_object {
  ~destroyed_object() {}  // makes new[] store the number of elements before the array
  char bytes[mib];
};

void check_expressions() {
  const size_t before = large_bytes();
  auto* const one = hide(new aligned_object);
  auto* const two = hide(new aligned_object[2]);
  auto* const three = hide(new (std::nothrow) destroyed_object[3]);
  auto* const text = new std::string(1000, 'x');
  text->append(2 * mib, 'y');
  TARN_CHECK(aligned_to(one, 256) && aligned_to(two, 256), "new of a type that is aligned to 256: %p, %p",
             static_cast<void*>(one), static_cast<void*>(two));
  TARN_CHECK(!is_tarn() || large_bytes() >= before + 11 * mib, "new-expressions do not allocate from tarn");
  delete one;
  delete[] two;
  delete[] three;
  delete text;
  TARN_CHECK(large_bytes() == before, "delete-expressions do not free");
}

void take_large(const giver& from, const taker& to) {
  const size_t size = 3 * mib;
  const size_t before = large_bytes();
  void* const block = from.give(taken_alignment, size);
  TARN_CHECK(!is_tarn() || large_bytes() >= before + size, "%s: the block is not tarn's", from.name);
  TARN_CHECK(f.usable_size(block) >= size, "%s of 3 MiB: not enough is usable", from.name);
  memset(block, 0x5a, size);
  errno = EDOM;
  to.take(block, size);
  TARN_CHECK(errno == EDOM, "%s of a block of %s sets errno to %d", to.name, from.name, errno);
  TARN_CHECK(large_bytes() == before, "%s of a block of %s does not free it", to.name, from.name);
}

// Frees each block without writing to it, so the next one may reuse its memory with what the free has left there: no
// content may make the library take the block for a freed one.
void take_unwritten(const giver& from, const taker& to, size_t size) {
  for (int i = 0; i < 3; ++i) {
    void* const block = hide(from.give(taken_alignment, size));
    TARN_CHECK(f.usable_size(block) >= size, "%s of %zu: not enough is usable", from.name, size);
    to.take(block, size);
  }
}

}  // namespace

void one_library_provides_all_names() {
  const char* const owner = provider_of("malloc");
  TARN_CHECK(owner != nullptr, "malloc is provided by no library");
  for (const char* name : names) {
    const char* const provider = provider_of(name);
    TARN_CHECK(provider != nullptr, "%s is provided by no library", name);
    TARN_CHECK(same_file(provider, owner), "%s is provided by %s, malloc by %s", name, provider, owner);
  }
  measured("%zu names, all from %s", sizeof names / sizeof *names, owner);
}

void every_taker_takes_what_every_giver_gives() {
  for (const giver& from : f.givers) {
    for (const taker& to : f.takers) {
      if (!to.may_take_from(from.place)) continue;
      take_large(from, to);
      for (const size_t size : {size_t{1}, size_t{24}, size_t{48}, size_t{1000}, 40 * kib, 3 * mib})
        take_unwritten(from, to, size);
    }
    for (const size_t size : {size_t{1}, size_t{24}, size_t{1000}, 40 * kib, 3 * mib})
      check_and_free(from.give(64, size), size, from.name);
  }
  for (const taker& to : f.takers) {
    errno = EDOM;
    if (to.accepts_null) to.take(nullptr, 5);
    TARN_CHECK(errno == EDOM, "%s of null sets errno to %d", to.name, errno);
  }
  TARN_CHECK(f.usable_size(nullptr) == 0, "usable_size of null is %zu", f.usable_size(nullptr));
  if (f.libc_names) {
    check_library_blocks();
    check_expressions();
  }
  measured("%zu givers, %zu takers", f.givers.size(), f.takers.size());
}

// ---- line 2 ----

namespace {

constexpr size_t fully_stamped = 2 * mib;  // in longer blocks only the two ends are stamped
constexpr size_t end_bytes = 8 * kib;

struct live_block {
  char* start;
  size_t usable;
  uint64_t seed;
};

// The blocks that are live at the same time: none may overlap another.
class live_blocks {
 public:
  size_t checked = 0;

  void add(void* memory, size_t size, size_t alignment, const char* source) {
    TARN_CHECK(memory != nullptr, "%s(%zu), alignment %zu: no block", source, size, alignment);
    TARN_CHECK(aligned_to(memory, alignment), "%s(%zu): %p is not aligned to %zu", source, size, memory,
               alignment);
    const size_t usable = f.usable_size(memory);
    TARN_CHECK(usable >= size, "%s(%zu), alignment %zu: only %zu bytes usable", source, size, alignment,
               usable);
    char* const from = hide(static_cast<char*>(memory));
    for (size_t i = 0; i < count_; ++i) {
      const live_block& other = blocks_[i];
      const bool apart = from + usable <= other.start || other.start + other.usable <= from;
      TARN_CHECK(apart, "%s(%zu): %p with %zu usable bytes overlaps %p with %zu", source, size, memory,
                 usable, static_cast<void*>(other.start), other.usable);
    }
    blocks_[count_] = {from, usable, ++checked};
    fill(blocks_[count_++]);
    if (count_ == capacity) check_and_free_all();
  }

  void check_and_free_all() {
    for (size_t i = 0; i < count_; ++i) check(blocks_[i]);
    // Frees every second block first: freeing a block must not change its neighbours.
    for (size_t i = 0; i < count_; i += 2) f.free(blocks_[i].start);
    for (size_t i = 1; i < count_; i += 2) check(blocks_[i]);
    for (size_t i = 1; i < count_; i += 2) f.free(blocks_[i].start);
    count_ = 0;
  }

 private:
  static constexpr size_t capacity = 48;

  static void fill(const live_block& b) {
    if (b.usable <= fully_stamped) return stamp(b.start, b.seed, 0, b.usable);
    stamp(b.start, b.seed, 0, end_bytes);
    stamp(b.start + b.usable - end_bytes, b.seed, 0, end_bytes);
  }
  static void check(const live_block& b) {
    const bool whole = b.usable <= fully_stamped
                           ? stamped(b.start, b.seed, b.usable)
                           : stamped(b.start, b.seed, end_bytes) &&
                                 stamped(b.start + b.usable - end_bytes, b.seed, end_bytes);
    TARN_CHECK(whole, "a byte of the block %p (%zu usable) changed under its owner",
               static_cast<void*>(b.start), b.usable);
  }

  live_block blocks_[capacity];
  size_t count_ = 0;
};

live_blocks live;

void add(const giver& from, size_t alignment, size_t size) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t least =
      from.place == placement::whole_pages ? (size + page - (size != 0)) / page * page : size;
  live.add(from.give(alignment, size), least, from.alignment_of(alignment, size), from.name);
}

void try_size(size_t size) {
  for (const giver& from : f.givers) {
    const bool small_in_pages = from.place != placement::natural && size < 4096 && size % 32 > 1;
    if (from.place != placement::as_asked && !small_in_pages) add(from, 0, size);
  }
  live.add(f.realloc(f.malloc(size / 2 + 1), size + 1), size + 1, size + 1 >= 16 ? 16 : 8,
           "realloc of a block");
}

void try_aligned(size_t alignment, size_t size) {
  for (const giver& from : f.givers) {
    if (from.place == placement::as_asked) add(from, alignment, size);
  }
  add(f.givers.front(), 0, size);
}

}  // namespace

void blocks_are_aligned_and_apart() {
  const size_t largest = quick ? 8 * mib : 256 * mib;
  for (size_t size = 0; size <= 4200; ++size) try_size(size);
  random_numbers random(2);
  for (size_t power = 4096; power <= largest; power *= 2) {
    for (const size_t size : {power - 1, power, power + 1, power + power / 2}) try_size(size);
    for (int i = 0; i < 6; ++i) try_size(power + random.below(power));
    live.check_and_free_all();
  }
  for (size_t alignment = 8; alignment <= 64 * mib; alignment *= 2) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{8}, size_t{40}, alignment / 2, alignment - 1,
                              alignment, alignment + 1, alignment * 2, alignment * 3 + 8}) {
      try_aligned(alignment, size);
    }
    if (alignment <= 4096) {
      for (size_t size = 8; size <= 4200; size += quick ? 56 : 8) try_aligned(alignment, size);
    } else if (alignment <= mib) {
      for (size_t size = 64; size <= 64 * kib; size += size) try_aligned(alignment, size);
    }
    live.check_and_free_all();
  }
  measured("%zu blocks, sizes 0 to %zu MiB, alignments 8 B to 64 MiB", live.checked, 2 * largest / mib);
}

// ---- line 5 ----

namespace {

constexpr size_t live_count = 3000;

int by_address(const void* left, const void* right) {
  const uintptr_t a = *static_cast<const uintptr_t*>(left);
  const uintptr_t b = *static_cast<const uintptr_t*>(right);
  return (a > b) - (a < b);
}

void expect_distinct(std::span<const giver> givers) {
  static void* blocks[live_count];
  for (size_t i = 0; i < live_count; ++i) {
    const giver& from = givers[i % givers.size()];
    blocks[i] = from.give(64, hide(size_t{0}));
    TARN_CHECK(blocks[i] != nullptr, "%s of 0 bytes gives null", from.name);
  }
  qsort(blocks, live_count, sizeof *blocks, by_address);
  for (size_t i = 1; i < live_count; ++i)
    TARN_CHECK(blocks[i] != blocks[i - 1], "two live requests of 0 bytes share the address %p", blocks[i]);
  for (void* one : blocks) f.free(one);
}

// Resizes blocks to 0 bytes by realloc and reallocarray, so often that a leak would exceed the bound of 8 MiB: after the
// first tenth at least 11 MiB, and not many more, since under a sanitizer each call of a followed block takes 20 us.
void expect_freed(size_t size, size_t times) {
  size_t before = 0;
  for (size_t i = 0; i < times; ++i) {
    if (i == times / 10) before = rss_bytes();
    void* const block = f.malloc(size);
    TARN_CHECK(block != nullptr, "malloc(%zu) fails in round %zu", size, i);
    memset(block, 1, size);
    void* const left =
        i % 2 == 0 ? f.realloc(block, hide(size_t{0})) : f.reallocarray(block, hide(size_t{0}), 8);
    TARN_CHECK(left == nullptr, "realloc(p, 0) of a block of %zu bytes gives %p, not null", size, left);
  }
  const size_t grown = growth(before, rss_bytes());
  TARN_CHECK(grown < 8 * mib, "realloc(p, 0) does not free: %zu times %zu bytes grow by %.1f MiB", times,
             size, in_mib(grown));
}

}  // namespace

void blocks_of_no_bytes_are_distinct() {
  expect_distinct(f.givers);
  expect_distinct(f.givers.first(1));
  expect_freed(64, 200'000);
  expect_freed(1000, 30'000);
  expect_freed(100 * kib, 1000);
  expect_freed(8 * mib, 20);
  measured("%zu live blocks of 0 bytes, all distinct; realloc(p, 0) frees", live_count);
}

}  // namespace contract
