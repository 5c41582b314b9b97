// SPDX-License-Identifier: MIT
// arena_core: its invariants after each of many random steps. A public header cannot check them itself: the message is
// the engine's.
#include "tarn/detail/arena_core.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "broken_invariant.hpp"
#include "os/invariant.hpp"

namespace tarn::detail {
namespace {

void validate(const arena_core& core) {
  std::size_t used = 0;
  std::size_t spare = 0;
  const arena_block* oldest = nullptr;
  for (const arena_block* b = core.block; b != nullptr; oldest = b, b = b->below) used += b->bytes;
  for (const arena_block* b = core.spare; b != nullptr; b = b->below) spare += b->bytes;
  const char* const begin = core.block != nullptr ? core.block->begin() : no_block;
  const char* const end = core.block != nullptr ? core.block->end() : no_block;
  TARN_INVARIANT("arena_core", &core, core.begin == begin);
  TARN_INVARIANT("arena_core", &core, reinterpret_cast<std::uintptr_t>(core.begin) % block_alignment == 0);
  TARN_INVARIANT("arena_core", &core, core.begin <= core.cursor && core.cursor <= end);
  TARN_INVARIANT("arena_core", &core, core.buffer == nullptr || oldest == core.buffer);
  TARN_INVARIANT("arena_core", &core, core.spare_bytes == spare);
  TARN_INVARIANT("arena_core", &core, core.reserved == used + core.spare_bytes + core.large_bytes);
}

TEST(arena_core, keeps_its_invariants) {
  alignas(block_alignment) static char buffer[20000];
  for (const std::size_t buffer_bytes : {std::size_t{0}, sizeof buffer}) {
    arena_core core;
    validate(core);
    if (buffer_bytes != 0) core.adopt_buffer(buffer + 1, buffer_bytes - 1);
    std::mt19937_64 random(7);
    std::vector<arena_marker> markers;
    for (int step = 0; step < 20000; ++step) {
      const std::uint64_t what = random() % 100;
      if (what < 80) {
        const std::size_t bytes = random() % 50 == 0 ? random() % (2 * large_request) : random() % 3000;
        void* const memory = core.allocate(bytes, std::size_t{1} << random() % 9);
        ASSERT_NE(memory, nullptr);
        if (what < 10 && bytes < 3000) core.take_back(memory, bytes);
      } else if (what < 90) {
        markers.push_back(core.mark());
      } else if (what < 96 && !markers.empty()) {
        markers.resize(random() % markers.size() + 1);
        core.rewind(markers.back());
      } else if (what == 96) {
        ASSERT_TRUE(core.reserve(random() % 100000));
      } else if (what == 99) {
        markers.clear();
        random() % 4 != 0 ? core.reset() : core.release();
      }
      validate(core);
    }
    core.end();
    validate(core);
  }
}

TEST(arena_core, finds_a_broken_invariant) {
  arena_core core;
  ASSERT_NE(core.allocate(100, 8), nullptr);
  validate(core);
  const auto expect_broken = [&core](const std::string& equation, const arena_core& broken) {
    EXPECT_TARN_ABORT(validate(broken),
                      testing_support::literally("broken invariant of arena_core: " + equation), &broken);
    validate(core);
  };
  arena_core broken = core;
  broken.cursor = broken.begin - 1;
  expect_broken("core.begin <= core.cursor && core.cursor <= end", broken);
  broken = core;
  ++broken.reserved;
  expect_broken("core.reserved == used + core.spare_bytes + core.large_bytes", broken);
  broken = core;
  ++broken.spare_bytes;
  expect_broken("core.spare_bytes == spare", broken);
  broken = core;
  arena_block buffer{};
  broken.buffer = &buffer;
  expect_broken("core.buffer == nullptr || oldest == core.buffer", broken);
  broken = core;
  broken.begin += block_alignment;
  expect_broken("core.begin == begin", broken);
  core.end();
}

}  // namespace
}  // namespace tarn::detail
