// SPDX-License-Identifier: MIT
// A process forks while several threads use pools. The child uses the pools, destroys objects of the parent, starts
// threads, forks again and destroys pools. Slots that were in use by the parent's other threads at the fork are lost to
// the child, but the child's statistics stay plausible.
#include <atomic>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "program.hpp"

namespace {

using pools_test::order;

constexpr auto pool = tarn::pool_of<order>();
std::atomic<bool> stop{false};

template <class Pool>
void churn(const Pool& of, unsigned seed, int steps) {
  guarantee::random_numbers random(seed);
  std::vector<order*> live;
  for (int i = 0; i < steps; ++i) {
    if (random.below(2) == 0 || live.empty()) {
      live.push_back(of.create(random.next()));
    } else {
      std::swap(live[random.below(live.size())], live.back());
      of.destroy(live.back());
      live.pop_back();
    }
  }
  for (order* each : live) of.destroy(each);
}

// Objects of the main thread at the moment of the fork.
std::vector<order*> parents;
std::unique_ptr<tarn::object_pool<order>> own;
std::vector<order*> parents_own;

int in_child(int depth) {
  churn(pool, 1, 2000);
  churn(*own, 2, 2000);
  for (order* each : parents) pool.destroy(each);
  parents.clear();
  for (order* each : parents_own) own->destroy(each);
  parents_own.clear();
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < 2; ++i) {
      threads.emplace_back([i] {
        churn(pool, i, 2000);
        churn(*own, i, 2000);
      });
    }
  }
  if (depth < 2) {
    const auto result = guarantee::run_in_child(60, [depth] { return in_child(depth + 1); });
    guarantee::expect_good(result, "a grandchild");
  }
  // The objects that the parent's 4 other threads had at the fork count as live; each has at most 2,200.
  TARN_CHECK(own->stats().live <= 4U * 2200, "%zu objects are live in the child", own->stats().live);
  own.reset();
  {
    tarn::object_pool<order> fresh;
    churn(fresh, 3, 1000);
  }
  TARN_CHECK(tarn::trim() < SIZE_MAX, "trim");
  return guarantee::holds;
}

}  // namespace

int main() {
  guarantee::start();
  if (pools_test::under_tsan) guarantee::skip("ThreadSanitizer does not allow threads in forked children");
  if (pools_test::under_asan)
    guarantee::skip("AddressSanitizer's own malloc does not work in children of many threads");
  tarn::set_leak_hook([](const char* /*name*/, std::size_t /*live*/) {});
  own = std::make_unique<tarn::object_pool<order>>();
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < 4; ++i) {
      threads.emplace_back([i] {
        while (!stop.load(std::memory_order_relaxed)) {
          churn(pool, i, 2000);
          churn(*own, i, 2000);
        }
      });
    }
    constexpr int rounds = 200 / pools_test::slowdown;
    for (int round = 0; round < rounds; ++round) {
      for (std::uint64_t i = 0; i < 500; ++i) {
        parents.push_back(pool.create(i));
        parents_own.push_back(own->create(i));
      }
      const auto result = guarantee::run_in_child(60, [] { return in_child(0); });
      guarantee::expect_good(result, "a child");
      for (order* each : parents) pool.destroy(each);
      for (order* each : parents_own) own->destroy(each);
      parents.clear();
      parents_own.clear();
    }
    stop = true;
  }
  TARN_CHECK(pool.stats().live == 0 && own->stats().live == 0, "objects are live after all are gone");

  // Idle threads have free slots in their magazines, which the child must not count as live objects.
  static std::atomic<std::size_t> leaks{0};
  tarn::set_leak_hook([](const char* /*name*/, std::size_t live) { leaks += live; });
  {
    std::atomic<int> ready{0};
    std::atomic<bool> go_on{false};
    std::vector<std::jthread> idle;
    for (unsigned i = 0; i < 3; ++i) {
      idle.emplace_back([&, i] {
        churn(*own, i, 3000);
        ++ready;
        go_on.wait(false);
      });
    }
    while (ready != 3) sched_yield();
    order* const mine = own->create(1U);
    const auto result = guarantee::run_in_child(60, [mine] {
      TARN_CHECK(own->stats().live == 1, "one object is live in the child, but the figure is %zu",
                 own->stats().live);
      own->destroy(mine);
      own.reset();
      TARN_CHECK(leaks == 0, "in the child, a pool without objects ends with %zu live ones", leaks.load());
      return guarantee::holds;
    });
    guarantee::expect_good(result, "a child of a process with idle threads");
    own->destroy(mine);
    go_on = true;
    go_on.notify_all();
  }
  own.reset();
  TARN_CHECK(leaks == 0, "a pool without objects ends with %zu live ones", leaks.load());
}
