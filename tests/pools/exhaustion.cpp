// SPDX-License-Identifier: MIT
// With little address space, 4 threads take objects until there is no memory and give them back, four times. Each round
// gets at least 80 % of the objects of the first one. No object is lost or handed out twice, and a refused request
// returns null or throws std::bad_alloc.
#include <new>
#include <thread>
#include <vector>

#include "program.hpp"

namespace {

using pools_test::order;

constexpr auto pool = tarn::pool_of<order>();
constexpr unsigned threads = 4;
constexpr std::size_t most = std::size_t{1} << 23;

struct large {
  char bytes[5000];
};

int in_child() {
  auto* const objects = guarantee::own_array<order*>(threads * most);
  std::size_t counts[threads] = {};
  const auto in_threads = [](auto body) {
    std::vector<std::jthread> workers;
    for (unsigned t = 0; t < threads; ++t) workers.emplace_back([body, t] { body(t); });
  };
  in_threads([](unsigned /*number*/) { pool.destroy(pool.create(1U)); });

  char text[256];
  guarantee::read_start("/proc/self/statm", text, sizeof text);
  const std::size_t now = strtoul(text, nullptr, 10) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const rlimit limit{now + 200 * guarantee::mib, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &limit) != 0) guarantee::skip("RLIMIT_AS cannot be set");

  std::size_t first = 0;
  // Reserved now, because with libtarn.so as malloc there will be no memory for the vector either.
  std::vector<tarn::pool_ptr<large>> kept;
  kept.reserve(1000);
  for (int round = 0; round < 4; ++round) {
    in_threads([&](unsigned number) {
      order** const mine = objects + number * most;
      std::size_t& count = counts[number];
      count = 0;
      order* each = nullptr;
      do {
        TARN_CHECK(count < most, "%zu objects, and no refusal", most);
        errno = 0;
        each = pool.try_create(count);
        if (each != nullptr) mine[count++] = each;
      } while (each != nullptr);
      TARN_CHECK(errno == ENOMEM, "null, but errno is %d", errno);
    });
    std::size_t sum = 0;
    for (const std::size_t count : counts) sum += count;
    guarantee::measured("round %d: %zu objects, pool of %zu bytes", round, sum, pool.stats().bytes);
    if (round == 0) first = sum;
    TARN_CHECK(sum * 10 >= first * 8, "%zu objects in round %d, %zu in the first one", sum, round, first);
    bool thrown = false;
    for (int i = 0; i < 1000 && !thrown; ++i) {
      try {
        kept.push_back(tarn::pool_of<large>().make_unique());
      } catch (const std::bad_alloc&) {
        thrown = true;
      }
    }
    TARN_CHECK(thrown || round != 0, "1000 large objects where there was no memory for a small one");
    kept.clear();
    in_threads([&](unsigned number) {
      order** const mine = objects + (number + 1) % threads * most;
      for (std::size_t i = 0; i < counts[(number + 1) % threads]; ++i) {
        mine[i]->check();
        pool.destroy(mine[i]);
      }
    });
    TARN_CHECK(pool.stats().live == 0, "%zu objects are live after all are gone", pool.stats().live);
  }
  return guarantee::holds;
}

}  // namespace

int main() {
  guarantee::start();
  if (!pools_test::measurable) guarantee::skip("the sanitizer needs the address space");
  if (!system_probes::address_space_is_limited()) guarantee::skip("%s", system_probes::no_limit);
  guarantee::expect_good(guarantee::run_in_child(100, in_child), "the child without memory");
}
