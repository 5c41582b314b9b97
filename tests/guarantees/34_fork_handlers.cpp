// SPDX-License-Identifier: MIT
// Line 34: fork handlers of other libraries, registered before the allocator's or after, may allocate, free, start and
// join threads, and wait for a lock under which another thread allocates. fork does not hang, and the heap works in
// parent and child.
#include <atomic>

#include "../system_probes.hpp"
#include "34_handlers_library.hpp"
#include "check.hpp"

using namespace guarantee;

namespace {

std::atomic<bool> stop{false};
void* kept[64];

void use_heap() {
  random_numbers random(reinterpret_cast<uintptr_t>(&stop));
  for (auto& place : kept) {
    free(place);
    const size_t size = random.size_up_to_bits(19);
    place = malloc(size);
    TARN_CHECK(place != nullptr, "malloc(%zu) fails", size);
    stamp(place, size, 0, size);
    TARN_CHECK(stamped(place, size, size), "a block of %zu bytes does not keep its content", size);
  }
}

void* use_heap_once(void*) {
  for (size_t size = 16; size < 2 * mib; size *= 2) free(malloc(size));
  return nullptr;
}

void start_and_join() { pthread_join(start_thread(use_heap_once, nullptr), nullptr); }

pthread_mutex_t foreign = PTHREAD_MUTEX_INITIALIZER;
void lock_foreign() { pthread_mutex_lock(&foreign); }
void unlock_foreign() { pthread_mutex_unlock(&foreign); }

void* allocate_under_foreign(void*) {
  while (!stop.load(std::memory_order_relaxed)) {
    lock_foreign();
    use_heap_once(nullptr);
    unlock_foreign();
  }
  return nullptr;
}

struct scenario {
  const char* name;
  handlers does;
};
constexpr scenario scenarios[] = {
    {"allocates before the fork", {use_heap, nullptr, nullptr}},
    {"allocates after the fork", {nullptr, use_heap, use_heap}},
    {"starts and joins a thread before the fork", {start_and_join, nullptr, nullptr}},
    {"starts and joins a thread after the fork", {nullptr, start_and_join, start_and_join}},
    {"locks a mutex under which another thread allocates", {lock_foreign, unlock_foreign, unlock_foreign}},
};

// Forks with the handlers in effect, while other threads allocate.
int fork_with(const handlers& does, handlers& where) {
  constexpr int forks = 8;
  pthread_t threads[2];
  for (pthread_t& thread : threads) thread = start_thread(allocate_under_foreign, nullptr);
  where = does;
  for (int i = 0; i < forks; ++i) {
    const child_result result = run_in_child(10, [] {
      use_heap();
      start_and_join();
      return holds;
    });
    if (!result.good()) return broken;
    use_heap();
  }
  where = {};
  stop.store(true);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  return holds;
}

handlers later{};
void call(void (*handler)()) {
  if (handler != nullptr) handler();
}

// Each scenario runs in a child, where SIGALRM ends a hang.
void check(const char* when, handlers& where) {
  for (const scenario& each : scenarios) {
    const child_result result = run_in_child(20, [&] { return fork_with(each.does, where); });
    TARN_CHECK(result.good(), "%s where a handler registered %s %s",
               result.hung() ? "fork hangs" : "the child breaks", when, each.name);
  }
}

}  // namespace

int main() {
  start();
  // tarn's background thread ends before a fork and starts again after it.
  if (!system_probes::children_beside_ending_threads_start_threads())
    skip("%s", system_probes::no_threads_in_children);
  check("in a library's constructor", *fork_handlers());
  pthread_atfork([] { call(later.prepare); }, [] { call(later.parent); }, [] { call(later.child); });
  check("in main", later);
  void* const library = dlopen(TARN_SECOND_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  TARN_CHECK(library != nullptr, "dlopen: %s", dlerror());
  auto* const of_second = reinterpret_cast<handlers* (*)()>(dlsym(library, "fork_handlers"));
  check("by a library that dlopen loads", *of_second());
  measured("%zu kinds of handlers, each registered in 3 ways", sizeof scenarios / sizeof *scenarios);
  return holds;
}
