// SPDX-License-Identifier: MIT
// The limit of the control group is lowered while a program grows that has much room or no limit at all, and does not free
// (docs/design/0034): the program's callback drops its cache before the new limit is reached. When the limit is raised
// again, the program uses the room, and no callback runs. Skipped where no such group can be made.
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "../memory_group.hpp"
#include "program.hpp"
#include "tarn/process.hpp"

namespace {

using namespace pools_test;

constexpr std::size_t high = 512 * mib;
constexpr std::size_t low = 175 * mib;
constexpr std::size_t block_bytes = 16 * 1024;
// The heap then lies behind a look that found much room, and far below the next one that only the room would call for.
constexpr std::size_t base_bytes = 25 * mib;
constexpr std::size_t cache_bytes = 120 * mib;
constexpr std::size_t grown_bytes = 100 * mib;  // would exceed `low`, with the cache
constexpr std::size_t later_bytes = 200 * mib;  // and these would without it

// Blocks, all written.
class blocks {
 public:
  void take(std::size_t bytes) {
    for (std::size_t taken = 0; taken < bytes; taken += block_bytes) {
      void* const block = std::malloc(block_bytes);
      TARN_CHECK(block != nullptr, "malloc fails");
      all_.push_back(std::memset(block, 1, block_bytes));
      // As a program that works for its memory: the background thread, which looks, gets a processor.
      if (taken % mib == 0) guarantee::sleep_ms(3);
    }
  }
  void drop(std::size_t bytes) {
    for (std::size_t dropped = 0; dropped < bytes && !all_.empty(); dropped += block_bytes) {
      std::free(all_.back());
      all_.pop_back();
    }
  }

 private:
  std::vector<void*> all_;
};

// The other process changes the limit.
void ask_for_limit(char which) {
  TARN_CHECK(write(1, &which, 1) == 1 && read(0, &which, 1) == 1, "nobody changes the limit");
}

int grow() {
  blocks base;
  blocks cache;
  std::atomic<unsigned> calls{0};
  std::atomic<bool> is_filled{false};
  const auto registration = tarn::on_pressure([&](const tarn_pressure& now) {
    ++calls;
    if (is_filled) cache.drop(now.excess + now.soft / 8);
  });
  base.take(base_bytes);
  cache.take(cache_bytes);
  is_filled = true;
  const unsigned before = calls;
  ask_for_limit('l');
  base.take(grown_bytes);
  TARN_CHECK(calls != before, "no callback ran below the lowered limit");
  ask_for_limit('h');
  // The look that sees it comes after a small part of this.
  base.take(later_bytes / 4);
  const unsigned after = calls;
  base.take(later_bytes - later_bytes / 4);
  TARN_CHECK(calls == after, "%u callbacks ran below the raised limit", calls - after);
  return 0;
}

// Runs the program in the group, whose limit it changes on request. Returns its status.
int supervise(const memory_group& group, const char* self) {
  int requests[2];
  int answers[2];
  TARN_CHECK(pipe(requests) == 0 && pipe(answers) == 0, "no pipe");
  const pid_t child = fork();
  if (child == 0) {
    dup2(requests[1], 1);
    dup2(answers[0], 0);
    for (const int each : {requests[0], requests[1], answers[0], answers[1]}) close(each);
    if (!group.enter()) _exit(guarantee::not_checkable);
    execl(self, self, "grow", nullptr);
    _exit(1);
  }
  close(requests[1]);
  close(answers[0]);
  for (char which = 0; read(requests[0], &which, 1) == 1;) {
    TARN_CHECK(group.set_limit(which == 'l' ? low : high), "the limit cannot be changed");
    TARN_CHECK(write(answers[1], &which, 1) == 1, "the program does not read");
  }
  close(requests[0]);
  close(answers[1]);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1) return grow();
  if (!measurable) guarantee::skip("a sanitizer's own memory counts");
  unsetenv("TARN_LIMIT");
  const memory_group group(high);
  if (!group.exists()) guarantee::skip("no control group with a memory limit can be made");
  for (const std::size_t at_first : {high, memory_group::unlimited}) {
    TARN_CHECK(group.set_limit(at_first), "the limit cannot be changed");
    const int status = supervise(group, arguments[0]);
    if (WIFEXITED(status) && WEXITSTATUS(status) == guarantee::not_checkable)
      guarantee::skip("the group cannot be entered");
    TARN_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "with %s limit at first: status %#x",
               at_first == high ? "a high" : "no", status);
  }
  return 0;
}
