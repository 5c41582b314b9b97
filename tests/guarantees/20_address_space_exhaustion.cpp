// SPDX-License-Identifier: MIT
// Guarantee 20: with RLIMIT_AS exhausted over and over by 1 and by 4 threads, malloc answers NULL with
// ENOMEM, most of the space is usable, and is so again after free, for blocks of other sizes too. Each
// setting runs in a child process with 256 MiB of address space above what it had at the start. Invariant:
// the filled blocks form a list through their own first words, so the test itself takes nothing.
#include <iterator>

#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr size_t room = 256 * mib;
constexpr double usable_share = 0.60;
constexpr double recovered_share = 0.85;
constexpr int rounds = 12;

struct node {
  node* next;
  size_t size;
  uintptr_t check;
};

constexpr size_t no_single_size = 0;
// One size after another, so that each round must reuse what another size left behind.
constexpr size_t round_sizes[] = {64, 1000, 24 * kib, no_single_size, 300 * kib, 4 * mib};

struct worker {
  pthread_barrier_t* barrier;
  uint64_t seed;
  size_t bytes[rounds];
};

size_t fill(node** list, size_t single, random_numbers& random) {
  size_t total = 0;
  for (;;) {
    size_t size = single != no_single_size ? single : size_between_bits(random, 5, 20);
    errno = 0;
    auto* block = static_cast<node*>(take(size));
    if (block == nullptr) {
      if (errno != ENOMEM) fail("malloc(%zu) at the limit: NULL with errno %d, not ENOMEM", size, errno);
      return total;
    }
    for (size_t page = 4096; page < size; page += 4096) reinterpret_cast<char*>(block)[page] = 1;
    *block = {*list, size, reinterpret_cast<uintptr_t>(block) ^ size};
    *list = block;
    total += size;
  }
}

void empty(node* list) {
  while (list != nullptr) {
    node* next = list->next;
    if (list->check != (reinterpret_cast<uintptr_t>(list) ^ list->size)) {
      fail("block of %zu bytes at %p overwritten", list->size, static_cast<void*>(list));
    }
    give(list);
    list = next;
  }
}

void* work(void* argument) {
  auto* self = static_cast<worker*>(argument);
  random_numbers random(self->seed);
  for (int round = 0; round < rounds; ++round) {
    node* list = nullptr;
    pthread_barrier_wait(self->barrier);
    self->bytes[round] =
        fill(&list, round_sizes[static_cast<size_t>(round) % std::size(round_sizes)], random);
    pthread_barrier_wait(self->barrier);
    empty(list);
  }
  return nullptr;
}

template <size_t count>
int exhaust() {
  static worker workers[count];
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, count);
  for (size_t i = 0; i < count; ++i) workers[i] = {&barrier, 0x9e3779b97f4a7c15 + i, {}};
  rlimit limit{address_space() + room, address_space() + room};
  if (setrlimit(RLIMIT_AS, &limit) != 0) skip("setrlimit(RLIMIT_AS): %s", strerror(errno));
  in_threads(work, workers);

  size_t sums[rounds] = {};
  for (const worker& one : workers) {
    for (int round = 0; round < rounds; ++round) sums[round] += one.bytes[round];
  }
  constexpr int cycle = static_cast<int>(std::size(round_sizes));
  double least = 1e9;
  for (int round = 0; round < rounds; ++round) {
    if (in_mib(sums[round]) < least) least = in_mib(sums[round]);
    if (static_cast<double>(sums[round]) < usable_share * static_cast<double>(room)) {
      fail("%zu threads, round %d (blocks of %zu, 0: mixed): %.0f of %.0f MiB usable", count, round,
           round_sizes[round % cycle], in_mib(sums[round]), in_mib(room));
    }
    if (round >= cycle &&
        static_cast<double>(sums[round]) < recovered_share * static_cast<double>(sums[round - cycle])) {
      fail("%zu threads, round %d: %.0f MiB usable, %.0f one cycle before", count, round, in_mib(sums[round]),
           in_mib(sums[round - cycle]));
    }
  }
  void* large = take(room / 4);
  if (large == nullptr)
    fail("%zu threads: no block of %.0f MiB after all was freed", count, in_mib(room / 4));
  give(large);
  measured("%zu threads: at least %.0f of %.0f MiB usable in each of %d rounds", count, least, in_mib(room),
           rounds);
  return holds;
}

}  // namespace

int main() {
  start();
  need_address_space_limits();
  expect_good(run_in_child(60, exhaust<1>), "1 thread");
  expect_good(run_in_child(60, exhaust<4>), "4 threads");
}
