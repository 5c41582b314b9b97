// SPDX-License-Identifier: MIT
// Guarantee 49: threads that share the caches of processors never get a block that another one has, and never find one
// changed, while a timer interrupts them 1,000 times a second, they hop from processor to processor, caches are drained
// all the time, and some of them make children by fork and vfork, which allocate too. 20 million operations; long 10^9.
#include <sched.h>

#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr size_t threads_at_once = 40;
constexpr size_t own_slots = 64;
constexpr size_t shared_slots = 4096;
constexpr uint64_t operations_of_turn = 1000;
constexpr uint64_t turns_of_thread = 500;  // then another thread takes its place
constexpr uint64_t turns_on_processor = 20;
constexpr uint64_t turns_between_children = 50;

struct header {
  uint64_t seed;
  uint64_t size;
};

uint64_t goal = 0;
uint64_t operations = 0;
uint64_t interrupts = 0;
uint64_t children = 0;
void* shared[shared_slots];

struct worker {
  size_t number;
};

void fill(void* block, uint64_t seed, size_t size) {
  const header h{seed, size};
  memcpy(block, &h, sizeof h);
  stamp(static_cast<char*>(block) + sizeof h, seed, 0, size - sizeof h);
}

void check_and_give(void* block) {
  header h;
  memcpy(&h, block, sizeof h);
  const char* const content = static_cast<char*>(block) + sizeof h;
  TARN_CHECK(h.size >= sizeof h && h.size < 64 * kib, "block %p has lost its header", block);
  TARN_CHECK(stamped(content, h.seed, h.size - sizeof h), "block %p of %zu bytes was changed", block,
             static_cast<size_t>(h.size));
  // Another owner of the block would notice.
  stamp(block, ~h.seed, 0, h.size < 64 ? h.size : 64);
  give(block);
}

size_t some_size(random_numbers& random) {
  if (random.below(64) == 0) return sizeof(header) + random.below(20'000);
  return sizeof(header) + random.below(300);
}

void allocate_some(uint64_t seed) {
  random_numbers random(seed);
  void* blocks[50];
  for (void*& block : blocks) {
    const size_t size = some_size(random);
    block = take(size);
    if (block == nullptr) _exit(broken);
    fill(block, seed, size);
  }
  for (void* const block : blocks) check_and_give(block);
}

// The child of vfork runs in this function's frame, so it calls only functions that return before it ends.
[[gnu::noinline]] void make_child(uint64_t seed, bool by_vfork) {
  const pid_t child = by_vfork ? vfork() : fork();
  if (child == 0) {
    allocate_some(seed);
    _exit(holds);
  }
  if (child < 0) return;
  const child_result result = wait_for(child);
  TARN_CHECK(result.good(), "a child of %s ended with status %d, signal %d", by_vfork ? "vfork" : "fork",
             result.code, result.signal);
  __atomic_add_fetch(&children, 1, __ATOMIC_RELAXED);
}

void hop(size_t processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor % static_cast<size_t>(sysconf(_SC_NPROCESSORS_ONLN)), &set);
  sched_setaffinity(0, sizeof set, &set);
}

void operate(random_numbers& random, void** own) {
  for (uint64_t i = 0; i < operations_of_turn; ++i) {
    void*& slot = own[random.below(own_slots)];
    if (slot == nullptr) {
      const size_t size = some_size(random);
      slot = take(size);
      TARN_CHECK(slot != nullptr, "malloc(%zu) failed", size);
      fill(slot, random.next(), size);
      continue;
    }
    if (random.below(4) == 0)
      slot = __atomic_exchange_n(&shared[random.below(shared_slots)], slot, __ATOMIC_ACQ_REL);
    if (slot != nullptr) check_and_give(slot);
    slot = nullptr;
  }
}

void* work(void* argument) {
  const size_t number = static_cast<worker*>(argument)->number;
  static uint64_t seeds = 0;
  random_numbers random(__atomic_add_fetch(&seeds, 1, __ATOMIC_RELAXED));
  void* own[own_slots] = {};
  for (uint64_t turn = 0; turn < turns_of_thread; ++turn) {
    if (__atomic_add_fetch(&operations, operations_of_turn, __ATOMIC_RELAXED) > goal) break;
    operate(random, own);
    if (turn % turns_on_processor == 0) hop(number + turn / turns_on_processor);
    if (number < 2 && turn % turns_between_children == 7) make_child(random.next(), number == 0);
  }
  for (void* const block : own) {
    if (block != nullptr) check_and_give(block);
  }
  return nullptr;
}

void* drain(void* argument) {
  const bool* const stop = static_cast<bool*>(argument);
  while (!__atomic_load_n(stop, __ATOMIC_RELAXED)) {
    if (tarn_trim != nullptr) tarn_trim(size_t{0});
    sleep_ms(5);
  }
  return nullptr;
}

void interrupt_threads() {
  struct sigaction action {};
  action.sa_handler = [](int) { __atomic_add_fetch(&interrupts, 1, __ATOMIC_RELAXED); };
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGALRM;
  timer_t timer{};
  TARN_CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create: %s", strerror(errno));
  const itimerspec every_ms{{0, 1'000'000}, {0, 1'000'000}};
  timer_settime(timer, 0, &every_ms, nullptr);
}

void set_signals(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGALRM);
  pthread_sigmask(how, &set, nullptr);
}

}  // namespace

int main() {
  start();
  goal = long_run() ? 1'000'000'000 : 20'000'000 / slowness();
  interrupt_threads();
  bool stop = false;
  set_signals(SIG_BLOCK);  // in this thread and the draining one, so that the others are interrupted
  const pthread_t drainer = start_thread(drain, &stop);
  static worker workers[threads_at_once];
  for (size_t i = 0; i < threads_at_once; ++i) workers[i].number = i;
  while (operations < goal) {
    pthread_t threads[threads_at_once];
    set_signals(SIG_UNBLOCK);
    for (size_t i = 0; i < threads_at_once; ++i) threads[i] = start_thread(work, &workers[i]);
    set_signals(SIG_BLOCK);
    for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  }
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  pthread_join(drainer, nullptr);
  for (void* const block : shared) {
    if (block != nullptr) check_and_give(block);
  }
  measured("%lu million operations, %lu interrupts, %lu children",
           static_cast<unsigned long>(operations / 1'000'000), static_cast<unsigned long>(interrupts),
           static_cast<unsigned long>(children));
  return holds;
}
