// SPDX-License-Identifier: MIT
// Guarantee 23, for a sandbox that refuses mprotect (EPERM) only: malloc goes on to give memory, or NULL, and returns.
// The allocator opens address space that it has reserved by mprotect, so it must do without what it cannot open.
#include "inject.hpp"
#include "kernel_emulator.hpp"

namespace {

using namespace guarantee;

constexpr size_t blocks = 5000;
constexpr size_t block_bytes = 100'000;

void forbid_mprotect() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof program / sizeof *program, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    skip("no filter can be installed: %s", strerror(errno));
}

int allocate_in_sandbox() {
  free(take(100));
  forbid_mprotect();
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
