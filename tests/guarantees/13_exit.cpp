// SPDX-License-Identifier: MIT
// Line 13: a process may end while its threads allocate: 200 times, by return from main, by exit in main or in another
// thread, or by quick_exit, without a crash or a hang. Exit handlers and static destructors use the heap at the same
// time.
#include <atomic>
#include <string>
#include <vector>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr int repetitions = 200;
constexpr int expected_status = 42;
std::atomic<void*> exchange_place[64];

void* allocate_for_ever(void* argument) {
  random_numbers random(reinterpret_cast<uintptr_t>(argument));
  for (;;) {
    const size_t size = random.below(200) == 0 ? random.below(2 * mib) + 1 : random.below(3000) + 1;
    void* const block = malloc(size);
    TARN_CHECK(block != nullptr, "malloc(%zu) fails during exit", size);
    *static_cast<char*>(block) = 1;
    free(exchange_place[random.below(64)].exchange(block, std::memory_order_acq_rel));
  }
}

void use_heap() {
  std::vector<std::string> strings;
  for (size_t i = 0; i < 200; ++i) strings.emplace_back(i * 10, 'h');
}

struct static_object {
  std::vector<std::string> content{1000, std::string(100, 's')};
  ~static_object() { use_heap(); }
};
static_object object;

// The last destructor of the program. The allocator's own destructor runs after it, while the threads still allocate.
[[gnu::destructor]] void last_of_all() { use_heap(); }

void* exit_from_thread(void*) { exit(expected_status); }

[[noreturn]] void leave_by(char how) {
  switch (how) {
    case 'q': at_quick_exit(use_heap); quick_exit(expected_status);
    case 't': pthread_join(start_thread(exit_from_thread, nullptr), nullptr); abort();
    default: exit(expected_status);
  }
}

int be_the_child(char how) {
  exchange_place[0].store(malloc(1));
  atexit(use_heap);
  for (uintptr_t i = 0; i < 4; ++i) start_thread(allocate_for_ever, reinterpret_cast<void*>(i));
  random_numbers random(static_cast<uint64_t>(getpid()));
  const double until = wall_seconds() + static_cast<double>(random.below(8000)) * 1e-6;
  while (wall_seconds() < until) use_heap();
  if (how == 'm') return expected_status;
  leave_by(how);
}

}  // namespace

int main(int count, char** arguments) {
  start();
  if (count > 1) return be_the_child(arguments[1][0]);
  // A child looks at the first letter of its way.
  const char* ways[] = {"main returns", "exit", "thread calls exit", "quick_exit"};
  for (int i = 0; i < repetitions; ++i) {
    const child_result result = run_again(20, ways[i % 4]);
    if (result.exited && result.code == expected_status) continue;
    if (result.exited && result.code == not_checkable) return not_checkable;
    TARN_CHECK(!result.hung(), "exit %d (%s) hangs while threads allocate", i, ways[i % 4]);
    TARN_CHECK(result.exited, "exit %d (%s): killed by signal %d", i, ways[i % 4], result.signal);
    fail("exit %d (%s): status %d", i, ways[i % 4], result.code);
  }
  measured("%d exits while 4 threads allocate", repetitions);
  return holds;
}
