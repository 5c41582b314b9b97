// SPDX-License-Identifier: MIT
// Guarantee 50: on a machine with several memory nodes, a thread that stays on one processor gets small blocks of its own
// node. One thread per processor, at most 16, each pinned to it, frees 512 KiB of blocks in random order and allocates
// them anew, many times. At the end at least nine of ten blocks lie on the node of the thread that got them, in the
// median of five processes: spans that the page heap has taken back in between may serve any node.
#include <sched.h>
#include <sys/syscall.h>

#include <atomic>

#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr int most_threads = 16;
constexpr size_t size = 64;
constexpr size_t count = 512 * kib / size;
constexpr int rounds = 30;
constexpr int attempts = 5;

int processors[most_threads];
void* blocks[most_threads][count];
std::atomic<int> started{0};
int threads = 0;
size_t elsewhere[most_threads];

unsigned node_of_thread() {
  unsigned node = 0;
  syscall(SYS_getcpu, nullptr, &node, nullptr);
  return node;
}

void* work(void* argument) {
  const auto index = reinterpret_cast<size_t>(argument);
  pin_to(processors[index]);
  // All threads are pinned before the first one allocates.
  started.fetch_add(1);
  while (started.load() < threads) sched_yield();
  random_numbers random(index);
  void** const mine = blocks[index];
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < count; ++i) {
      mine[i] = malloc(size);
      TARN_CHECK(mine[i] != nullptr, "malloc(%zu) failed", size);
      memset(mine[i], 1, size);
    }
    if (round == rounds - 1) break;
    for (size_t left = count; left > 0; --left) {
      const size_t chosen = random.below(left);
      free(mine[chosen]);
      mine[chosen] = mine[left - 1];
    }
  }
  const unsigned node = node_of_thread();
  static thread_local int nodes[count];
  TARN_CHECK(syscall(SYS_move_pages, 0, count, mine, nullptr, nodes, 0) == 0, "move_pages: %s",
             strerror(errno));
  for (const int of_block : nodes) elsewhere[index] += of_block != static_cast<int>(node) ? 1 : 0;
  return nullptr;
}

// How many percent of the blocks lie on another node than the thread that got them.
int percent_elsewhere() {
  pthread_t ids[most_threads];
  for (int i = 0; i < threads; ++i) {
    void* const index = reinterpret_cast<void*>(static_cast<size_t>(i));
    TARN_CHECK(pthread_create(&ids[i], nullptr, work, index) == 0, "no thread");
  }
  for (int i = 0; i < threads; ++i) pthread_join(ids[i], nullptr);
  size_t foreign = 0;
  for (const size_t each : elsewhere) foreign += each;
  return static_cast<int>(foreign * 100 / (static_cast<size_t>(threads) * count));
}

int child_status(int (*run)()) {
  const pid_t child = fork();
  TARN_CHECK(child >= 0, "fork: %s", strerror(errno));
  if (child == 0) _exit(run());
  int status = 0;
  TARN_CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status), "a process did not end by itself");
  return WEXITSTATUS(status);
}

}  // namespace

int main() {
  cpu_set_t allowed;
  TARN_CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "sched_getaffinity: %s", strerror(errno));
  unsigned first_node = 0;
  bool several = false;
  for (int cpu = 0; cpu < CPU_SETSIZE && threads < most_threads; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    pin_to(cpu);
    if (threads == 0) first_node = node_of_thread();
    several = several || node_of_thread() != first_node;
    processors[threads++] = cpu;
  }
  if (!several) skip("this machine has one memory node");
  sched_setaffinity(0, sizeof allowed, &allowed);
  int percent[attempts];
  for (int& each : percent) each = child_status(percent_elsewhere);
  for (int i = 1; i < attempts; ++i) {
    for (int k = i; k > 0 && percent[k] < percent[k - 1]; --k) {
      const int higher = percent[k - 1];
      percent[k - 1] = percent[k];
      percent[k] = higher;
    }
  }
  measured("%d %% of the blocks lie on another node (median of %d processes; %d to %d; %d threads)",
           percent[attempts / 2], attempts, percent[0], percent[attempts - 1], threads);
  TARN_CHECK(percent[attempts / 2] <= 10, "%d %% of the blocks lie on another memory node than their thread",
             percent[attempts / 2]);
  return holds;
}
