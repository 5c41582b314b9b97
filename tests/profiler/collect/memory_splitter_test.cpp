// SPDX-License-Identifier: MIT
// memory_splitter: the pieces of mappings, and that the parts of a row add up.
#include "profiler/collect/memory_splitter.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "../../unit/broken_invariant.hpp"

namespace tarn::profiler {
namespace {

mapping anonymous(std::uint64_t start, std::uint64_t end) {
  mapping out;
  out.start = start;
  out.end = end;
  out.writable = true;
  out.resident_bytes = static_cast<double>(end - start);
  return out;
}

struct expected_piece {
  std::uint64_t start;
  std::uint64_t end;
  memory_use use;
};

void expect_pieces(const std::vector<memory_piece>& pieces, const std::vector<expected_piece>& expected) {
  ASSERT_EQ(pieces.size(), expected.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(pieces[i].start, expected[i].start) << i;
    EXPECT_EQ(pieces[i].end, expected[i].end) << i;
    EXPECT_EQ(pieces[i].use, expected[i].use) << i;
  }
}

class memory_splitter_test : public testing::Test {
 protected:
  process_model model_{model_settings{}};
  const std::uint32_t thread_ = model_.begin_thread(1, 0);
  const std::uint32_t node_ = model_.node(0, 0x1000);
};

TEST_F(memory_splitter_test, a_mapping_is_cut_at_mmap_calls_and_stacks_within_it) {
  model_.mapped(thread_, 1, 0x12000, 0x1000, node_);
  model_.thread_stack(0x14000, 0x16000);
  expect_pieces(pieces_of({anonymous(0x10000, 0x18000)}, model_, {}),
                {{0x10000, 0x12000, memory_use::other},
                 {0x12000, 0x13000, memory_use::mapped},
                 {0x13000, 0x14000, memory_use::other},
                 {0x14000, 0x16000, memory_use::stack},
                 {0x16000, 0x18000, memory_use::other}});
}

TEST_F(memory_splitter_test, what_covers_a_mapping_leaves_nothing_of_it) {
  model_.mapped(thread_, 1, 0x0f000, 0x20000, node_);
  expect_pieces(pieces_of({anonymous(0x10000, 0x18000), anonymous(0x1a000, 0x1b000)}, model_, {}),
                {{0x10000, 0x18000, memory_use::mapped}, {0x1a000, 0x1b000, memory_use::mapped}});
}

TEST_F(memory_splitter_test, pieces_with_earlier_blocks_are_malloc_s) {
  model_.mapped(thread_, 1, 0x12000, 0x1000, node_);
  expect_pieces(pieces_of({anonymous(0x10000, 0x14000)}, model_, {0x10100, 0x12100, 0x50000}),
                {{0x10000, 0x12000, memory_use::heap},
                 {0x12000, 0x13000, memory_use::mapped},
                 {0x13000, 0x14000, memory_use::other}});
}

TEST_F(memory_splitter_test, the_piece_that_holds_an_address) {
  std::vector<memory_piece> pieces =
      pieces_of({anonymous(0x10000, 0x12000), anonymous(0x13000, 0x14000)}, model_, {});
  EXPECT_EQ(piece_at(pieces, 0xffff), nullptr);
  EXPECT_EQ(piece_at(pieces, 0x10000), &pieces[0]);
  EXPECT_EQ(piece_at(pieces, 0x11fff), &pieces[0]);
  EXPECT_EQ(piece_at(pieces, 0x12000), nullptr);
  EXPECT_EQ(piece_at(pieces, 0x13fff), &pieces[1]);
  EXPECT_EQ(piece_at(pieces, 0x14000), nullptr);
  std::vector<memory_piece> none;
  EXPECT_EQ(piece_at(none, 0x10000), nullptr);
}

TEST_F(memory_splitter_test, a_row_of_this_process_has_all_of_its_memory) {
  memory_splitter splitter;
  if (!splitter.take(static_cast<std::uint32_t>(getpid()), model_, 5))
    GTEST_SKIP() << "the maps cannot be read";
  const memory_history all = splitter.history();
  ASSERT_EQ(all.rows.size(), 1U);
  EXPECT_EQ(all.rows[0].time_ns, 5U);
  EXPECT_GT(all.rows[0].files, 0);
  EXPECT_GT(all.rows[0].stacks, 0);
  EXPECT_NEAR(all.rows[0].sum(), all.rows[0].resident_bytes, all.rows[0].resident_bytes / 2);
}

TEST_F(memory_splitter_test, a_process_that_has_ended_gives_no_row) {
  memory_splitter splitter;
  EXPECT_FALSE(splitter.take(0x7fffffff, model_, 5));
  EXPECT_TRUE(splitter.history().rows.empty());
}

TEST_F(memory_splitter_test, finds_a_broken_invariant) {
  const std::vector<mapping> mappings = {anonymous(0x10000, 0x12000), anonymous(0x20000, 0x21000)};
  memory_row row;
  row.kept = 0x1000;
  row.files = 0x2000;
  validate(row, mappings);
  row.other = 1;
  EXPECT_BROKEN(validate(row, mappings), "memory_splitter",
                "std::abs(row.sum() - resident) <= 1e-9 * (1 + resident)", &row);
}

}  // namespace
}  // namespace tarn::profiler
