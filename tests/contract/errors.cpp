// SPDX-License-Identifier: MIT
// Lines 3, 4 and 6: what is refused and how, and what leaves errno alone.
#include <atomic>
#include <new>

#include "contract.hpp"

namespace contract {
namespace {

constexpr int untouched_errno = 12345;
size_t calls = 0;

// ---- line 3 ----

void expect_posix_memalign_refuses(size_t alignment, size_t size) {
  char marker = 0;
  void* out = &marker;
  errno = untouched_errno;
  const int error = f.posix_memalign(&out, hide(alignment), size);
  TARN_CHECK(error == EINVAL, "posix_memalign(%zu, %zu) returns %d, not EINVAL", alignment, size, error);
  TARN_CHECK(out == &marker, "posix_memalign(%zu, %zu) fails, but overwrites the pointer", alignment, size);
  TARN_CHECK(errno == untouched_errno, "posix_memalign(%zu, %zu) returns EINVAL and sets errno to %d",
             alignment, size, errno);
  ++calls;
}

void expect_null_refuses(const char* name, void* (*function)(size_t, size_t), size_t alignment, size_t size) {
  errno = 0;
  void* const block = function(hide(alignment), size);
  TARN_CHECK(block == nullptr, "%s(%zu, %zu) gives a block for an alignment that is no power of two", name,
             alignment, size);
  TARN_CHECK(errno == EINVAL, "%s(%zu, %zu) fails with errno %d, not EINVAL", name, alignment, size, errno);
  ++calls;
}

void expect_refused(size_t alignment, size_t size) {
  expect_posix_memalign_refuses(alignment, size);
  expect_null_refuses("aligned_alloc", f.aligned_alloc, alignment, size);
  expect_null_refuses("memalign", f.memalign, alignment, size);
}

void expect_success(size_t alignment, size_t size) {
  errno = untouched_errno;
  void* blocks[3] = {nullptr, f.aligned_alloc(alignment, size), f.memalign(alignment, size)};
  if (alignment >= sizeof(void*)) {
    const int error = f.posix_memalign(&blocks[0], alignment, size);
    TARN_CHECK(error == 0, "posix_memalign(%zu, %zu) fails with %d", alignment, size, error);
    TARN_CHECK(aligned_to(blocks[0], alignment), "posix_memalign(%zu, %zu): %p", alignment, size, blocks[0]);
  } else {
    expect_posix_memalign_refuses(alignment, size);
  }
  for (int i = 1; i < 3; ++i) {
    TARN_CHECK(blocks[i] != nullptr && aligned_to(blocks[i], alignment), "%s(%zu, %zu) gives %p",
               i == 1 ? "aligned_alloc" : "memalign", alignment, size, blocks[i]);
  }
  for (void* block : blocks) f.free(block);
  TARN_CHECK(errno == untouched_errno, "alignment %zu, size %zu: success sets errno to %d", alignment, size,
             errno);
  calls += 3;
}

}  // namespace

void bad_alignments_are_refused() {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{64}, size_t{5000}, 4 * mib}) {
    for (size_t alignment = 0; alignment <= 1100; ++alignment) {
      const bool power = alignment != 0 && (alignment & (alignment - 1)) == 0;
      power ? expect_success(alignment, size) : expect_refused(alignment, size);
    }
    for (unsigned shift = 11; shift < 64; ++shift) {
      const size_t power = static_cast<size_t>(1) << shift;
      for (const size_t alignment : {power - 1, power + 1, power + power / 2, power + 8}) {
        if ((alignment & (alignment - 1)) != 0) expect_refused(alignment, size);
      }
      if (power <= 64 * mib) expect_success(power, size);
    }
    expect_posix_memalign_refuses(SIZE_MAX, size);
  }
  measured("%zu calls", calls);
}

// ---- line 4 ----

namespace {

void expect_enomem(const void* block, const char* call, size_t size, size_t other = 0) {
  const int error = errno;
  TARN_CHECK(block == nullptr, "%s, size %zu (%zu): succeeds with %p", call, size, other, block);
  TARN_CHECK(error == ENOMEM, "%s, size %zu (%zu): errno is %d, not ENOMEM", call, size, other, error);
  ++calls;
  errno = 0;
}

void expect_failure(const giver& from, size_t alignment, size_t size) {
  errno = 0;
  if (from.fails_by == failure::null_and_enomem)
    return expect_enomem(from.give(alignment, size), from.name, size, alignment);
  ++calls;
  bool threw = false;
  void* block = nullptr;
  try {
    block = from.give(alignment, size);
  } catch (const std::bad_alloc&) {
    threw = true;
  }
  TARN_CHECK(block == nullptr, "%s(%zu, %zu) succeeds with %p", from.name, size, alignment, block);
  TARN_CHECK(threw == (from.fails_by == failure::bad_alloc), "%s(%zu, %zu) %s", from.name, size, alignment,
             threw ? "throws std::bad_alloc" : "gives null");
}

// Blocks of several kinds, which no failed realloc may change.
struct old_block {
  void* start;
  size_t size;
};
old_block old_blocks[] = {
    {nullptr, 24}, {nullptr, 100}, {nullptr, 1000}, {nullptr, 40 * kib}, {nullptr, 5 * mib}};

void expect_refused_size(size_t number) {
  const size_t size = hide(number);
  for (const giver& from : f.givers) {
    if (from.place != placement::as_asked) {
      expect_failure(from, 0, size);
      continue;
    }
    for (const size_t alignment : {size_t{8}, size_t{16}, size_t{64}, size_t{4096}, size_t{65536}, 4 * mib})
      expect_failure(from, alignment, size);
  }
  for (const old_block& old : old_blocks) {
    errno = 0;
    expect_enomem(f.realloc(old.start, size), "realloc of a block", size, old.size);
    expect_enomem(f.reallocarray(old.start, 1, size), "reallocarray of a block", size, old.size);
    const size_t looked_at = old.size < 64 * kib ? old.size : 64 * kib;
    TARN_CHECK(stamped(old.start, old.size, looked_at),
               "a failed realloc(%zu) changes the old block of %zu bytes", size, old.size);
  }
}

// Products that overflow to a small number, and products that do not overflow but are too large.
void try_products() {
  for (unsigned shift = 1; shift < 64; ++shift) {
    const size_t left = static_cast<size_t>(1) << shift;
    for (const size_t right : {SIZE_MAX / left + 1, SIZE_MAX / left + 2, SIZE_MAX, SIZE_MAX / left}) {
      errno = 0;
      expect_enomem(f.calloc(hide(left), hide(right)), "calloc", left, right);
      expect_enomem(f.calloc(hide(right), hide(left)), "calloc", right, left);
      expect_enomem(f.reallocarray(nullptr, hide(left), hide(right)), "reallocarray(null)", left, right);
      expect_enomem(f.reallocarray(old_blocks[2].start, hide(left), hide(right)), "reallocarray", left,
                    right);
    }
  }
}

}  // namespace

void impossible_sizes_are_refused() {
  for (old_block& old : old_blocks) {
    old.start = f.malloc(old.size);
    stamp(old.start, old.size, 0, old.size);
  }
  for (unsigned shift = 50; shift < 64; ++shift) {
    const size_t power = static_cast<size_t>(1) << shift;
    for (const size_t size : {power - 1, power, power + 1, power + power / 4, power + power / 2})
      expect_refused_size(size);
  }
  for (const size_t end : {static_cast<size_t>(PTRDIFF_MAX), SIZE_MAX}) {
    for (size_t distance = 0; distance <= 48; ++distance) expect_refused_size(end - distance);
    for (size_t distance = 64; distance <= 64 * mib; distance *= 2) {
      for (const size_t offset : {size_t{0}, size_t{1}}) expect_refused_size(end - distance + offset);
    }
  }
  for (size_t above = 1; above <= 4096; above *= 2)
    expect_refused_size(static_cast<size_t>(PTRDIFF_MAX) + above);
  try_products();
  errno = 0;
  expect_enomem(f.aligned_alloc(hide(size_t{1} << 60), 1), "aligned_alloc of 1 byte", size_t{1} << 60);
  for (const old_block& old : old_blocks) {
    TARN_CHECK(stamped(old.start, old.size, old.size), "failed calls change a block of %zu bytes", old.size);
    f.free(old.start);
  }
  measured("%zu failing calls, all null with ENOMEM or std::bad_alloc", calls);
}

// ---- line 4: new-handlers ----

namespace {

constexpr size_t impossible = static_cast<size_t>(PTRDIFF_MAX) - 4096;
int handler_calls = 0;

void leave_after_three() {
  if (++handler_calls == 3) std::set_new_handler(nullptr);
}

void throw_at_second() {
  if (++handler_calls == 2) throw std::bad_alloc();
}

void throw_a_number() {
  ++handler_calls;
  throw 1;
}

void expect_handled(const giver& from, size_t size, std::new_handler handler, int times) {
  handler_calls = 0;
  std::set_new_handler(handler);
  try {
    expect_failure(from, 64, hide(size));
  } catch (int) {
    TARN_CHECK(from.fails_by == failure::bad_alloc, "%s lets an exception of the handler pass", from.name);
  }
  std::set_new_handler(nullptr);
  TARN_CHECK(handler_calls == times, "%s: the handler is called %d times, not %d", from.name, handler_calls,
             times);
}

// A handler that makes memory available (here: lifts the limit of address space) makes the same call succeed.
rlimit old_limit;

void raise_limit() {
  ++handler_calls;
  setrlimit(RLIMIT_AS, &old_limit);
}

int expect_recovery(const giver& from) {
  handler_calls = 0;
  getrlimit(RLIMIT_AS, &old_limit);
  f.free(f.malloc(64 * mib));  // the allocator maps what it needs for its first use
  rlimit tight = old_limit;
  tight.rlim_cur = gib;
  if (setrlimit(RLIMIT_AS, &tight) != 0) skip("setrlimit(RLIMIT_AS) failed");
  std::set_new_handler(raise_limit);
  void* const block = from.give(64, hide(2 * gib));
  TARN_CHECK(block != nullptr, "%s: fails although the handler made room", from.name);
  TARN_CHECK(handler_calls == 1, "%s: the handler is called %d times, not once", from.name, handler_calls);
  f.free(block);
  return holds;
}

}  // namespace

void new_handler_is_called() {
  size_t forms = 0;
  for (const giver& from : f.givers) {
    if (from.fails_by == failure::null_and_enomem) continue;
    ++forms;
    for (const size_t size : {impossible, impossible + 4097, SIZE_MAX, size_t{1} << 50}) {
      expect_handled(from, size, nullptr, 0);
      expect_handled(from, size, leave_after_three, 3);
      expect_handled(from, size, throw_at_second, 2);
      expect_handled(from, size, throw_a_number, 1);
    }
  }
  need_address_space_limits();
  for (const giver& from : f.givers) {
    if (from.fails_by != failure::null_and_enomem)
      expect_good(run_in_child(20, [&from] { return expect_recovery(from); }), from.name);
  }
  measured("%zu forms of operator new", forms);
}

// ---- line 6 ----

namespace {

constexpr int marks[] = {0, EINVAL, 12345};
size_t frees = 0;

// Each block is freed in another way and under another value of errno than the one before.
void free_and_check(void* block, size_t size, const char* situation) {
  const int mark = marks[frees % 3];
  const taker* to = &f.takers[frees / 3 % f.takers.size()];
  // Another allocator's realloc need not free; and the block may have been resized.
  if (!to->accepts_null || !to->may_take_from(placement::whole_pages)) to = &f.takers.front();
  ++frees;
  errno = mark;
  to->take(block, size);
  TARN_CHECK(errno == mark, "%s: %s of %zu bytes changes errno from %d to %d", situation, to->name, size,
             mark, errno);
}

void* written_block(size_t size) {
  void* const block = f.malloc(size);
  TARN_CHECK(block != nullptr, "malloc(%zu) fails", size);
  memset(block, 1, size < 64 * kib ? size : 64 * kib);
  return block;
}

void free_own() {
  static void* blocks[2000];
  constexpr size_t sizes[] = {1,         16,  200,     3000,     20 * kib, 70 * kib,
                              300 * kib, mib, 5 * mib, 40 * mib, 200 * mib};
  for (const size_t size : sizes) {
    const size_t count = size < 64 * kib ? 2000 : size <= mib ? 64 : 4;
    for (int round = 0; round < 3; ++round) {
      for (size_t i = 0; i < count; ++i) blocks[i] = written_block(size);
      for (size_t i = 0; i < count; ++i) free_and_check(blocks[i], size, "own block");
    }
  }
}

// Success leaves errno alone too.
void resize_own() {
  for (const giver& from : f.givers) {
    if (from.place == placement::whole_pages && !is_tarn()) continue;  // line 1 is about a pvalloc of libc
    for (const size_t size : {0U, 1U, 15U, 16U, 100U, 8192U, 262144U, 262145U, 3000000U}) {
      errno = untouched_errno;
      void* block = from.give(1 << 16, size);
      block = f.realloc(block, 5 * mib);
      block = f.realloc(block, 100);
      block = f.reallocarray(block, 100, 100);
      f.free(block);
      TARN_CHECK(errno == untouched_errno, "%s of %zu bytes or its resizing sets errno to %d", from.name,
                 size, errno);
    }
  }
}

// One thread allocates, the other frees.
constexpr size_t hand_over_count = 60'000;
std::atomic<void*> hand_over[512];
std::atomic<size_t> hand_over_size[512];

void* allocate_for_other(void*) {
  random_numbers random(6);
  for (size_t i = 0; i < hand_over_count; ++i) {
    const size_t size = i % 64 == 0 ? random.below(4 * mib) + 1 : random.below(9000) + 1;
    while (hand_over[i % 512].load(std::memory_order_acquire) != nullptr) sched_yield();
    hand_over_size[i % 512].store(size, std::memory_order_relaxed);
    void* const block = f.malloc(size);
    TARN_CHECK(block != nullptr, "malloc(%zu) fails", size);
    hand_over[i % 512].store(block, std::memory_order_release);
  }
  return nullptr;
}

void free_remote() {
  const pthread_t producer = start_thread(allocate_for_other, nullptr);
  for (size_t i = 0; i < hand_over_count; ++i) {
    void* block = nullptr;
    while ((block = hand_over[i % 512].load(std::memory_order_acquire)) == nullptr) sched_yield();
    const size_t size = hand_over_size[i % 512].load(std::memory_order_relaxed);
    hand_over[i % 512].store(nullptr, std::memory_order_release);
    free_and_check(block, size, "another thread's block");
  }
  pthread_join(producer, nullptr);
}

// Fills the table of mappings and returns how many pages the test changed. Every second page becomes readable, so that
// the kernel cannot merge mappings.
size_t fill_mapping_table(char* area, size_t page, size_t limit) {
  size_t made = 0;
  while (made < limit && mprotect(area + made * 2 * page, page, PROT_READ) == 0) ++made;
  return made;
}

// Large blocks may lie next to each other and share one mapping: unmapping one in the middle then needs another entry
// in the table.
void free_with_full_table() {
  const size_t limit = read_number("/proc/sys/vm/max_map_count");
  if (limit == 0 || limit > 1'000'000) {
    measured("vm.max_map_count is %zu: frees with a full table of mappings were left out", limit);
    return;
  }
  constexpr size_t block_count = 60;
  constexpr size_t block_size = 4 * mib;
  static void* blocks[block_count];
  static void* small[2000];
  for (void*& block : blocks) block = written_block(block_size);
  for (void*& block : small) block = written_block(30 * kib);
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t area_bytes = (limit + 16) * 2 * page;
  char* const area =
      static_cast<char*>(mmap(nullptr, area_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  TARN_CHECK(area != MAP_FAILED, "the test cannot reserve %zu bytes", area_bytes);
  const size_t made = fill_mapping_table(area, page, limit + 16);
  if (made > limit) skip("the table of mappings cannot be filled");
  for (const size_t first : {size_t{0}, size_t{1}}) {
    for (size_t i = first; i < block_count; i += 2)
      free_and_check(blocks[i], block_size, "table of mappings full");
    for (size_t i = first; i < 2000; i += 2) free_and_check(small[i], 30 * kib, "table of mappings full");
  }
  // Makes room in the table: ThreadSanitizer's munmap unmaps memory of its own, which may need entries.
  mprotect(area, 256 * page, PROT_NONE);
  munmap(area, area_bytes);
  for (int i = 0; i < 100; ++i)
    free_and_check(written_block(block_size), block_size, "table of mappings free again");
}

}  // namespace

void freeing_keeps_errno() {
  free_own();
  resize_own();
  free_remote();
  free_with_full_table();
  measured("%zu frees", frees);
}

}  // namespace contract
