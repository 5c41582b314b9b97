// SPDX-License-Identifier: MIT
// A program that uses a buffer pool and a recycler enters a sandbox that allows only what libc's malloc needs, and then
// uses both for longer than the interval at which the engine looks at the process's memory limits. The pool and the
// recycler exist before the sandbox, or are made in it. The filter ends the process at any other call, such as openat.
#include <linux/futex.h>

#include <cstring>
#include <vector>

#include "../guarantees/sandbox.hpp"
#include "program.hpp"
#include "tarn/buffer_pool.hpp"
#include "tarn/recycler.hpp"

namespace {

using namespace guarantee;

constexpr long allowed[] = {SYS_mmap,  SYS_munmap, SYS_mremap, SYS_mprotect,   SYS_madvise,     SYS_brk,
                            SYS_futex, SYS_write,  SYS_exit,   SYS_exit_group, SYS_rt_sigreturn};
constexpr long looks_ms = 1000;  // the engine looks at the limits at most this often

// Sleeps by a call that the sandbox allows.
void rest(long milliseconds) {
  unsigned word = 0;
  const timespec limit{milliseconds / 1000, milliseconds % 1000 * 1000000};
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &limit);
}

struct parser {
  std::vector<char> text = std::vector<char>(1000);
  void reset() { text.clear(); }
};

void use(tarn::buffer_pool& buffers, tarn::recycler<parser>& parsers) {
  for (int i = 0; i < 100; ++i) {
    tarn::buffer one = buffers.get(static_cast<std::size_t>(i + 1) * 100000);
    memset(one.data(), i, 100000);
    auto object = parsers.get();
    object->text.push_back('x');
  }
}

int inside(bool made_before) {
  tarn::buffer_pool* buffers = made_before ? new tarn::buffer_pool : nullptr;
  auto* parsers = made_before ? new tarn::recycler<parser> : nullptr;
  if (made_before) use(*buffers, *parsers);
  close_sandbox(allowed, sandbox_call::prctl_call);
  if (!made_before) buffers = new tarn::buffer_pool;
  if (!made_before) parsers = new tarn::recycler<parser>;
  for (int round = 0; round < 6; ++round) {
    use(*buffers, *parsers);
    rest(looks_ms / 2);
  }
  return holds;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2) _exit(inside(strcmp(arguments[1], "before") == 0));
  start();
  setenv("TARN_DECAY_MS", "40", 1);
  const char* const clock = let_sandboxes_read_clock();
  for (const char* made : {"before", "inside"}) expect_good(run_again(60, made), made);
  measured("no system call beyond %zu allowed ones%s", sizeof allowed / sizeof *allowed, clock);
}
