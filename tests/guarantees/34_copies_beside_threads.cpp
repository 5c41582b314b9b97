// SPDX-License-Identifier: MIT
// Line 34: children made without fork handlers (_Fork, clone, the system call) while other threads allocate have an
// intact heap.
#include <sched.h>
#include <sys/syscall.h>

#include <atomic>

#include "check.hpp"

using namespace guarantee;

extern "C" pid_t _Fork() noexcept;

namespace {

std::atomic<bool> stop{false};

void use_heap(random_numbers& random) {
  const size_t size = random.size_up_to_bits(random.below(20) == 0 ? 20 : 12);
  void* const block = malloc(size);
  TARN_CHECK(block != nullptr, "malloc(%zu) fails", size);
  stamp(block, size, 0, size);
  TARN_CHECK(stamped(block, size, size), "a block of %zu bytes does not keep its content", size);
  free(block);
}

void* churn(void* seed) {
  random_numbers random(reinterpret_cast<uintptr_t>(seed));
  while (!stop.load(std::memory_order_relaxed)) use_heap(random);
  return nullptr;
}

int be_a_child(void*) {
  alarm(10 * slowness());
  random_numbers random(static_cast<uint64_t>(getpid()));
  for (int i = 0; i < 400; ++i) use_heap(random);
  _exit(holds);
}

alignas(16) char child_stack[256 * kib];

struct way {
  const char* name;
  pid_t (*make)();
};
constexpr way ways[] = {
    {"_Fork", [] { return _Fork(); }},
    {"syscall(SYS_clone)",
     [] { return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr)); }},
    {"clone", [] { return clone(be_a_child, child_stack + sizeof child_stack, SIGCHLD, nullptr); }},
};

}  // namespace

int main() {
  start();
  const int children = long_run() ? 5000 : 100;
  pthread_t threads[3];
  for (uintptr_t i = 0; i < 3; ++i) threads[i] = start_thread(churn, reinterpret_cast<void*>(i));
  for (const way& each : ways) {
    for (int i = 0; i < children; ++i) {
      const pid_t child = each.make();
      if (child < 0) skip("%s fails", each.name);
      if (child == 0) be_a_child(nullptr);
      expect_good(wait_for(child), each.name);
    }
  }
  stop.store(true);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  measured("%d children each of _Fork, syscall(SYS_clone) and clone", children);
  return holds;
}
