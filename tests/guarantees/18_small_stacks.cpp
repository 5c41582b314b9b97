// SPDX-License-Identifier: MIT
// Line 18: all calls, the first one of a thread and those at its end included, work on a stack of 16 KiB (or the
// system's minimum), and no call takes more than 3 KiB of it, so that they work on the stacks of coroutines and signal
// handlers, too. The stack is filled with a pattern, which shows how much of it was used.
#include <limits.h>
#include <malloc.h>
#include <ucontext.h>

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
      case 0: block = calloc(1, size); break;
      case 1: block = memalign(8192, size); break;
      case 2: block = ::operator new(size, std::nothrow); break;
      default: block = malloc(size); break;
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

// ---- on a stack without libc's own data ----

constexpr size_t most_of_a_call = 3 * kib;
constexpr size_t coroutine_stack = 32 * kib;

struct coroutine {
  void* (*body)(void*);
  uintptr_t seed;
  size_t used;
  ucontext_t thread;
  ucontext_t own;
};
thread_local coroutine* running = nullptr;

void run_body() { running->body(reinterpret_cast<void*>(running->seed)); }

// A new thread's first call, and all others but those at its end, are made on the coroutine's stack.
void* run_coroutine(void* argument) {
  coroutine& c = *static_cast<coroutine*>(argument);
  running = &c;
  unsigned char* const stack = own_array<unsigned char>(coroutine_stack);
  memset(stack, paint, coroutine_stack);
  getcontext(&c.own);
  c.own.uc_stack.ss_sp = stack;
  c.own.uc_stack.ss_size = coroutine_stack;
  c.own.uc_link = &c.thread;
  makecontext(&c.own, run_body, 0);
  swapcontext(&c.thread, &c.own);
  size_t untouched = 0;
  while (untouched < coroutine_stack && stack[untouched] == paint) ++untouched;
  c.used = coroutine_stack - untouched;
  munmap(stack, coroutine_stack);
  return nullptr;
}

size_t coroutine_stack_used_by(void* (*body)(void*), uintptr_t seed) {
  coroutine c{};
  c.body = body;
  c.seed = seed;
  pthread_join(start_thread(run_coroutine, &c), nullptr);
  return c.used;
}

int check_coroutines() {
  use_everything(nullptr);  // the dynamic linker, which takes 3 KiB, has now bound what this program calls
  const size_t idle = coroutine_stack_used_by(do_nothing, 0);
  size_t most = 0;
  for (uintptr_t i = 0; i < 20; ++i) {
    const size_t used = coroutine_stack_used_by(use_everything, i);
    if (used > most) most = used;
  }
  measured("at most %zu bytes of a coroutine's stack used, %zu by one that does nothing", most, idle);
  TARN_CHECK(most - idle <= most_of_a_call, "a call takes %zu bytes of stack", most - idle);
  return holds;
}

}  // namespace

int main() {
  start();
  expect_good(run_in_child(60, check_coroutines), "stacks of coroutines");
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
