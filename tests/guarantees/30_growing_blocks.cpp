// SPDX-License-Identifier: MIT
// Guarantee 30: where each new large block is longer than the freed ones, freed blocks do not accumulate. With one live
// block that is replaced by ever longer ones, and with four of random lengths, the resident set peaks at 1.5 times the
// live bytes plus 32 MiB at most. Each pattern runs in a child process.
#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr double live_factor = 1.5;
constexpr size_t allowance = 32 * mib;

struct pattern {
  size_t live_blocks;
  size_t least;
  size_t longest;
  int steps;
  bool grows;
};

constexpr pattern patterns[] = {
    {1, 4 * mib, 8 * mib, 150, true},
    {1, 4 * mib, 40 * mib, 40, true},
    {4, 4 * mib, 16 * mib, 60, false},
};

size_t size_of_step(const pattern& of, int step, random_numbers& random) {
  const size_t range = of.longest - of.least;
  return of.least +
         (of.grows ? range / static_cast<size_t>(of.steps) * static_cast<size_t>(step) : random.below(range));
}

int replace_blocks(const pattern& of) {
  random_numbers random(30);
  void* blocks[4] = {};
  size_t sizes[4] = {};
  size_t live = 0;
  size_t most_live = 0;
  const size_t before = peak_rss_bytes();
  for (int step = 0; step < of.steps; ++step) {
    const size_t place = random.below(of.live_blocks);
    give(blocks[place]);
    live -= sizes[place];
    sizes[place] = size_of_step(of, step, random);
    blocks[place] = take(sizes[place]);
    TARN_CHECK(blocks[place] != nullptr, "malloc(%zu) fails", sizes[place]);
    memset(blocks[place], 1, sizes[place]);
    live += sizes[place];
    if (live > most_live) most_live = live;
  }
  const size_t peak = growth(before, peak_rss_bytes());
  const size_t allowed = static_cast<size_t>(live_factor * static_cast<double>(most_live)) + allowance;
  measured("%zu live blocks of %.0f to %.0f MiB: at most %.0f MiB live, peak + %.0f MiB", of.live_blocks,
           in_mib(of.least), in_mib(of.longest), in_mib(most_live), in_mib(peak));
  TARN_CHECK(peak <= allowed, "%zu live blocks of %.0f to %.0f MiB: %.0f MiB live, peak + %.0f MiB",
             of.live_blocks, in_mib(of.least), in_mib(of.longest), in_mib(most_live), in_mib(peak));
  return holds;
}

}  // namespace

int main() {
  start();
  need_own_memory_figures();
  for (const pattern& each : patterns) {
    expect_good(run_in_child(60, [&] { return replace_blocks(each); }), "blocks that are replaced");
  }
  return holds;
}
