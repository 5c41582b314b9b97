// SPDX-License-Identifier: MIT
// The destruction of an object_pool: while threads that used it are just ending; while other threads trim; and with
// live objects, which are reported to the leak hook, or by a line on standard error.
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "program.hpp"

namespace {

using pools_test::order;
using order_pool = tarn::object_pool<order>;

std::atomic<std::size_t> leaks{0};
std::string leak_name;
std::size_t leak_live = 0;

void note(const char* name, std::size_t live) {
  ++leaks;
  leak_name = name;
  leak_live = live;
}

void use(order_pool& pool, std::size_t count) {
  std::vector<order*> objects(count);
  for (order*& each : objects) each = pool.create(1U);
  for (std::size_t i = 0; i < count; ++i) pool.destroy(objects[i * 7919 % count]);
}

void while_threads_end() {
  constexpr int rounds = 2000 / pools_test::slowdown;
  for (int round = 0; round < rounds; ++round) {
    auto pool = std::make_unique<order_pool>();
    std::atomic<int> done{0};
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        use(*pool, 1000);
        done.fetch_add(1, std::memory_order_release);
      });
    }
    while (done.load(std::memory_order_acquire) != 3) sched_yield();
    pool.reset();
  }
  TARN_CHECK(leaks == 0, "pools without objects ended with live ones %zu times (last: %zu)", leaks.load(),
             leak_live);
}

void while_others_trim() {
  std::atomic<bool> stop{false};
  std::vector<std::jthread> trimmers;
  for (int t = 0; t < 2; ++t) {
    trimmers.emplace_back([&] {
      while (!stop) {
        tarn::trim();
        (void)tarn::pools();
      }
    });
  }
  constexpr int rounds = 2000 / pools_test::slowdown;
  for (int round = 0; round < rounds; ++round) {
    order_pool pool;
    use(pool, 9973 / pools_test::slowdown);
  }
  stop = true;
  trimmers.clear();
  TARN_CHECK(leaks == 0, "pools without objects ended with live ones %zu times (last: %zu)", leaks.load(),
             leak_live);
}

void with_live_objects() {
  order* left[3];
  std::shared_ptr<order> shared;
  {
    order_pool pool({.name = "of orders"});
    use(pool, 997);
    for (order*& each : left) each = pool.create(9U);
  }
  TARN_CHECK(leaks == 1 && leak_name == "of orders" && leak_live == 3, "hook: %zu times, last: %zu of %s",
             leaks.load(), leak_live, leak_name.c_str());
  for (order* each : left) each->check();
  {
    order_pool pool;
    shared = pool.make_shared(4U);
  }
  TARN_CHECK(leaks == 2 && leak_live == 1, "hook: %zu times for a shared pointer's object", leaks.load());
  shared->check();
}

// What the function writes to standard error when it runs in a child.
template <class Function>
std::string standard_error_of(Function function) {
  char text[4096];
  const auto result = guarantee::run_and_hear(20, text, [&] {
    function();
    return guarantee::holds;
  });
  guarantee::expect_good(result, "a child");
  return text;
}

void expect_line(const std::string& found, const std::string& expected) {
  TARN_CHECK(found == expected, "standard error is \"%s\", not \"%s\"", found.c_str(), expected.c_str());
}

void the_line() {
  tarn::set_leak_hook(nullptr);
  expect_line(
      standard_error_of([] {
        order_pool pool;
        (void)pool.create(1U);
      }),
      "tarn: the pool of pools_test::order ends while 1 object is live; its memory is not released\n");
  expect_line(standard_error_of([] {
                order_pool pool({.name = "orders"});
                (void)pool.create(1U);
                (void)pool.create(1U);
              }),
              "tarn: the pool of orders ends while 2 objects are live; its memory is not released\n");
  expect_line(standard_error_of([] {
                order_pool pool;
                pool.destroy(pool.create(1U));
              }),
              "");
}

}  // namespace

int main() {
  guarantee::start();
  the_line();
  TARN_CHECK(tarn::set_leak_hook(note) != nullptr, "there is no default hook");
  while_threads_end();
  while_others_trim();
  with_live_objects();
}
