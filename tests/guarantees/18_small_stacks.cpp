// SPDX-License-Identifier: MIT
// Line 18: all calls, the first one of a thread and those at its end included, work on a stack of 16 KiB (or the
// system's minimum). The stack is filled with a pattern, which shows how much of it was used.
#include <limits.h>
#include <malloc.h>

#include <atomic>
#include <new>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr unsigned char paint = 0xa5;
std::atomic<void*> exchange_place[64];

void* do_nothing(void*) { return nullptr; }

void* use_everything(void* argument) {
  random_numbers random(reinterpret_cast<uintptr_t>(argument));
  for (int i = 0; i < 600; ++i) {
    const size_t size = i % 30 == 0 ? random.below(6 * mib) + 1 : random.size_up_to_bits(17);
    void* block = nullptr;
    switch (i % 5) {
      case 0:
        block = calloc(1, size);
        break;
      case 1:
        block = memalign(8192, size);
        break;
      case 2:
        block = ::operator new(size, std::nothrow);
        break;
      default:
        block = malloc(size);
        break;
    }
    TARN_CHECK(block != nullptr, "a request of %zu bytes fails on a small stack", size);
    *static_cast<char*>(block) = 1;
    if (i % 7 == 0) block = realloc(block, size * 2);
    free(exchange_place[random.below(64)].exchange(block, std::memory_order_acq_rel));
    if (i % 100 == 0) free(malloc(static_cast<size_t>(PTRDIFF_MAX) - 5));
    if (i == 300) malloc_trim(0);
  }
  return nullptr;
}

// Runs `body` in a new thread and returns how many bytes of its stack were used. The page below the stack is a guard.
size_t stack_used_by(void* (*body)(void*), uintptr_t seed, size_t stack_size) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char* const area = own_array<char>(stack_size + page);
  mprotect(area, page, PROT_NONE);
  unsigned char* const stack = reinterpret_cast<unsigned char*>(area + page);
  memset(stack, paint, stack_size);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, stack_size);
  pthread_t thread{};
  const int error = pthread_create(&thread, &attributes, body, reinterpret_cast<void*>(seed));
  TARN_CHECK(error == 0, "no thread can be started on %zu KiB of stack: error %d", stack_size / kib, error);
  pthread_join(thread, nullptr);
  size_t untouched = 0;
  while (untouched < stack_size && stack[untouched] == paint) ++untouched;
  munmap(area, stack_size + page);
  return stack_size - untouched;
}

}  // namespace

int main() {
  start();
  const long least = sysconf(_SC_THREAD_STACK_MIN);
  const size_t stack_size = least > 16 * 1024 ? static_cast<size_t>(least) : 16 * kib;
  const child_result result = run_in_child(60, [stack_size] {
    const size_t idle = stack_used_by(do_nothing, 0, stack_size);
    size_t most = 0;
    for (uintptr_t i = 0; i < 100; ++i) {
      const size_t used = stack_used_by(use_everything, i, stack_size);
      if (used > most) most = used;
    }
    measured("%zu of %zu bytes of stack used, %zu by a thread that does nothing", most, stack_size, idle);
    return holds;
  });
  TARN_CHECK(result.exited, "stack of %zu KiB overflows: killed by signal %d", stack_size / kib,
             result.signal);
  expect_good(result, "small stacks");
  return holds;
}
