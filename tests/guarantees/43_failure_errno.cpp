// SPDX-License-Identifier: MIT
// Guarantee 43: a failed call sets errno as the GNU C library does: ENOMEM by all functions, also by posix_memalign,
// which returns it as well (programs print errno). A bad alignment does not change errno in posix_memalign. The test
// also passes under the C library's own malloc.
#include <errno.h>
#include <malloc.h>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr int mark = 12345;
constexpr size_t above_every_machine = size_t{1} << 60;

template <class Call>
void expect_no_memory(const char* name, Call call) {
  for (const size_t size :
       {above_every_machine, size_t{PTRDIFF_MAX}, size_t{PTRDIFF_MAX} + 1, SIZE_MAX - 4096, SIZE_MAX}) {
    errno = mark;
    TARN_CHECK(call(hide(size)) == nullptr, "%s of %zu bytes gives a block", name, size);
    TARN_CHECK(errno == ENOMEM, "%s of %zu bytes fails with errno %d, not ENOMEM", name, size, errno);
  }
}

void* posix_memalign_of(size_t size) {
  void* block = nullptr;
  const int error = posix_memalign(&block, 64, size);
  TARN_CHECK(error == ENOMEM, "posix_memalign of %zu bytes returns %d, not ENOMEM", size, error);
  return block;
}

}  // namespace

int main() {
  start();
  expect_no_memory("malloc", [](size_t size) { return malloc(size); });
  expect_no_memory("calloc", [](size_t size) { return calloc(1, size); });
  expect_no_memory("calloc, overflowing", [](size_t size) { return calloc(size, 32); });
  expect_no_memory("realloc of null", [](size_t size) { return realloc(nullptr, size); });
  expect_no_memory("reallocarray, overflowing", [](size_t size) { return reallocarray(nullptr, size, 32); });
  expect_no_memory("aligned_alloc", [](size_t size) { return aligned_alloc(64, size); });
  expect_no_memory("memalign", [](size_t size) { return memalign(4096, size); });
  expect_no_memory("valloc", [](size_t size) { return valloc(size); });
  expect_no_memory("pvalloc", [](size_t size) { return pvalloc(size); });
  expect_no_memory("posix_memalign", posix_memalign_of);
  void* const block = malloc(100);
  expect_no_memory("realloc", [block](size_t size) { return realloc(block, size); });
  free(block);

  void* out = nullptr;
  errno = mark;
  TARN_CHECK(posix_memalign(&out, hide(size_t{24}), 8) == EINVAL && errno == mark,
             "posix_memalign of a bad alignment sets errno to %d", errno);
  TARN_CHECK(posix_memalign(&out, 64, 100000) == 0 && errno == mark,
             "posix_memalign that succeeds sets errno to %d", errno);
  free(out);
  return holds;
}
