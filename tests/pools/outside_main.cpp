// SPDX-License-Identifier: MIT
// Objects of pools before and after main: in containers of static and thread storage duration that were made before and
// after the pool's first use in their thread, in .preinit_array, in atexit handlers and in destructors.
#include <list>
#include <map>
#include <memory>
#include <thread>

#include "program.hpp"
#include "tarn/pooled.hpp"

namespace {

using pools_test::order;
using pointer = tarn::pool_ptr<order>;

constexpr std::uint64_t count = 3000;
constexpr auto pool = tarn::pool_of<order>();

order* early = nullptr;

// Not under ThreadSanitizer, which is not ready at that time.
#if !defined(__SANITIZE_THREAD__) && !TARN_TEST_FEATURE(thread_sanitizer)
void before_everything(int /*count*/, char** /*arguments*/, char** /*environment*/) {
  early = pool.create(1U);
}
__attribute__((section(".preinit_array"), used)) void (*const run_before)(int, char**,
                                                                          char**) = before_everything;
#endif

// Runs after all destructors of objects.
__attribute__((destructor(101))) void after_everything() {
  order* const late = pool.create(2U);
  late->check();
  pool.destroy(late);
  pool.destroy(early);
  const std::size_t live = pool.stats().live;
  TARN_CHECK(live == 0, "%zu objects are live after all are gone", live);
}

template <class Container>
void fill(Container& all) {
  for (std::uint64_t i = 0; i < count; ++i) all.emplace_back(pool.create(i));
}

struct filled_list {
  filled_list() { fill(objects); }
  ~filled_list() {
    // A pool's first use in the process may be here.
    objects.emplace_back(pool.create(count));
    for (const auto& each : objects) each->check();
  }
  std::list<pointer> objects;
};

struct filled_map {
  filled_map() {
    for (std::uint64_t i = 0; i < count; ++i) objects.emplace(i * 7919 % count, pool.create(i));
  }
  std::map<std::uint64_t, pointer, std::less<>,
           tarn::pooled_allocator<std::pair<const std::uint64_t, pointer>>>
      objects;
};

filled_list global_list;
filled_map global_map;

struct of_thread {
  ~of_thread() {
    for (const auto& each : objects) each->check();
    fill(objects);
  }
  std::list<pointer> objects;
};
thread_local of_thread before_the_pool;
thread_local of_thread after_the_pool;

void use_in_thread() {
  before_the_pool.objects.clear();  // constructed, hence destroyed last
  pool.destroy(pool.create(5U));
  after_the_pool.objects.clear();
  fill(before_the_pool.objects);
  fill(after_the_pool.objects);
}

// Destroyed by a handler that runs after main.
std::list<pointer>* left = nullptr;

}  // namespace

int main() {
  guarantee::start();
  std::atexit([] {
    fill(*left);
    delete left;
  });
  left = new std::list<pointer>;
  if (early == nullptr) early = pool.create(1U);
  early->check();
  use_in_thread();
  for (int round = 0; round < 20; ++round) std::thread(use_in_thread).join();

  // Objects made by one thread, which has ended, are destroyed by others.
  std::list<pointer> made_elsewhere;
  std::thread([&] { fill(made_elsewhere); }).join();
  std::thread([&] {
    while (made_elsewhere.size() > count / 2) made_elsewhere.pop_front();
  }).join();
  made_elsewhere.clear();
  fill(*left);
}
