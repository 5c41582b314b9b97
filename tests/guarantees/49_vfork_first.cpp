// SPDX-License-Identifier: MIT
// Guarantee 49: a thread whose first action is vfork, and whose child allocates, while other threads share the caches of
// processors: no block has two owners. The child runs in its parent's memory, and the kernel restarts none of its
// sequences. Run with TARN_CPU_CACHES=on.
#include <atomic>

#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr int sharers = 4;
constexpr int children = 12;
constexpr int blocks = 16;
constexpr size_t words = 8;

std::atomic<bool> stop{false};

// Allocates, stamps, checks and frees. False: a block's content has changed.
bool use_blocks(int rounds, uint64_t stamp) {
  bool good = true;
  for (int round = 0; round < rounds; ++round) {
    uint64_t* mine[blocks];
    for (int i = 0; i < blocks; ++i) {
      mine[i] = static_cast<uint64_t*>(malloc(words * sizeof(uint64_t)));
      for (size_t word = 0; word < words; ++word) mine[i][word] = stamp + static_cast<uint64_t>(i);
    }
    for (int i = 0; i < blocks; ++i) {
      for (size_t word = 0; word < words; ++word)
        good = good && mine[i][word] == stamp + static_cast<uint64_t>(i);
      free(mine[i]);
    }
  }
  return good;
}

void* share(void* argument) {
  pin_to(0);
  const uint64_t stamp = (reinterpret_cast<uint64_t>(argument) + 1) << 32;
  while (!stop.load()) TARN_CHECK(use_blocks(100, stamp), "a block of a sharing thread has changed");
  return nullptr;
}

void* begin_with_vfork(void*) {
  pin_to(0);
  const pid_t child = vfork();
  if (child == 0) {
    pin_to(1);
    _exit(use_blocks(20'000, uint64_t{0x77} << 56) ? 0 : 1);
  }
  int status = 0;
  TARN_CHECK(waitpid(child, &status, 0) == child && status == 0, "the child's status is %d", status);
  return nullptr;
}

}  // namespace

int main() {
  free(malloc(words * sizeof(uint64_t)));
  pthread_t ids[sharers];
  for (size_t i = 0; i < sharers; ++i) {
    TARN_CHECK(pthread_create(&ids[i], nullptr, share, reinterpret_cast<void*>(i)) == 0, "no thread");
  }
  for (int i = 0; i < children; ++i) {
    pthread_t fresh;
    TARN_CHECK(pthread_create(&fresh, nullptr, begin_with_vfork, nullptr) == 0, "no thread");
    pthread_join(fresh, nullptr);
  }
  stop.store(true);
  for (const pthread_t id : ids) pthread_join(id, nullptr);
  return holds;
}
