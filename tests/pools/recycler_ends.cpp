// SPDX-License-Identifier: MIT
// Recyclers and their handles at the end of threads and of the process, and in forked children: handles of static and
// thread storage duration made before and after their recycler, and exit() while generations end in the background.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "program.hpp"
#include "tarn/recycler.hpp"

namespace {

std::atomic<std::int64_t> alive{0};

struct parser {
  parser() { ++alive; }
  parser(const parser&) = delete;
  parser& operator=(const parser&) = delete;
  ~parser() {
    TARN_CHECK(table == intact, "a parser was destroyed twice, or overwritten");
    table = 0;
    --alive;
  }
  static constexpr std::uint64_t intact = 0x5eed5eed5eed5eed;
  std::uint64_t table = intact;
};
using parsers = tarn::recycler<parser>;

// Destroyed after all recyclers.
struct last_of_all {
  ~last_of_all() { TARN_CHECK(alive == 0, "%lld parsers are left", static_cast<long long>(alive)); }
} last_of_all_objects;

std::optional<parsers::handle> before_it;  // destroyed after the recycler
parsers quick({.cycle = std::chrono::milliseconds(1), .name = "quick"});
std::optional<parsers::handle> after_it;  // destroyed before the recycler
parsers still({.cycle = std::chrono::milliseconds(0), .name = "still"});

thread_local std::optional<parsers::handle> of_thread;

void use(int rounds) {
  std::vector<parsers::handle> out;
  for (int i = 0; i < rounds; ++i) {
    out.push_back(quick.get());
    out.push_back(still.get());
    TARN_CHECK(out.back()->table == parser::intact, "a destroyed parser was handed out");
    if (out.size() > 40) out.clear();
  }
}

void threads_end() {
  for (int round = 0; round < 50 / pools_test::slowdown; ++round) {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([] {
        // The handle's destructor runs before or after the thread's own bins are gone; both must work.
        of_thread = quick.get();
        use(200);
      });
    }
  }
}

void children() {
  if (pools_test::under_tsan) return;  // ThreadSanitizer does not allow threads in forked children
  std::atomic<bool> ends{false};
  std::jthread other([&] {
    while (!ends) use(50);
  });
  for (int i = 0; i < 100 / pools_test::slowdown; ++i) {
    use(30);
    const pid_t child = fork();
    TARN_CHECK(child >= 0, "fork failed");
    if (child == 0) {
      use(300);
      const tarn::recycler_stats stats = quick.stats();
      TARN_CHECK(stats.objects <= 1000000, "%zu objects wait in a child", stats.objects);
      // Generations end in a child too.
      guarantee::sleep_ms(20);
      tarn::trim();
      TARN_CHECK(still.stats().objects == 0, "trim() left %zu objects", still.stats().objects);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    TARN_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child ended with status %d", status);
  }
  ends = true;
}

}  // namespace

int main() {
  guarantee::start();
  before_it = quick.get();
  after_it = still.get();
  threads_end();
  children();
  use(10000);
  // The main thread's handle is destroyed after all other threads have ended and before static objects.
  of_thread = still.get();
  std::atexit([] { use(100); });
  use(1000);
}
