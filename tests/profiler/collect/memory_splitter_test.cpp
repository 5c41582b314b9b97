// SPDX-License-Identifier: MIT
// Memory without a file, cut into the pieces whose origin is known; the split of this process's own memory.
#include "profiler/collect/memory_splitter.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "../../unit/broken_invariant.hpp"

namespace tarn::profiler {
namespace {

mapping without_file(std::uint64_t start, std::uint64_t end, const std::string& name = "") {
  mapping one{.start = start, .end = end, .name = name};
  one.readable = one.writable = true;
  return one;
}

// "start-end use", one after the other
std::string pieces(const std::vector<mapping>& mappings, const process_model& model = process_model({}),
                   const std::set<std::uint64_t>& anchors = {}) {
  constexpr const char* uses[] = {"other", "heap", "mapped", "stack", "written", "recorder"};
  std::string text;
  for (const memory_piece& each : pieces_of(mappings, model, anchors)) {
    char range[64];
    std::snprintf(range, sizeof range, "%lx-%lx %s; ", static_cast<unsigned long>(each.start),
                  static_cast<unsigned long>(each.end), uses[static_cast<std::size_t>(each.use)]);
    text += range;
  }
  return text;
}

TEST(memory_splitter, uses_are_known_by_the_kernels_names) {
  mapping shared = without_file(0x7000, 0x8000);
  shared.shared = true;
  mapping hidden = without_file(0x8000, 0x9000);
  hidden.undumped = true;
  EXPECT_EQ(pieces({without_file(0x1000, 0x2000, "[heap]"), without_file(0x2000, 0x3000, "[stack]"),
                    without_file(0x3000, 0x4000, "[anon:glibc: malloc arena]"), without_file(0x4000, 0x5000),
                    without_file(0x5000, 0x6000, "[vdso]"), without_file(0x6000, 0x7000, "/lib/a.so"), shared,
                    hidden}),
            "1000-2000 heap; 2000-3000 stack; 3000-4000 heap; 4000-5000 other; 8000-9000 recorder; ");
}

TEST(memory_splitter, what_follows_a_files_data_is_its_bss) {
  const std::vector<mapping> mappings = {without_file(0, 0x1000, "/bin/p"),
                                         without_file(0x1000, 0x2000, "/bin/p"), without_file(0x2000, 0x3000),
                                         without_file(0x4000, 0x5000)};
  EXPECT_EQ(pieces(mappings), "2000-3000 written; 4000-5000 other; ");
  EXPECT_EQ(pieces_of(mappings, process_model({}), {})[0].name, "/bin/p");
}

TEST(memory_splitter, mappings_are_cut_where_the_program_has_mapped_and_at_the_ends_of_its_stacks) {
  process_model model({});
  const std::uint32_t thread = model.begin_thread(1, 0);
  model.mapped(thread, 1, 0x2000, 0x1000, model.node(0, 0x99));
  model.thread_stack(0x5000);
  model.thread_stack(0x7000);
  model.thread_stack(0x7800);
  EXPECT_EQ(
      pieces({without_file(0x1000, 0x6000), without_file(0x6000, 0x8000)}, model),
      "1000-2000 other; 2000-3000 mapped; 3000-5000 stack; 5000-6000 other; 6000-7000 stack; 7000-7800 stack; "
      "7800-8000 other; ");
}

TEST(memory_splitter, a_piece_with_a_block_is_mallocs) {
  const std::vector<mapping> mappings = {without_file(0x1000, 0x2000), without_file(0x3000, 0x4000)};
  EXPECT_EQ(pieces(mappings, process_model({}), {0x1800, 0x2000, 0x9000}),
            "1000-2000 heap; 3000-4000 other; ");
  std::vector<memory_piece> all = pieces_of(mappings, process_model({}), {});
  EXPECT_EQ(piece_at(all, 0xfff), nullptr);
  EXPECT_EQ(piece_at(all, 0x1fff), &all[0]);
  EXPECT_EQ(piece_at(all, 0x2000), nullptr);
  EXPECT_EQ(piece_at(all, 0x3000), &all[1]);
}

TEST(memory_splitter, the_parts_of_a_row_are_all_resident_memory) {
  memory_splitter splitter;
  EXPECT_TRUE(splitter.history().rows.empty());
  ASSERT_TRUE(splitter.take(static_cast<std::uint32_t>(getpid()), process_model({}), 5, [] {}));
  const memory_history history = splitter.history();
  ASSERT_EQ(history.rows.size(), 1U);
  const memory_row& row = history.rows[0];
  EXPECT_EQ(row.time_ns, 5U);
  EXPECT_EQ(row.live, 0) << "the model knows no block";
  EXPECT_GT(row.files, 0);
  EXPECT_GT(row.stacks, 0);
  EXPECT_NEAR(row.sum(), row.resident_bytes, 0.1 * row.resident_bytes);
  EXPECT_FALSE(splitter.take(0x7ffffffe, process_model({}), 6, [] {})) << "no such process";
  EXPECT_EQ(splitter.history().rows.size(), 1U);
}

// A program tells of its blocks while its memory is split, and does not wait for the end of that.
TEST(memory_splitter, the_model_may_change_meanwhile) {
  process_model model({});
  const std::uint32_t thread = model.begin_thread(1, 0);
  constexpr std::uint64_t blocks = 100000;
  std::vector<char> heap(blocks * 32, 1);
  const auto start = reinterpret_cast<std::uint64_t>(heap.data());
  const auto add = [&](std::uint64_t number) {
    model.allocated(thread, {.time_ns = number,
                             .address = start + 16 * number,
                             .size = 16,
                             .node = model.node(0, 100 + number % 7)});
  };
  for (std::uint64_t number = 0; number < blocks; ++number) add(number);
  memory_splitter splitter;
  std::uint64_t calls = 0;
  ASSERT_TRUE(splitter.take(static_cast<std::uint32_t>(getpid()), model, 5, [&] {
    model.freed(thread, {.time_ns = blocks + calls, .address = start + 16 * calls});
    add(blocks + calls++);
  }));
  EXPECT_GT(calls, 3 * blocks / 1024) << "once for a part of the blocks in each step";
  const memory_history history = splitter.history();
  EXPECT_NEAR(history.rows[0].live, 16.0 * blocks, 0.01 * 16 * blocks);
}

TEST(memory_splitter, what_covers_a_mapping_leaves_nothing_of_it) {
  process_model model({});
  const std::uint32_t thread = model.begin_thread(1, 0);
  model.mapped(thread, 1, 0x0f000, 0x20000, model.node(0, 0x99));
  EXPECT_EQ(pieces({without_file(0x10000, 0x18000), without_file(0x1a000, 0x1b000)}, model),
            "10000-18000 mapped; 1a000-1b000 mapped; ");
}

TEST(memory_splitter, finds_a_broken_invariant) {
  std::vector<mapping> mappings = {without_file(0x10000, 0x12000), without_file(0x20000, 0x21000)};
  for (mapping& each : mappings) each.resident_bytes = static_cast<double>(each.end - each.start);
  memory_row row{.kept = 0x1000, .files = 0x2000};
  validate(row, mappings);
  row.other = 1;
  EXPECT_BROKEN(validate(row, mappings), "memory_splitter",
                "std::abs(row.sum() - resident) <= 1e-9 * (1 + resident)", &row);
}

}  // namespace
}  // namespace tarn::profiler
