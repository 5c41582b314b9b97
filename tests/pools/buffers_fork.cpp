// SPDX-License-Identifier: MIT
// A process forks while its threads take and give back buffers and the background thread prefaults some. The pool works
// in each child, which gives back a buffer of the parent, takes its own, trims and forks again.
#include <atomic>
#include <thread>
#include <vector>

#include "program.hpp"
#include "tarn/buffer_pool.hpp"

namespace {

constexpr std::size_t size = 200000;
const int forks = pools_test::under_asan ? 20 : 100;

tarn::buffer_pool pool({.name = "forked",
                        .prefault = tarn::buffer_prefault::ahead,
                        .limit = 4 * guarantee::mib});
tarn::locked_buffer_pool locked({.name = "locked", .wiped_on_fork = true});

void fill(const tarn::buffer& b, int value) { memset(b.data(), value, b.size()); }
void check(const tarn::buffer& b, int value) {
  for (std::size_t i = 0; i < b.size(); i += 500)
    TARN_CHECK(b.data()[i] == static_cast<std::byte>(value), "byte %zu of a buffer has changed", i);
}

tarn::buffer of_parent;
tarn::buffer secret;

int in_child(int depth) {
  check(of_parent, 1);
  if (secret) {
    check(secret, 0);
    fill(secret, 9);
    secret.reset();
    secret = locked.try_get(size);
    if (secret) check(secret, 0);
  }
  for (int i = 0; i < 20; ++i) {
    tarn::buffer b = pool.get(size + static_cast<std::size_t>(i) * 30000);
    fill(b, i);
    check(b, i);
  }
  of_parent.reset();
  const std::jthread thread([] { fill(pool.get(size), 3); });
  tarn::trim();
  // At most those that the parent's three threads held at the fork, and the one that the thread here gives back.
  TARN_CHECK(pool.stats().kept <= 4, "%zu buffers are kept after a trim", pool.stats().kept);
  if (depth == 0) {
    of_parent = pool.get(size);
    fill(of_parent, 1);
    guarantee::expect_good(guarantee::run_in_child(60, [] { return in_child(1); }), "the child's child");
  }
  return guarantee::holds;
}

}  // namespace

int main() {
  guarantee::start();
  if (pools_test::under_tsan) guarantee::skip("ThreadSanitizer does not allow threads in forked children");
  // Where the system does not support MADV_WIPEONFORK, only the other buffers are checked.
  const bool wiped = system_probes::children_find_wiped_memory();
  std::atomic<bool> done{false};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&done, t] {
      for (std::size_t i = 0; !done; ++i) {
        const tarn::buffer b = pool.get(size + i % 7 * 50000);
        fill(b, t);
        check(b, t);
        if (i % 50 == 0) pool.trim();
      }
    });
  }
  if (wiped) secret = locked.try_get(size);
  for (int i = 0; i < forks; ++i) {
    of_parent = pool.get(size);
    fill(of_parent, 1);
    if (secret) fill(secret, 2);
    guarantee::expect_good(guarantee::run_in_child(60, [] { return in_child(0); }), "a child");
    check(of_parent, 1);
    if (secret) check(secret, 2);
  }
  done = true;
  threads.clear();
  if (!wiped) guarantee::skip("%s; the other buffers were checked", system_probes::no_wiping);
  return guarantee::holds;
}
