// SPDX-License-Identifier: MIT
// Line 5: requests of 0 bytes give distinct pointers that can be freed. realloc(p, 0) frees p and returns null, as
// programs written for glibc expect.
#include <malloc.h>

#include <new>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr size_t live_count = 3000;

void* request_nothing(size_t which) {
  void* block = nullptr;
  const size_t none = hide(size_t{0});
  switch (which % 8) {
    case 0:
      return malloc(none);
    case 1:
      return calloc(none, 8);
    case 2:
      return calloc(8, none);
    case 3:
      return realloc(nullptr, none);
    case 4:
      return ::operator new(none);
    case 5:
      return ::operator new[](none, static_cast<std::align_val_t>(64));
    case 6:
      return aligned_alloc(64, none);
    default:
      return posix_memalign(&block, 32, none) == 0 ? block : nullptr;
  }
}

int by_address(const void* left, const void* right) {
  const uintptr_t a = *static_cast<const uintptr_t*>(left);
  const uintptr_t b = *static_cast<const uintptr_t*>(right);
  return (a > b) - (a < b);
}

void expect_distinct() {
  static void* blocks[live_count];
  for (size_t i = 0; i < live_count; ++i) {
    blocks[i] = request_nothing(i);
    TARN_CHECK(blocks[i] != nullptr, "a request of 0 bytes (form %zu) gives null", i % 8);
  }
  qsort(blocks, live_count, sizeof *blocks, by_address);
  for (size_t i = 1; i < live_count; ++i) {
    TARN_CHECK(blocks[i] != blocks[i - 1], "two live requests of 0 bytes share the address %p", blocks[i]);
  }
  for (void* block : blocks) free(block);
}

// Resizes blocks to 0 bytes by realloc and reallocarray, so often that a leak would exceed the bound.
void expect_freed(size_t size, size_t times) {
  size_t before = 0;
  for (size_t i = 0; i < times; ++i) {
    if (i == times / 10) before = rss_bytes();
    void* const block = malloc(size);
    TARN_CHECK(block != nullptr, "malloc(%zu) fails in round %zu", size, i);
    memset(block, 1, size);
    void* const left = i % 2 == 0 ? realloc(block, hide(size_t{0})) : reallocarray(block, hide(size_t{0}), 8);
    TARN_CHECK(left == nullptr, "realloc(p, 0) of a block of %zu bytes gives %p, not null", size, left);
  }
  const size_t grown = growth(before, rss_bytes());
  TARN_CHECK(grown < 8 * mib, "realloc(p, 0) does not free: %zu times %zu bytes grow by %.1f MiB", times,
             size, in_mib(grown));
}

}  // namespace

int main() {
  start();
  expect_distinct();
  expect_freed(16, 2'000'000);
  expect_freed(1000, 300'000);
  expect_freed(100 * kib, 3000);
  expect_freed(8 * mib, 60);
  free(nullptr);
  measured("%zu live blocks of 0 bytes, all distinct; realloc(p, 0) frees", live_count);
  return holds;
}
