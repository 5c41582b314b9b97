// SPDX-License-Identifier: MIT
// Damaged and malformed files: the reader and the loader end with profile_error or with what could be read. All indexes
// of the result are valid.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"
#include "tests/profiler/mutate.hpp"
#include "tests/profiler/scratch_file.hpp"
#include "tests/profiler/synthetic_profile.hpp"

namespace tarn::profiler {
namespace {

// Follows every index as views do; returns a sum, so that the compiler removes no access.
double walk(const profile& p) {
  double sum = cost_of_all(p).total();
  for (const site& one : p.sites) {
    sum += static_cast<double>(frames_of(p, one.stack).size()) + one.figures.bytes;
    for (const thread_pair& pair : one.threads) sum += static_cast<double>(p.threads.at(pair.from).id);
    for (const thread_pair& pair : one.threads) sum += static_cast<double>(p.threads.at(pair.to).id);
    for (const lifetime_count& each : one.lifetimes)
      sum += static_cast<double>(std::uint64_t{1} << each.lifetime);
  }
  for (std::size_t node = 1; node < p.stacks.size(); ++node) {
    EXPECT_LT(p.stacks[node].parent, node);
  }
  return sum;
}

struct tally {
  int loaded = 0;
  int partial = 0;
  int refused = 0;

  void load(const std::string& path) {
    try {
      const profile p = load_profile(path);
      EXPECT_FALSE(std::isnan(walk(p)));
      p.damage.empty() ? ++loaded : ++partial;
    } catch (const profile_error& error) {
      EXPECT_GT(std::string(error.what()).size(), 20U);
      ++refused;
    }
    EXPECT_NO_THROW({
      try {
        read_tables(path, [](table&&) {});
      } catch (const profile_error&) {
      }
    });
  }
};

std::vector<std::uint8_t> small_file() {
  scratch_file file;
  synthetic_options options{.sites = 30, .seconds = 5};
  write_synthetic_profile(file.path(), options, 300);
  return file.contents();
}

// Runs rounds 0, 1, … for `seconds`, but at most `most`; returns how many. Each machine runs a prefix of the same
// sequence.
template <class Round>
int repeat(double seconds, int most, Round round) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int rounds = 0;
  while (rounds < most && std::chrono::steady_clock::now() < end) round(rounds++);
  return rounds;
}

TEST(fuzz, damaged_files) {
  const auto whole = small_file();
  scratch_file file;
  tally seen;
  mutator random(42);
  const int rounds = repeat(4, 5000, [&](int) {
    auto bytes = whole;
    random.mutate(bytes);
    file.set(bytes);
    seen.load(file.path());
  });
  EXPECT_EQ(seen.loaded + seen.partial + seen.refused, rounds);
  EXPECT_GT(seen.partial + seen.refused, rounds / 2);
}

// Changes chunks and gives them correct checksums, so that the CRC does not reject them.
TEST(fuzz, malformed_payloads) {
  const auto chunks = take_apart(small_file());
  scratch_file file;
  tally seen;
  mutator random(43);
  const int rounds = repeat(8, 10000, [&](int) {
    auto changed = chunks;
    for (std::uint64_t count = 1 + random.below(3); count != 0; --count) {
      plain_chunk& one = changed[random.below(changed.size())];
      switch (random.below(8)) {
        case 0: one.rows = static_cast<std::uint32_t>(random.below(std::uint64_t{1} << 32)); break;
        case 1: one.flags ^= static_cast<std::uint8_t>(1U << random.below(3)); break;
        case 2: one.name = changed[random.below(changed.size())].name; break;
        case 3:
          changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(random.below(changed.size())));
          break;
        default: random.mutate(one.payload); break;
      }
      if (changed.empty()) break;
    }
    file.set(put_together(changed));
    seen.load(file.path());
  });
  EXPECT_EQ(seen.loaded + seen.partial + seen.refused, rounds);
  EXPECT_GT(seen.loaded, 0);
  EXPECT_GT(seen.partial, 0);
}

}  // namespace
}  // namespace tarn::profiler
