// SPDX-License-Identifier: MIT
// Line 17: no allocation function is a cancellation point. A thread with a pending cancellation makes calls of every
// kind, the first allocation of its life included; a cancellation point inside the allocator would end the thread
// there. After that, threads are cancelled at random moments.
#include <malloc.h>

#include <atomic>
#include <new>

#include "check.hpp"

using namespace guarantee;

namespace {

std::atomic<void*> exchange_place[64];
std::atomic<size_t> calls{0};
// Whether malloc_trim belongs to the allocator under test and not to libc's unused heap.
bool owns_trim = false;

void acted_inside(void* where) {
  const char* const call = *static_cast<const char**>(where);
  TARN_CHECK(call == nullptr, "cancellation acts inside %s", call);
}

// Makes the call, and names it for the cleanup handler until it has returned.
template <class function>
auto inside(const char* volatile& where, const char* name, function call) {
  where = name;
  auto result = call();
  where = nullptr;
  return result;
}

void all_calls(const char* volatile& where, random_numbers& random) {
  const size_t size = random.below(100) == 0 ? random.below(4 * mib) + 1 : random.size_up_to_bits(15);
  void* block = nullptr;
  switch (random.below(6)) {
    case 0: block = inside(where, "calloc", [&] { return calloc(1, size); }); break;
    case 1: block = inside(where, "memalign", [&] { return memalign(4096, size); }); break;
    case 2: block = inside(where, "operator new", [&] { return ::operator new(size); }); break;
    default: block = inside(where, "malloc", [&] { return malloc(size); }); break;
  }
  TARN_CHECK(block != nullptr, "a request of %zu bytes fails", size);
  *static_cast<char*>(block) = 1;
  if (random.below(4) == 0) {
    block = inside(where, "realloc", [&] { return realloc(block, size * 2); });
  }
  block = exchange_place[random.below(64)].exchange(block, std::memory_order_acq_rel);
  inside(where, "free", [&] {
    free(block);
    return 0;
  });
  if (owns_trim && random.below(500) == 0) inside(where, "malloc_trim", [] { return malloc_trim(0); });
  calls.fetch_add(1, std::memory_order_relaxed);
}

void* call_with_cancellation_pending(void* argument) {
  random_numbers random(reinterpret_cast<uintptr_t>(argument));
  const char* volatile where = nullptr;
  pthread_cleanup_push(acted_inside, const_cast<const char**>(&where));
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  pthread_cancel(pthread_self());
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
  for (int i = 0; i < 1000; ++i) all_calls(where, random);
  pthread_testcancel();
  pthread_cleanup_pop(0);
  fail("the pending cancellation was lost");
}

void* call_until_cancelled(void* argument) {
  random_numbers random(reinterpret_cast<uintptr_t>(argument));
  const char* volatile where = nullptr;
  pthread_cleanup_push(acted_inside, const_cast<const char**>(&where));
  for (;;) {
    for (int i = 0; i < 20; ++i) all_calls(where, random);
    pthread_testcancel();
  }
  pthread_cleanup_pop(0);
  return nullptr;
}

void expect_cancelled(pthread_t thread) {
  void* result = nullptr;
  pthread_join(thread, &result);
  TARN_CHECK(result == PTHREAD_CANCELED, "a thread was not cancelled");
}

}  // namespace

int main() {
  start();
  owns_trim = same_file(provider_of("malloc"), provider_of("malloc_trim"));
  for (uintptr_t i = 0; i < 200; i += 2) {
    const pthread_t first = start_thread(call_with_cancellation_pending, reinterpret_cast<void*>(i));
    const pthread_t second = start_thread(call_with_cancellation_pending, reinterpret_cast<void*>(i + 1));
    expect_cancelled(first);
    expect_cancelled(second);
  }
  random_numbers random(17);
  for (uintptr_t i = 0; i < 400; ++i) {
    pthread_t threads[3];
    for (uintptr_t k = 0; k < 3; ++k)
      threads[k] = start_thread(call_until_cancelled, reinterpret_cast<void*>(i * 3 + k));
    const double moment = wall_seconds() + static_cast<double>(random.below(3000)) * 1e-6;
    while (wall_seconds() < moment) sched_yield();
    for (const pthread_t thread : threads) pthread_cancel(thread);
    for (const pthread_t thread : threads) expect_cancelled(thread);
  }
  measured("200 threads with a cancellation pending, 1,200 cancelled at random, %zu calls", calls.load());
  return holds;
}
