// SPDX-License-Identifier: MIT
// Line 12: allocation works in the destructors of pthread keys (all four rounds, keys made before and after the
// allocator's first use) and of thread_local objects, and leaks nothing: 3,000 threads lose less than 8 MiB.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr size_t thread_count = 3000;
constexpr size_t key_count = 8;
constexpr int rounds = PTHREAD_DESTRUCTOR_ITERATIONS;

pthread_key_t keys[key_count];
std::atomic<size_t> destructor_calls{0};

struct key_value {
  size_t key;
  int round;
  void* kept;  // a block that the next round checks and frees
};

void churn(uint64_t seed) {
  random_numbers random(seed);
  void* blocks[40];
  for (void*& block : blocks) {
    const size_t size = random.size_up_to_bits(12);
    block = malloc(size);
    TARN_CHECK(block != nullptr, "malloc(%zu) fails in a destructor", size);
    stamp(block, seed, 0, size < 64 ? size : 64);
  }
  for (void* block : blocks) free(block);
}

// Sets its key again in all rounds except the last, so that the destructor runs in every round.
void destroy_key(void* argument) {
  key_value* const value = static_cast<key_value*>(argument);
  destructor_calls.fetch_add(1, std::memory_order_relaxed);
  churn(value->key + static_cast<uint64_t>(value->round) * 31);
  TARN_CHECK(stamped(value->kept, value->key, 300), "a block kept between rounds of destructors changes");
  free(value->kept);
  if (++value->round == rounds) {
    free(value);
    return;
  }
  value->kept = malloc(300);
  stamp(value->kept, value->key, 0, 300);
  pthread_setspecific(keys[value->key], value);
}

struct thread_object {
  std::vector<std::string> strings;
  ~thread_object() {
    destructor_calls.fetch_add(1, std::memory_order_relaxed);
    for (int i = 0; i < 100; ++i) strings.push_back(std::string(static_cast<size_t>(i) * 7, 'd'));
    churn(strings.size());
  }
};
thread_local thread_object early_object;
thread_local std::unique_ptr<thread_object> owned_object;

void* live_and_die(void*) {
  early_object.strings.emplace_back(100, 'x');
  owned_object = std::make_unique<thread_object>();
  for (size_t i = 0; i < key_count; ++i) {
    key_value* const value = static_cast<key_value*>(malloc(sizeof(key_value)));
    *value = {i, 0, malloc(300)};
    stamp(value->kept, i, 0, 300);
    pthread_setspecific(keys[i], value);
  }
  churn(5);
  return nullptr;
}

// A thread that uses the heap for the first time in a destructor.
pthread_key_t first_use_key;
void first_use(void*) {
  destructor_calls.fetch_add(1, std::memory_order_relaxed);
  churn(77);
}
void* use_heap_only_at_the_end(void* argument) {
  pthread_setspecific(first_use_key, &argument);
  return nullptr;
}

// Half of the keys are made before main, when few allocators have made their own.
[[gnu::constructor]] void make_early_keys() {
  for (size_t i = 0; i < key_count / 2; ++i) pthread_key_create(&keys[i], destroy_key);
}

}  // namespace

int main() {
  start();
  free(malloc(1));
  for (size_t i = key_count / 2; i < key_count; ++i) pthread_key_create(&keys[i], destroy_key);
  pthread_key_create(&first_use_key, first_use);
  size_t before = 0;
  size_t first_uses = 0;
  for (size_t i = 0; i < thread_count + 300; i += 2) {
    if (i == 300) before = rss_bytes();
    const pthread_t first = start_thread(live_and_die, nullptr);
    first_uses += i % 6 == 0 ? 1 : 0;
    const pthread_t second = start_thread(i % 6 == 0 ? use_heap_only_at_the_end : live_and_die, nullptr);
    pthread_join(first, nullptr);
    pthread_join(second, nullptr);
  }
  const size_t lost = growth(before, rss_bytes());
  measured("%zu threads lose %.2f MiB over %zu destructor calls", thread_count, in_mib(lost),
           destructor_calls.load());
  // Of the others each has a key's destructor called in every round, and two thread_local objects destroyed.
  const size_t expected = first_uses + (thread_count + 300 - first_uses) * (key_count * rounds + 2);
  TARN_CHECK(destructor_calls.load() == expected, "%zu destructors were called, not %zu",
             destructor_calls.load(), expected);
  need_own_memory_figures();
  TARN_CHECK(lost < 8 * mib, "%zu threads that allocate in destructors lose %.1f MiB", thread_count,
             in_mib(lost));
  return holds;
}
