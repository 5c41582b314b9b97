// SPDX-License-Identifier: MIT
// Guarantee 40: a write past a block in either direction, over everything up to the first fault, reaches no structure
// of the allocator. After it, malloc and free of every size work in this thread and in another one, and no address is
// handed out twice.
#include <setjmp.h>

#include "inject.hpp"

namespace {

using namespace guarantee;

// An overrun that nothing stops ends here, so that it does not fill a small machine's memory.
constexpr size_t longest_run = 192 * mib;
constexpr unsigned char pattern = 0x41;

sigjmp_buf at_fault;
volatile char* run_begin = nullptr;
volatile char* run_at = nullptr;

void on_fault(int) { siglongjmp(at_fault, 1); }

// Writes byte after byte in the given direction, starting at `from`, until a fault. Returns the number of bytes
// written. The pointer is volatile so that no function of the C library is called, whose own blocks may be overwritten.
size_t overrun(char* from, int direction) {
  run_begin = run_at = from;
  if (sigsetjmp(at_fault, 1) == 0) {
    while (static_cast<size_t>(direction > 0 ? run_at - run_begin : run_begin - run_at) < longest_run) {
      *run_at = static_cast<char>(pattern);
      run_at = run_at + direction;
    }
  }
  return static_cast<size_t>(direction > 0 ? run_at - run_begin : run_begin - run_at);
}

// After an overrun stdio may be destroyed, so the child reports only by its exit status.
enum verdict : int { sound = 0, refused = 10, twice = 11, changed = 12 };

constexpr size_t sizes[] = {8, 64, 100, 1000, 5000, 20'000, 100'000, 300'000, 3'000'000};
constexpr size_t of_each = 40;

int judge_blocks() {
  constexpr size_t count = of_each * sizeof sizes / sizeof *sizes;
  static __thread unsigned char* blocks[count];
  for (size_t i = 0; i < count; ++i) {
    blocks[i] = static_cast<unsigned char*>(malloc(sizes[i % 9]));
    if (blocks[i] == nullptr) return refused;
    blocks[i][0] = static_cast<unsigned char>(i);
    blocks[i][sizes[i % 9] - 1] = static_cast<unsigned char>(i >> 8);
    for (size_t k = 0; k < i; ++k) {
      if (blocks[k] < blocks[i] + sizes[i % 9] && blocks[i] < blocks[k] + sizes[k % 9]) return twice;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    if (blocks[i][0] != static_cast<unsigned char>(i)) return changed;
    if (blocks[i][sizes[i % 9] - 1] != static_cast<unsigned char>(i >> 8)) return changed;
    free(blocks[i]);
  }
  return sound;
}

void* judge_in_thread(void* result) {
  *static_cast<int*>(result) = judge_blocks();
  return nullptr;
}

// A thread started before the overrun, because pthread_create needs memory that may be overwritten.
struct waiting_thread {
  pthread_t thread;
  volatile bool go;
  int result;
  static void* wait(void* self_pointer) {
    auto* const self = static_cast<waiting_thread*>(self_pointer);
    while (!__atomic_load_n(&self->go, __ATOMIC_ACQUIRE)) sched_yield();
    return judge_in_thread(&self->result);
  }
};
waiting_thread other;

enum class origin { malloc, realloc };

// With origin::realloc the block grows by steps, so that it moves to a mapping of its own and then grows and moves as a
// whole.
char* make_block(size_t size, origin how) {
  if (how == origin::malloc) return static_cast<char*>(hide(malloc(size)));
  char* block = nullptr;
  for (size_t now = 300'000; now < size && (now == 300'000 || block != nullptr); now += now / 2) {
    block = static_cast<char*>(hide(realloc(block, now)));
  }
  return block == nullptr ? nullptr : static_cast<char*>(hide(realloc(block, size)));
}

int overrun_and_judge(size_t size, origin how, size_t before, int direction) {
  struct sigaction on_segv {};
  on_segv.sa_handler = on_fault;
  sigaction(SIGSEGV, &on_segv, nullptr);
  sigaction(SIGBUS, &on_segv, nullptr);
  other.thread = start_thread(waiting_thread::wait, &other);
  for (size_t i = 0; i < before; ++i) hide(malloc(sizes[i % 9]));
  char* const block = make_block(size, how);
  if (block == nullptr) return refused;
  overrun(direction > 0 ? block + size : block - 1, direction);
  signal(SIGSEGV, SIG_DFL);
  signal(SIGBUS, SIG_DFL);
  if (const int mine = judge_blocks(); mine != sound) return mine;
  __atomic_store_n(&other.go, true, __ATOMIC_RELEASE);
  pthread_join(other.thread, nullptr);
  return other.result;
}

const char* text_of(int code) {
  switch (code) {
    case refused: return "malloc fails";
    case twice: return "malloc hands out bytes that are in use";
    case changed: return "a block changes under its owner";
    default: return "ends";
  }
}

struct target {
  size_t size;
  origin how;
};
constexpr target targets[] = {
    {64, origin::malloc},       {5000, origin::malloc},     {300'000, origin::malloc},
    {48 * mib, origin::malloc}, {3 * mib, origin::realloc}, {48 * mib, origin::realloc},
};

}  // namespace

int main() {
  start();
  size_t cases = 0;
  for (const int direction : {1, -1}) {
    // The overrun block is the first one of the process, or 2,000 others are live.
    for (const size_t before : {size_t{0}, size_t{2000}}) {
      for (const target& one : targets) {
        const child_result result =
            run_in_child(60, [&] { return overrun_and_judge(one.size, one.how, before, direction); });
        TARN_CHECK(result.exited && result.code == sound,
                   "after a write %s a block of %zu bytes by %s (%zu others live): %s (status %d, signal %d)",
                   direction > 0 ? "after" : "before", one.size,
                   one.how == origin::malloc ? "malloc" : "realloc", before,
                   result.hung() ? "hangs" : text_of(result.code), result.code, result.signal);
        ++cases;
      }
    }
  }
  measured("%zu overruns up to the first fault or %zu MiB, no structure reached", cases, longest_run / mib);
}
