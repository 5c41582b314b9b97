// SPDX-License-Identifier: MIT
// Large blocks of the hardened build when the system refuses to remove their guards, and when a request cannot be met.
#include "malloc/hardened_large.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <thread>

#include "../../system_probes.hpp"
#include "base/units.hpp"
#include "engine/engine.hpp"
#include "malloc/hardened_large_quarantine.hpp"
#include "os/memory.hpp"
#include "tarn/malloc.h"

namespace tarn {
namespace {

constexpr std::size_t block_bytes = 600'000;
constexpr int block_count = 100;  // more than the quarantine holds

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
  static void* taken[block_count];
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
  if (engine::heap.in_use_bytes() < before + (block_count - 1) * block_bytes)
    return 3;  // nothing was refused
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

int kept_objects = 0;
void count_object(void* /*block*/) { ++kept_objects; }

// A length that a program takes from a stranger, and that no memory which tarn keeps could meet. The quarantines stay.
int ask_for(std::size_t hopeless) {
  constexpr int objects = 20;
  hardened_large_quarantine::take_all(count_object);
  kept_objects = 0;
  static void* taken[objects];
  for (void*& block : taken) block = tarn_malloc(10'000);
  for (void* const block : taken) tarn_free(block);
  for (int i = 0; i < block_count; ++i) tarn_free(tarn_malloc(block_bytes));
  const std::size_t before = engine::heap.in_use_bytes();
  void* const kept = tarn_malloc(block_bytes);
  if (tarn_malloc(hopeless) != nullptr || tarn_calloc(1, hopeless) != nullptr) return 77;
  if (tarn_aligned_alloc(1 << 20, hopeless) != nullptr) return 77;
  if (tarn_realloc(kept, hopeless) != nullptr) return 77;
  if (engine::heap.in_use_bytes() < before) return 1;
  hardened_large_quarantine::take_all(count_object);
  return kept_objects == objects ? 0 : 2;
}

int ask_for_beyond_limit() {
  const std::size_t hopeless = os::machine_bytes() / 2;
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = hopeless;
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 77;
  return ask_for(hopeless);
}

TEST(hardened_large, a_request_that_cannot_be_met_empties_no_quarantine) {
  EXPECT_EXIT(_exit(ask_for(os::machine_bytes() * 2)), testing::ExitedWithCode(0), "");
  if (!system_probes::address_space_is_limited()) GTEST_SKIP() << system_probes::no_limit;
  EXPECT_EXIT(_exit(ask_for_beyond_limit()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tarn
