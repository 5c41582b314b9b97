// SPDX-License-Identifier: MIT
// Guarantee 49: a thread that used the caches of processors, and calls vfork after a seccomp filter was installed, has a
// cache afterwards too: a pair of malloc and free takes at most five times as long as before, and 20 ns. Run with
// TARN_CPU_CACHES=on.
#include "call_filter.hpp"
#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr int pairs = 20'000;
constexpr int rounds = 15;
constexpr int blocks = 8;

// Nanoseconds of a pair, the least of some rounds.
double pair_ns() {
  double least = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const double start = cpu_seconds();
    for (int i = 0; i < pairs / blocks; ++i) {
      void* mine[blocks];
      for (void*& block : mine) block = malloc(64);
      for (void* block : mine) free(block);
    }
    const double taken = (cpu_seconds() - start) * 1e9 / pairs;
    if (taken < least) least = taken;
  }
  return least;
}

void* do_nothing(void*) { return nullptr; }

bool install_filter_that_allows_all() {
  sock_filter rule[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  return install_filter(rule);
}

void run_empty_child() {
  const pid_t child = vfork();
  if (child == 0) _exit(0);
  int status = 0;
  TARN_CHECK(waitpid(child, &status, 0) == child && status == 0, "the child's status is %d", status);
}

}  // namespace

int main() {
  pthread_t other;
  TARN_CHECK(pthread_create(&other, nullptr, do_nothing, nullptr) == 0, "no thread");
  pthread_join(other, nullptr);
  const double before = pair_ns();
  if (!install_filter_that_allows_all()) skip("no filter can be installed here");
  run_empty_child();
  const double after = pair_ns();
  measured("%.1f ns a pair before, %.1f ns after", before, after);
  TARN_CHECK(after <= 5 * before + 20, "a pair takes %.1f ns after vfork in a sandbox, %.1f ns before", after,
             before);
  return holds;
}
