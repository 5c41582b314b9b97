// SPDX-License-Identifier: MIT
// Buffers before any constructor has run, after main, in destructors of thread-local objects, and in global objects
// that are destroyed before or after their pool.
#include <optional>
#include <thread>
#include <vector>

#include "program.hpp"
#include "tarn/buffer_pool.hpp"

namespace {

using bytes = std::vector<unsigned char, tarn::buffer_allocator<unsigned char>>;
constexpr std::size_t size = 300000;

void fill(const tarn::buffer& b, int value) { memset(b.data(), value, b.size()); }
void check(const tarn::buffer& b, int value, const char* when) {
  for (std::size_t i = 0; i < b.size(); i += 1000) {
    TARN_CHECK(b.data()[i] == static_cast<std::byte>(value), "%s: byte %zu of a buffer has changed", when, i);
  }
}

// Constructed first, so destroyed last, when the pool of its buffers no longer exists.
struct ends_late {
  tarn::buffer held;
  bytes vector;
  ~ends_late() {
    check(held, 7, "after its pool");
    TARN_CHECK(vector.size() == size && vector[size - 1] == 9, "a vector has changed after main");
    held.reset();
    bytes more(size, 3);
    TARN_CHECK(more[size - 1] == 3, "no vector after main");
  }
} late;

tarn::buffer_pool pool({.name = "global"});

// Destroyed before its pool.
struct ends_early {
  tarn::buffer held = pool.get(size);
  ~ends_early() { check(held, 8, "before its pool ends"); }
} early;

[[gnu::constructor(101)]] void before_constructors() {
  tarn_buffer_pool* const shared = tarn_buffer_pool_shared();
  TARN_CHECK(shared != nullptr, "no process-wide pool before constructors");
  std::size_t capacity = 0;
  void* const memory = tarn_buffer_get(shared, size, &capacity);
  TARN_CHECK(memory != nullptr && capacity >= size, "no buffer before constructors");
  memset(memory, 1, capacity);
  tarn_buffer_give_back(shared, memory);
}

struct of_thread {
  tarn::buffer held;
  ~of_thread() {
    check(held, 5, "as its thread ends");
    tarn::buffer another = pool.get(size);
    fill(another, 6);
  }
};

}  // namespace

int main() {
  guarantee::start();
  late.held = pool.get(size);
  fill(late.held, 7);
  late.vector.assign(size, 9);
  fill(early.held, 8);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        thread_local of_thread mine;
        mine.held = pool.get(size);
        fill(mine.held, 5);
      });
    }
  }
  TARN_CHECK(pool.stats().live == 2, "%zu buffers are live, not 2", pool.stats().live);
  TARN_CHECK(pool.stats().misses <= 12, "%zu misses: threads that ended kept buffers",
             static_cast<std::size_t>(pool.stats().misses));
}
