// SPDX-License-Identifier: MIT
// Thousands of threads, one after another, use a pool until their very end: in destructors of thread_local objects, and
// in all rounds of destructors of pthread keys made before and after tarn's own key. In some threads the first use is
// in such a destructor. Memory stays bounded and no object is lost.
#include <thread>
#include <vector>

#include "program.hpp"

namespace {

using pools_test::order;

constexpr auto pool = tarn::pool_of<order>();
constexpr int rounds = 4;  // PTHREAD_DESTRUCTOR_ITERATIONS of glibc
constexpr int per_round = 40;

// The objects that one thread leaves to the rounds of a key's destructor.
struct leftovers {
  pthread_key_t key;
  int round = 0;
  int first_use = 0;  // the first round that uses pools; 0: the thread's body uses them too
  std::vector<order*> objects;
};

pthread_key_t keys[2];

void churn(std::vector<order*>& objects, int count) {
  for (int i = 0; i < count; ++i) objects.push_back(pool.create(static_cast<std::uint64_t>(i)));
}
void end_some(std::vector<order*>& objects, int count) {
  for (int i = 0; i < count && !objects.empty(); ++i) {
    pool.destroy(objects.back());
    objects.pop_back();
  }
}

void end_of_key(void* value) {
  auto* const left = static_cast<leftovers*>(value);
  if (++left->round >= left->first_use) {
    end_some(left->objects, per_round);
    churn(left->objects, per_round / 2);
    end_some(left->objects, per_round / 2);
  }
  if (left->round < rounds && pthread_setspecific(left->key, left) == 0) return;
  end_some(left->objects, rounds * per_round);
  delete left;
}

struct at_thread_end {
  std::vector<order*> objects;
  ~at_thread_end() {
    end_some(objects, per_round);
    churn(objects, per_round);
    end_some(objects, per_round);
  }
};
thread_local at_thread_end local;

void body(int number) {
  // Every fifth thread uses pools in its body; the others from round 1, 2, 3 or 4 of the destructors.
  const int first_use = number % 5;
  if (first_use == 0) {
    churn(local.objects, per_round);
    for (int i = 0; i < 5 * per_round; ++i) pool.destroy(pool.create(1U));
  }
  for (const pthread_key_t key : keys) {
    auto* const left = new leftovers{key, 0, first_use, {}};
    if (first_use == 0) churn(left->objects, rounds * per_round);
    pthread_setspecific(key, left);
  }
}

void run_threads(int count) {
  for (int i = 0; i < count; ++i) std::thread(body, i).join();
}

}  // namespace

int main() {
  guarantee::start();
  guarantee::need_ordinary_pages();
  pthread_key_create(&keys[0], end_of_key);
  pool.destroy(pool.create(0U));  // tarn makes its key
  pthread_key_create(&keys[1], end_of_key);

  constexpr int threads = 3000 / pools_test::slowdown;
  run_threads(threads / 3);
  const std::size_t bytes_before = pool.stats().bytes;
  const std::size_t before = guarantee::rss_bytes();
  run_threads(threads);
  const std::size_t grown = guarantee::growth(before, guarantee::rss_bytes());
  const tarn::pool_stats stats = pool.stats();
  guarantee::measured("%zu bytes of RSS after %d threads, pool %zu -> %zu bytes, %zu cached", grown, threads,
                      bytes_before, stats.bytes, stats.cached);
  TARN_CHECK(stats.live == 0, "%zu objects are live after all are gone", stats.live);
  TARN_CHECK(stats.cached < 4096, "%zu free slots are cached after all threads have ended", stats.cached);
  if (pools_test::measurable) {
    guarantee::need_own_memory_figures();
    TARN_CHECK(grown < pools_test::mib, "%d threads in turn made the resident set grow by %zu bytes", threads,
               grown);
  }
}
