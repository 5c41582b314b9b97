// SPDX-License-Identifier: MIT
// 20,000 object_pools, recyclers and scopes live at once, and this thread and another one use each. After they have ended,
// their structures, the threads' bins and the tables of these go back to the system within seconds, though both threads
// live on. What stays is memory of the page map, which lasts, and pages that are shared with what lives.
#include <malloc.h>

#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "program.hpp"
#include "tarn/malloc.h"
#include "tarn/recycler.hpp"
#include "tarn/scope.hpp"

namespace {

using pools_test::order;

constexpr std::size_t count = 20'000;
constexpr double longest_wait = 10;  // seconds

template <class front, class use_front>
void live_and_end(const char* name, std::size_t most_left, use_front use) {
  std::vector<std::unique_ptr<front>> all(count);
  const std::size_t before = guarantee::rss_bytes();
  std::barrier meet(2);
  std::thread other([&] {
    meet.arrive_and_wait();
    for (const auto& each : all) use(*each);
    meet.arrive_and_wait();
    meet.arrive_and_wait();  // lives on while memory is measured
  });
  for (auto& each : all) {
    each = std::make_unique<front>();
    use(*each);
  }
  meet.arrive_and_wait();
  meet.arrive_and_wait();
  const std::size_t live = guarantee::growth(before, guarantee::rss_bytes());
  for (auto& each : all) each.reset();
  const double ended = guarantee::wall_seconds();
  std::size_t left = 0;
  do {
    guarantee::sleep_ms(100);
    malloc_trim(0);  // the fronts' own structures and recycled objects are libc's blocks
    left = guarantee::growth(before, guarantee::rss_bytes());
  } while (left > most_left && guarantee::wall_seconds() - ended < longest_wait * guarantee::slowness());
  guarantee::measured("%zu %s: %.1f MiB live, %.1f MiB %.1f s after their end", count, name,
                      guarantee::in_mib(live), guarantee::in_mib(left), guarantee::wall_seconds() - ended);
  TARN_CHECK(left <= most_left, "%s: %zu bytes stay resident", name, left);
  meet.arrive_and_wait();
  other.join();
}

struct recycled : order {
  recycled() : order(1) {}
};

struct scope_of_test : tarn::scope {
  scope_of_test() : tarn::scope("one of many") {}
};

}  // namespace

int main() {
  guarantee::start();
  guarantee::need_own_memory_figures();
  guarantee::need_ordinary_pages();
  live_and_end<tarn::object_pool<order>>("pools", 3 * pools_test::mib,
                                         [](auto& pool) { pool.destroy(pool.create(1U)); });
  live_and_end<tarn::recycler<recycled>>("recyclers", pools_test::mib,
                                         [](auto& recycler) { (void)recycler.get(); });
  live_and_end<scope_of_test>("scopes", 2 * pools_test::mib, [](auto& scope) {
    const tarn::scope_entry in = scope.enter();
    tarn_free(guarantee::hide(tarn_malloc(100)));
  });
  return guarantee::holds;
}
