// SPDX-License-Identifier: MIT
// Guarantee 46: at default options, a program that misuses every block of a size ends within 100,000 allocations of that
// size with a report that names the misuse: in each of 10 processes, for an overflow, an underflow and a use after free,
// of several sizes. A program without misuse goes on.
#include "check.hpp"

using namespace guarantee;

namespace {

constexpr int allocations = 100'000;
constexpr int processes = 10;

enum class misuse { none, overflow, underflow, use_after_free };

struct planted {
  const char* name;
  misuse what;
  size_t distance;
};

constexpr planted all[] = {
    {"overflow", misuse::overflow, 1},
    {"overflow", misuse::overflow, 8},
    {"overflow", misuse::overflow, 16},
    {"overflow", misuse::overflow, 64},
    {"overflow", misuse::overflow, 4096},
    {"underflow", misuse::underflow, 1},
    {"underflow", misuse::underflow, 16},
    {"underflow", misuse::underflow, 4096},
    {"use after free", misuse::use_after_free, 0},
};
constexpr size_t sizes[] = {8, 24, 64, 100, 1000, 4096, 10000};

// Writes to a byte, and later writes what was there before, so that blocks that are not guarded come to no harm. Of an
// overflow the first write lasts until the block is freed.
int misuse_every_block(const planted& plan, size_t size) {
  for (int i = 0; i < allocations; ++i) {
    auto* const block = static_cast<char*>(malloc(size));
    memset(block, 1, size);
    volatile char* const at = plan.what == misuse::underflow  ? block - plan.distance
                              : plan.what == misuse::overflow ? block + size - 1 + plan.distance
                                                              : block + size / 2;
    if (plan.what == misuse::none || plan.what == misuse::use_after_free) free(block);
    if (plan.what == misuse::none) continue;
    const char before = *at;
    *at = static_cast<char>(before ^ 0x55);
    if (plan.what != misuse::use_after_free) free(block);
    *at = before;
  }
  return holds;
}

void expect_report(const planted& plan, size_t size) {
  int ends[2];
  TARN_CHECK(pipe(ends) == 0, "pipe failed");
  const child_result result = run_in_child(60, [&] {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(ends[1], 2);
    return misuse_every_block(plan, size);
  });
  close(ends[1]);
  char text[8192];
  const ssize_t got = read(ends[0], text, sizeof text - 1);
  text[got > 0 ? got : 0] = '\0';
  close(ends[0]);
  if (plan.what == misuse::none) {
    TARN_CHECK(result.good() && got <= 0, "blocks of %zu bytes without misuse: signal %d, %s", size,
               result.signal, text);
    return;
  }
  TARN_CHECK(!result.exited, "%s of %zu bytes, blocks of %zu: not found in %d allocations", plan.name,
             plan.distance, size, allocations);
  TARN_CHECK(result.signal == SIGSEGV || result.signal == SIGABRT, "%s: signal %d", plan.name, result.signal);
  const bool named = strncmp(text, "tarn: ", 6) == 0 && strncmp(text + 6, plan.name, strlen(plan.name)) == 0;
  TARN_CHECK(named, "%s of %zu bytes, blocks of %zu: the report is %.200s", plan.name, plan.distance, size,
             text);
  TARN_CHECK(strstr(text, "\ntarn: allocated by thread ") != nullptr, "%s: no stack: %s", plan.name, text);
}

}  // namespace

int main() {
  start();
  // The heap's first pages: what lies before them faults by itself.
  for (int i = 0; i < 8; ++i) static_cast<void>(malloc(2000));
  int cases = 0;
  for (const size_t size : sizes) {
    expect_report({"no misuse", misuse::none, 0}, size);
    for (const planted& plan : all) {
      // Ten of each: the smallest misuse of each kind; two of the others.
      const bool smallest = plan.distance <= 1;
      for (int i = 0; i < (smallest || long_run() ? processes : 2); ++i) expect_report(plan, size);
      ++cases;
    }
  }
  measured("%d of %d cases found in %d allocations, in each of %d processes", cases, cases, allocations,
           processes);
}
