// SPDX-License-Identifier: MIT
// Line 4: for sizes that no machine has (from 2^50 in steps, around PTRDIFF_MAX and SIZE_MAX, products that overflow)
// each function returns null with ENOMEM, and a failed realloc leaves the old block unchanged. In C++, operator new
// throws std::bad_alloc and its nothrow forms return null.
#include <errno.h>
#include <malloc.h>

#include <new>

#include "check.hpp"

using namespace guarantee;

namespace {

size_t calls = 0;

void expect_enomem(const void* block, const char* call, size_t size, size_t other = 0) {
  const int error = errno;
  TARN_CHECK(block == nullptr, "%s, size %zu (%zu): succeeds with %p", call, size, other, block);
  TARN_CHECK(error == ENOMEM, "%s, size %zu (%zu): errno is %d, not ENOMEM", call, size, other, error);
  ++calls;
  errno = 0;
}

// Blocks of several kinds, which no failed realloc may change.
struct old_block {
  void* start;
  size_t size;
};
old_block old_blocks[] = {{nullptr, 24}, {nullptr, 1000}, {nullptr, 40 * kib}, {nullptr, 3 * mib}};

void try_realloc(size_t size) {
  expect_enomem(realloc(nullptr, size), "realloc(null)", size);
  for (const old_block& old : old_blocks) {
    expect_enomem(realloc(old.start, size), "realloc", size, old.size);
    expect_enomem(reallocarray(old.start, 1, size), "reallocarray", size, old.size);
    const size_t looked_at = old.size < 64 * kib ? old.size : 64 * kib;
    TARN_CHECK(stamped(old.start, old.size, looked_at),
               "a failed realloc(%zu) changes the old block of %zu bytes", size, old.size);
  }
}

void try_aligned(size_t size) {
  for (const size_t alignment : {size_t{8}, size_t{16}, size_t{64}, size_t{4096}, size_t{65536}, 4 * mib}) {
    expect_enomem(aligned_alloc(alignment, size), "aligned_alloc", size, alignment);
    expect_enomem(memalign(alignment, size), "memalign", size, alignment);
    char marker = 0;
    void* out = &marker;
    const int error = posix_memalign(&out, alignment, size);
    TARN_CHECK(error == ENOMEM, "posix_memalign(%zu, %zu) returns %d, not ENOMEM", alignment, size, error);
    TARN_CHECK(out == &marker, "posix_memalign(%zu, %zu) fails, but overwrites the pointer", alignment, size);
    errno = 0;
  }
}

template <typename function>
void expect_bad_alloc(const char* call, size_t size, function allocate) {
  ++calls;
  try {
    void* const block = allocate();
    fail("%s, size %zu: succeeds with %p", call, size, block);
  } catch (const std::bad_alloc&) {
  }
}

void try_operators(size_t size) {
  expect_bad_alloc("operator new", size, [size] { return ::operator new(size); });
  expect_bad_alloc("operator new[]", size, [size] { return ::operator new[](size); });
  constexpr size_t alignments[] = {8, 16, 64, 4096, 4 * mib};
  for (const size_t number : alignments) {
    const auto alignment = static_cast<std::align_val_t>(number);
    expect_bad_alloc("operator new, aligned", size, [=] { return ::operator new(size, alignment); });
    expect_bad_alloc("operator new[], aligned", size, [=] { return ::operator new[](size, alignment); });
    TARN_CHECK(::operator new(size, alignment, std::nothrow) == nullptr, "nothrow new(%zu, %zu) succeeds",
               size, number);
    TARN_CHECK(::operator new[](size, alignment, std::nothrow) == nullptr, "nothrow new[](%zu, %zu) succeeds",
               size, number);
  }
  TARN_CHECK(::operator new(size, std::nothrow) == nullptr, "nothrow new(%zu) succeeds", size);
  TARN_CHECK(::operator new[](size, std::nothrow) == nullptr, "nothrow new[](%zu) succeeds", size);
}

void try_size(size_t number) {
  const size_t size = hide(number);
  errno = 0;
  expect_enomem(malloc(size), "malloc", size);
  expect_enomem(calloc(1, size), "calloc(1, n)", size);
  expect_enomem(calloc(size, 1), "calloc(n, 1)", size);
  expect_enomem(reallocarray(nullptr, size, 1), "reallocarray(null, n, 1)", size);
  expect_enomem(valloc(size), "valloc", size);
  expect_enomem(pvalloc(size), "pvalloc", size);
  try_realloc(size);
  try_aligned(size);
  try_operators(size);
}

// Products that overflow to a small number, and products that do not overflow but are too large.
void try_products() {
  for (unsigned shift = 1; shift < 64; ++shift) {
    const size_t left = static_cast<size_t>(1) << shift;
    for (const size_t right : {SIZE_MAX / left + 1, SIZE_MAX / left + 2, SIZE_MAX, SIZE_MAX / left}) {
      errno = 0;
      expect_enomem(calloc(hide(left), hide(right)), "calloc", left, right);
      expect_enomem(calloc(hide(right), hide(left)), "calloc", right, left);
      expect_enomem(reallocarray(nullptr, hide(left), hide(right)), "reallocarray(null)", left, right);
      expect_enomem(reallocarray(old_blocks[1].start, hide(left), hide(right)), "reallocarray", left, right);
    }
  }
}

}  // namespace

int main() {
  start();
  for (old_block& old : old_blocks) {
    old.start = malloc(old.size);
    stamp(old.start, old.size, 0, old.size);
  }
  for (unsigned shift = 50; shift < 64; ++shift) {
    const size_t power = static_cast<size_t>(1) << shift;
    for (const size_t size : {power - 1, power, power + 1, power + power / 4, power + power / 2})
      try_size(size);
  }
  const size_t ends[] = {static_cast<size_t>(PTRDIFF_MAX), SIZE_MAX};
  for (const size_t end : ends) {
    for (size_t distance = 0; distance <= 48; ++distance) try_size(end - distance);
    for (size_t distance = 64; distance <= 64 * mib; distance *= 2) {
      for (const size_t offset : {size_t{0}, size_t{1}}) try_size(end - distance + offset);
    }
  }
  for (size_t above = 1; above <= 4096; above *= 2) try_size(static_cast<size_t>(PTRDIFF_MAX) + above);
  try_products();
  for (const old_block& old : old_blocks) {
    TARN_CHECK(stamped(old.start, old.size, old.size), "failed calls change a block of %zu bytes", old.size);
    free(old.start);
  }
  measured("%zu failing calls, all null with ENOMEM or std::bad_alloc", calls);
  return holds;
}
