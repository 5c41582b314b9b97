// SPDX-License-Identifier: MIT
// Guarantee 51: what the heap profile says that was allocated, and what is live, is within 3 % of the truth, on six
// programs that count it themselves: blocks of one size, of many sizes with a live set, large ones, vectors that grow by
// realloc, blocks that other threads free, and zeroed and aligned ones. With blocks that are sampled and blocks that are
// not, every byte of a block is the program's. The environment sets the rate, so that there are enough samples: the
// relative standard deviation is 1 / sqrt(samples).
#include <malloc.h>

#include "../../include/tarn/malloc.h"
#include "check.hpp"

using namespace guarantee;

namespace {

constexpr double most_error = 0.03;

using visit_function = int (*)(void (*)(void*, const tarn_profile_site*), void*);
visit_function visit_profile = nullptr;

struct totals {
  double bytes = 0;
  double live = 0;
  double samples = 0;
  double live_samples = 0;
};

totals profile() {
  totals all;
  const int failed = visit_profile(
      [](void* context, const tarn_profile_site* s) {
        auto& to = *static_cast<totals*>(context);
        to.bytes += static_cast<double>(s->bytes);
        to.live += static_cast<double>(s->live_bytes);
        to.samples += static_cast<double>(s->samples);
        to.live_samples += static_cast<double>(s->live_samples);
      },
      &all);
  if (failed != 0) fail("tarn_visit_profile: %d", failed);
  return all;
}

// Bytes that the calling thread has allocated, and that are live.
thread_local double allocated = 0;
thread_local double live_now = 0;

void* note(void* block) {
  if (block == nullptr) fail("no memory");
  const auto bytes = static_cast<double>(malloc_usable_size(block));
  allocated += bytes;
  live_now += bytes;
  return block;
}
void give_back(void* block) {
  if (block != nullptr) live_now -= static_cast<double>(malloc_usable_size(block));
  free(block);
}
void* resize(void* block, size_t size) {
  const size_t before = malloc_usable_size(block);
  void* const now = realloc(block, size);
  const size_t after = malloc_usable_size(now);
  if (now == block && after == before) return now;
  live_now += static_cast<double>(after) - static_cast<double>(before);
  allocated += static_cast<double>(after);
  return now;
}

struct random_numbers {
  uint64_t state;
  uint64_t next(uint64_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33) % below;
  }
};

double target() { return long_run() ? 20.0 * gib : 1.0 * gib; }

// Each keeps what it has left live in `kept`, at most 200,000 blocks.
constexpr size_t most_kept = 200'000;
void* kept[most_kept];

void one_size() {
  while (allocated < target()) {
    void* const block = note(malloc(64));
    give_back(block);
  }
  for (size_t i = 0; i < most_kept; ++i) kept[i] = note(malloc(640));
}

void many_sizes() {
  random_numbers random{1};
  while (allocated < target()) {
    void*& place = kept[random.next(most_kept)];
    give_back(place);
    place = note(malloc(1 + random.next(random.next(2) == 0 ? 200 : 4000)));
  }
}

void large_blocks() {
  random_numbers random{2};
  while (allocated < 20 * target()) {
    void*& place = kept[random.next(1000)];
    give_back(place);
    place = note(malloc(10'000 + random.next(800'000)));
  }
}

void growing_vectors() {
  random_numbers random{3};
  while (allocated < 4 * target()) {
    void*& place = kept[random.next(3000)];
    give_back(place);
    place = note(malloc(16));
    const size_t end = 100 + random.next(500'000);
    for (size_t size = 24; size < end; size += size / 2) place = resize(place, size);
  }
}

struct shared_work {
  void** blocks;
  size_t count;
  double bytes;
  bool is_freed;
};

void* allocate_all(void* argument) {
  auto& work = *static_cast<shared_work*>(argument);
  random_numbers random{4};
  allocated = 0;
  for (size_t i = 0; i < work.count; ++i) work.blocks[i] = note(malloc(1 + random.next(1000)));
  work.bytes = allocated;
  return nullptr;
}
void* free_all(void* argument) {
  auto& work = *static_cast<shared_work*>(argument);
  for (size_t i = 0; i < work.count; ++i) {
    free(work.blocks[i]);
    work.blocks[i] = nullptr;
  }
  return nullptr;
}

// Blocks of threads that end, which others free; the last round's stay.
void other_threads() {
  constexpr size_t threads = 4;
  shared_work works[threads];
  for (bool last = false; !last;) {
    pthread_t ids[threads];
    for (size_t i = 0; i < threads; ++i) {
      works[i] = {kept + i * (most_kept / threads), most_kept / threads, 0, false};
      pthread_create(&ids[i], nullptr, allocate_all, &works[i]);
    }
    for (size_t i = 0; i < threads; ++i) {
      pthread_join(ids[i], nullptr);
      allocated += works[i].bytes;
    }
    last = allocated >= target();
    if (last) break;
    for (size_t i = 0; i < threads; ++i) pthread_create(&ids[i], nullptr, free_all, &works[i]);
    for (size_t i = 0; i < threads; ++i) pthread_join(ids[i], nullptr);
  }
  live_now = 0;
  for (const shared_work& work : works) live_now += work.bytes;
}

void zeroed_and_aligned() {
  random_numbers random{5};
  while (allocated < target()) {
    void*& place = kept[random.next(100'000)];
    give_back(place);
    const size_t size = 1 + random.next(3000);
    void* aligned = nullptr;
    if (random.next(2) == 0) {
      place = note(calloc(1, size));
      if (static_cast<char*>(place)[size - 1] != 0) fail("calloc: not zero");
    } else if (posix_memalign(&aligned, size_t{16} << random.next(9), size) == 0) {
      place = note(aligned);
    }
  }
}

// In a child, so that what one program leaves live does not count for the next. Each begins at another place of the
// random numbers that choose samples, so that their errors are independent.
void check(const char* name, void (*program)()) {
  static int numbers_used = 0;
  numbers_used += 1000;
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < numbers_used; ++i) free(malloc(300'000));
    const totals before = profile();
    program();
    const totals after = profile();
    const double bytes = after.bytes - before.bytes;
    const double live = after.live - before.live;
    const double error = bytes / allocated - 1;
    const double live_error = live / live_now - 1;
    measured("%s: allocated %.1f MiB, %+.2f %% (%.0f samples); live %.1f MiB, %+.2f %% (%.0f samples)", name,
             allocated / mib, 100 * error, after.samples - before.samples, live_now / mib, 100 * live_error,
             after.live_samples - before.live_samples);
    if (error > most_error || -error > most_error)
      fail("%s: allocated bytes are off by %.2f %%", name, 100 * error);
    // Fewer samples: five standard deviations where they are more than 3 %.
    const double samples = after.live_samples - before.live_samples;
    const double most = samples > 0 && 25 / samples > most_error * most_error ? 1 : most_error;
    if (live_error > most || -live_error > most)
      fail("%s: live bytes are off by %.2f %%", name, 100 * live_error);
    _exit(holds);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) _exit(broken);
}

}  // namespace

int main() {
  visit_profile = reinterpret_cast<visit_function>(dlsym(RTLD_DEFAULT, "tarn_visit_profile"));
  if (visit_profile == nullptr) skip("the allocator has no heap profile");
  check("one size", one_size);
  check("many sizes", many_sizes);
  check("large blocks", large_blocks);
  check("growing vectors", growing_vectors);
  check("other threads", other_threads);
  check("zeroed and aligned", zeroed_and_aligned);
  return holds;
}
