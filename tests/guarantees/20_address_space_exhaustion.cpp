// SPDX-License-Identifier: MIT
// Guarantee 20: 1 and 4 threads exhaust RLIMIT_AS again and again. malloc then returns NULL with ENOMEM, most of the
// space is usable, and after free it is usable again, also for blocks of other sizes. The same with a limit of writable
// memory (RLIMIT_DATA), and for realloc and aligned_alloc. Each setting runs in a child process that may grow by 256
// MiB.
// Invariant: the blocks form a list through their own first words, so the test itself allocates nothing. Under the
// hardened build the bytes that this build adds to each block count as used (kept_bytes.hpp).
#include <iterator>

#include "inject.hpp"
#include "kept_bytes.hpp"

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
// Each round uses one of these sizes, so it must reuse what the round before has left behind.
constexpr size_t round_sizes[] = {64, 1000, 24 * kib, no_single_size, 300 * kib, 4 * mib};
// The hardened build leaves out the last size: its quarantined objects lie all over the heap when a round begins,
// blocks of 4 MiB must fit between them, and no share is promised (docs/design/0015). exhaust_by_long_blocks() covers
// long blocks.
const int cycle = static_cast<int>(std::size(round_sizes)) - (library_is_hardened ? 1 : 0);
// Blocks of these sizes have mappings of their own. Each round asks for longer blocks than the one before, then the
// cycle starts again.
constexpr size_t long_sizes[] = {20'000'000, 26'666'666, 33'333'333, 40'000'000};
constexpr size_t long_rounds = 2 * std::size(long_sizes);

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
    total += size_with_kept_bytes(size);
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
    self->bytes[round] = fill(&list, round_sizes[round % cycle], random);
    pthread_barrier_wait(self->barrier);
    empty(list);
  }
  return nullptr;
}

void limit_growth(int resource) {
  const size_t used = resource == RLIMIT_AS ? address_space() : proc_bytes("/proc/self/status", "VmData:");
  const rlimit limit{used + room, used + room};
  if (setrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0)
    skip("setrlimit: %s", strerror(errno));
}

int exhaust_by_long_blocks(int resource) {
  limit_growth(resource);
  random_numbers random(20);
  for (size_t round = 0; round < long_rounds; ++round) {
    const size_t size = long_sizes[round % std::size(long_sizes)];
    node* list = nullptr;
    const size_t bytes = fill(&list, size, random);
    empty(list);
    TARN_CHECK(bytes >= static_cast<size_t>(usable_share * static_cast<double>(room)),
               "limit %d, round %zu: blocks of %zu: %.0f of %.0f MiB usable", resource, round, size,
               in_mib(bytes), in_mib(room));
  }
  return holds;
}

// All memory is free, in pieces. malloc, aligned_alloc and realloc must each find room for a block that is longer than
// every piece.
int take_one_longer(int resource) {
  limit_growth(resource);
  for (size_t size = 90 * mib; size <= 165 * mib; size += 25 * mib) {
    void* const block = take(size);
    TARN_CHECK(block != nullptr, "limit %d: malloc(%.0f MiB) fails with all memory free", resource,
               in_mib(size));
    memset(block, 1, size);
    give(block);
  }
  void* const aligned = hide(aligned_alloc(mib, 170 * mib));
  TARN_CHECK(aligned != nullptr, "limit %d: aligned_alloc(170 MiB) fails with all memory free", resource);
  memset(aligned, 1, 170 * mib);
  give(aligned);
  void* const grown = hide(realloc(take(mib), 175 * mib));
  TARN_CHECK(grown != nullptr, "limit %d: realloc to 175 MiB fails with all memory free", resource);
  give(grown);
  return holds;
}

constexpr size_t fits = 8 * mib;

// The process may grow by nothing; the allocator has what it has reserved.
void limit_to_reserved() {
  give(take(kib));
  const size_t now = address_space() + mib;
  const rlimit limit{now, now};
  if (setrlimit(RLIMIT_AS, &limit) != 0) skip("setrlimit: %s", strerror(errno));
}

int take_what_fits() {
  limit_to_reserved();
  return take(fits) != nullptr ? holds : not_checkable;
}

// A refused request says nothing of another one that fits: an alignment needs more room, a larger size too.
int take_what_fits_after_a_refusal(size_t alignment, size_t size) {
  limit_to_reserved();
  give(hide(aligned_alloc(alignment, size)));
  TARN_CHECK(take(fits) != nullptr, "malloc(%.0f MiB), which fits, fails after aligned_alloc(%zu, %zu)",
             in_mib(fits), alignment, size);
  return holds;
}

template <size_t count>
int exhaust() {
  static worker workers[count];
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, count);
  for (size_t i = 0; i < count; ++i) workers[i] = {&barrier, 0x9e3779b97f4a7c15 + i, {}};
  limit_growth(RLIMIT_AS);
  in_threads(work, workers);

  size_t sums[rounds] = {};
  for (const worker& one : workers) {
    for (int round = 0; round < rounds; ++round) sums[round] += one.bytes[round];
  }
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
  for (const int resource : {RLIMIT_AS, RLIMIT_DATA}) {
    expect_good(run_in_child(60, [=] { return exhaust_by_long_blocks(resource); }), "long blocks");
    expect_good(run_in_child(60, [=] { return take_one_longer(resource); }), "one block after another");
  }
  expect_good(run_in_child(60, take_what_fits), "what fits");
  const size_t refused[][2] = {{gib, 64 * kib}, {gib, fits}, {2 * mib, 30 * mib}, {16, 64 * mib}};
  for (const auto& [alignment, size] : refused) {
    expect_good(run_in_child(60, [=] { return take_what_fits_after_a_refusal(alignment, size); }),
                "after a refusal");
  }
}
