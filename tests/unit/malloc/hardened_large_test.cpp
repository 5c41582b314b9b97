// SPDX-License-Identifier: MIT
// Large blocks of the hardened build when the system refuses to remove their guards.
#include "malloc/hardened_large.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <thread>

#include "base/units.hpp"
#include "runtime/engine.hpp"
#include "tarn/malloc.h"

namespace tarn {
namespace {

constexpr std::size_t block_bytes = 600'000;
constexpr int blocks = 100;  // more than the quarantine holds

// After this call, the calling thread's attempts to remove a guard fail with ENOMEM.
bool forbid_removing_guards() {
  constexpr unsigned guard_remove = 103;  // MADV_GUARD_REMOVE
  const sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_READ | PROT_WRITE, 3, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, guard_remove, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
  };
  const sock_fprog filter{sizeof program / sizeof *program, const_cast<sock_filter*>(program)};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

int free_where_guards_stay() {
  static void* taken[blocks];
  while (hardened_large::release_one()) {
  }
  const std::size_t before = engine::heap.in_use_bytes();
  for (void*& block : taken) {
    block = tarn_malloc(block_bytes);
    if (block == nullptr) return 2;
  }
  bool forbidden = false;
  std::thread other([&forbidden] {
    forbidden = forbid_removing_guards();
    for (void* const block : taken) tarn_free(block);
  });
  other.join();
  if (!forbidden) return 77;
  if (engine::heap.in_use_bytes() < before + (blocks - 1) * block_bytes) return 3;  // nothing was refused
  while (hardened_large::release_one()) {
  }
  return engine::heap.in_use_bytes() < before + 10 * block_bytes ? 0 : 1;
}

TEST(hardened_large, a_span_whose_guard_the_system_would_not_remove_comes_back_later) {
  bool skipped = false;
  const auto is_good = [&skipped](int status) {
    skipped = WIFEXITED(status) && WEXITSTATUS(status) == 77;
    return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || skipped);
  };
  EXPECT_EXIT(_exit(free_where_guards_stay()), is_good, "");
  if (skipped) GTEST_SKIP() << "a process may install no seccomp filter here";
}

}  // namespace
}  // namespace tarn
