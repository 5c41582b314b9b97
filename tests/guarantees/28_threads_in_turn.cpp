// SPDX-License-Identifier: MIT
// Guarantee 28: 16 threads replace a live set of 8 MiB in turn; each frees what the one before it has allocated. After
// each turn the resident memory is at most twice the live bytes, and it does not grow after round 5 (hardened
// build: 9). Two ways: blocks
// of 32 to 480 bytes, all freed and then all allocated anew; blocks of 256 bytes, replaced one by one.
// Invariant: one thread works at a time, so about 8 MiB are live at most.
#include "inject.hpp"
#include "kept_bytes.hpp"

namespace {

using namespace guarantee;

constexpr size_t threads = 16;
constexpr size_t most_rounds = 18;
const size_t rounds = library_is_hardened ? 18 : 12;
// The hardened build's quarantines, one per thread, hand blocks out from random places, so they fill more slowly.
const size_t settled_round = library_is_hardened ? 9 : 5;
constexpr size_t places = 32'768;
constexpr size_t mean_bytes = 256;
// With what the hardened build adds to each block.
const size_t live_bytes = places * size_with_kept_bytes(mean_bytes);
// Readings of an unchanged heap differ, for example by stack pages that are touched late.
constexpr size_t noise = 512 * kib;

void* blocks[places];
uint16_t order[places];
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
size_t turn = 0;
size_t most_of_round[most_rounds];
size_t before = 0;

struct worker {
  size_t number;
};

enum class way { whole_set, one_by_one };
way chosen_way = way::whole_set;

void replace_all(random_numbers& random) {
  if (chosen_way == way::whole_set) {
    for (size_t i = 0; i < places; ++i) {
      give(blocks[order[i]]);
      blocks[order[i]] = nullptr;
    }
  }
  for (size_t i = 0; i < places; ++i) {
    // 32 to 480 bytes, 256 on average.
    const size_t size = chosen_way == way::whole_set ? 32 + random.below(449) : mean_bytes;
    void** const place = &blocks[order[i]];
    give(*place);
    *place = take(size);
    TARN_CHECK(*place != nullptr, "malloc(%zu) failed", size);
    memset(*place, 1, size);
  }
}

void* work(void* argument) {
  const size_t number = static_cast<worker*>(argument)->number;
  random_numbers random(number);
  for (size_t round = 0; round < rounds; ++round) {
    pthread_mutex_lock(&mutex);
    while (turn != round * threads + number) pthread_cond_wait(&changed, &mutex);
    replace_all(random);
    const size_t grown = growth(before, resident());
    if (grown > most_of_round[round]) most_of_round[round] = grown;
    ++turn;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
  }
  return nullptr;
}

void shuffle_order() {
  random_numbers random(28);
  for (size_t i = 0; i < places; ++i) order[i] = static_cast<uint16_t>(i);
  for (size_t i = places - 1; i > 0; --i) {
    const size_t other = random.below(i + 1);
    const uint16_t kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
}

int in_turn(way how, const char* what) {
  chosen_way = how;
  shuffle_order();
  memset(static_cast<void*>(blocks), 0, sizeof blocks);
  static worker workers[threads];
  for (size_t i = 0; i < threads; ++i) workers[i].number = i;
  before = resident();
  in_threads(work, workers);
  size_t early = 0;
  size_t late = 0;
  for (size_t round = 0; round < rounds; ++round) {
    size_t& most = round < settled_round ? early : late;
    if (most_of_round[round] > most) most = most_of_round[round];
  }
  const size_t most = early > late ? early : late;
  TARN_CHECK(most <= 2 * live_bytes, "%s: %.1f MiB after a turn for %.0f MiB live", what, in_mib(most),
             in_mib(live_bytes));
  TARN_CHECK(late <= early + noise, "%s: grew from %.2f MiB in rounds 1 to %zu to %.2f later", what,
             in_mib(early), settled_round, in_mib(late));
  measured("%s: after a turn at most %.2f times the live bytes (%.2f MiB by round %zu, %.2f later)", what,
           static_cast<double>(most) / static_cast<double>(live_bytes), in_mib(early), settled_round,
           in_mib(late));
  return holds;
}

}  // namespace

int main() {
  start();
  need_own_memory_figures();
  const char* what = "replaced one by one";
  expect_good(run_in_child(60, [=] { return in_turn(way::one_by_one, what); }), what);
  what = "freed whole, then allocated";
  expect_good(run_in_child(60, [=] { return in_turn(way::whole_set, what); }), what);
}
