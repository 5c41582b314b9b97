// SPDX-License-Identifier: MIT
// Line 3: posix_memalign returns EINVAL for a bad alignment and does not change the pointer; aligned_alloc and memalign
// return null with errno EINVAL. Calls that succeed do not change errno.
#include <errno.h>
#include <malloc.h>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr int untouched_errno = 12345;
size_t calls = 0;

void expect_posix_memalign_refuses(size_t alignment, size_t size) {
  char marker = 0;
  void* out = &marker;
  const int error = posix_memalign(&out, hide(alignment), size);
  TARN_CHECK(error == EINVAL, "posix_memalign(%zu, %zu) returns %d, not EINVAL", alignment, size, error);
  TARN_CHECK(out == &marker, "posix_memalign(%zu, %zu) fails, but overwrites the pointer", alignment, size);
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

void expect_success(size_t alignment, size_t size) {
  errno = untouched_errno;
  void* blocks[3] = {nullptr, aligned_alloc(alignment, size), memalign(alignment, size)};
  if (alignment >= sizeof(void*)) {
    const int error = posix_memalign(&blocks[0], alignment, size);
    TARN_CHECK(error == 0, "posix_memalign(%zu, %zu) fails with %d", alignment, size, error);
    TARN_CHECK(aligned_to(blocks[0], alignment), "posix_memalign(%zu, %zu): %p", alignment, size, blocks[0]);
  }
  for (int i = 1; i < 3; ++i) {
    TARN_CHECK(blocks[i] != nullptr && aligned_to(blocks[i], alignment), "%s(%zu, %zu) gives %p",
               i == 1 ? "aligned_alloc" : "memalign", alignment, size, blocks[i]);
  }
  TARN_CHECK(errno == untouched_errno, "alignment %zu, size %zu: success sets errno to %d", alignment, size,
             errno);
  for (void* block : blocks) free(block);
  calls += 3;
}

}  // namespace

int main() {
  start();
  for (const size_t size : {size_t{0}, size_t{1}, size_t{64}, size_t{5000}, 4 * mib}) {
    for (size_t alignment = 0; alignment <= 1100; ++alignment) {
      const bool power = alignment != 0 && (alignment & (alignment - 1)) == 0;
      if (!power || alignment < sizeof(void*)) expect_posix_memalign_refuses(alignment, size);
      if (!power) expect_null_refuses("aligned_alloc", aligned_alloc, alignment, size);
      if (!power) expect_null_refuses("memalign", memalign, alignment, size);
      if (power) expect_success(alignment, size);
    }
    for (unsigned shift = 11; shift < 64; ++shift) {
      const size_t power = static_cast<size_t>(1) << shift;
      for (const size_t alignment : {power - 1, power + 1, power + power / 2, power + 8}) {
        if ((alignment & (alignment - 1)) == 0) continue;
        expect_posix_memalign_refuses(alignment, size);
        expect_null_refuses("aligned_alloc", aligned_alloc, alignment, size);
        expect_null_refuses("memalign", memalign, alignment, size);
      }
      if (power <= 64 * mib) expect_success(power, size);
    }
    expect_posix_memalign_refuses(SIZE_MAX, size);
  }
  measured("%zu calls", calls);
  return holds;
}
