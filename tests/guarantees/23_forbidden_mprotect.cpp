// SPDX-License-Identifier: MIT
// Guarantee 23, for a sandbox that refuses mprotect (EPERM) only: malloc goes on to give memory, or NULL, and returns.
// The allocator opens address space that it has reserved by mprotect, so it must do without what it cannot open.
#include "inject.hpp"
#include "kernel_emulator.hpp"

namespace {

using namespace guarantee;

constexpr size_t blocks = 5000;
constexpr size_t block_bytes = 100'000;

int allocate_in_sandbox() {
  free(take(100));
  if (!filter_call(SYS_mprotect, SECCOMP_RET_ERRNO | EPERM))
    skip("no filter can be installed: %s", strerror(errno));
  for (size_t i = 0; i < blocks; ++i) {
    auto* const block = static_cast<unsigned char*>(take(block_bytes));
    TARN_CHECK(block != nullptr, "malloc(%zu) is NULL after %zu MB: mmap is not forbidden", block_bytes,
               i * block_bytes / 1'000'000);
    memset(block, static_cast<int>(i), 100);
  }
  return holds;
}

}  // namespace

int main() {
  start();
  expect_good(run_in_child(60, allocate_in_sandbox), "mprotect refused");
}
