// SPDX-License-Identifier: MIT
// Which memory of a process may hold the pointers that keep its blocks.
#include "profiler/collect/leak_look.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

mapping memory_at(std::uint64_t start, std::uint64_t end, const std::string& name = "") {
  mapping one{.start = start, .end = end, .name = name};
  one.readable = one.writable = true;
  one.resident_bytes = one.anonymous_bytes = static_cast<double>(end - start);
  return one;
}

// "start-end", and "!" after the allocator's own data
std::string roots(const std::vector<mapping>& mappings, const process_model& model = process_model({}),
                  const std::vector<std::uint64_t>& stack_pointers = {}, std::uint64_t allocator = 0) {
  std::vector<stopped_process::thread> threads;
  for (const std::uint64_t each : stack_pointers) threads.emplace_back().stack_pointer = each;
  std::string text;
  for (const root_range& each : roots_of(mappings, model, threads, allocator)) {
    char range[64];
    std::snprintf(range, sizeof range, "%lx-%lx%s ", static_cast<unsigned long>(each.start),
                  static_cast<unsigned long>(each.end), each.is_allocators ? "!" : "");
    text += range;
  }
  return text;
}

TEST(leak_look, memory_that_no_block_lies_in_is_a_root) {
  process_model model({});
  const std::uint32_t thread = model.begin_thread(1, 0);
  allocation_event block{.address = 0x2100, .size = 16, .node = model.node(0, 0x99)};
  model.allocated(thread, block);
  EXPECT_EQ(roots({memory_at(0x1000, 0x2000), memory_at(0x2000, 0x3000)}, model), "1000-2000 ");
}

TEST(leak_look, a_stack_is_a_root_from_128_bytes_below_its_pointer) {
  const std::vector<mapping> mappings = {memory_at(0x1000, 0x2000), memory_at(0x5000, 0x9000, "[stack]")};
  EXPECT_EQ(roots(mappings, process_model({}), {0x8000}), "7f80-9000 1000-2000 ");
  EXPECT_EQ(roots(mappings, process_model({}), {0x5010}), "5000-9000 1000-2000 ");
  EXPECT_EQ(roots(mappings, process_model({}), {0x20000}), "1000-2000 ")
      << "no stack, and no root, lies there";
  EXPECT_EQ(roots(mappings, process_model({}), {0x1800}), "1780-2000 ") << "not once more as a whole";
}

TEST(leak_look, what_cannot_be_read_or_is_not_in_memory_is_no_root) {
  mapping guard = memory_at(0x1000, 0x2000);
  guard.readable = false;
  mapping untouched = memory_at(0x2000, 0x3000);
  untouched.resident_bytes = untouched.anonymous_bytes = 0;
  EXPECT_EQ(roots({guard, untouched}), "");
}

TEST(leak_look, static_data_is_a_root_where_it_was_written_to) {
  const mapping data = memory_at(0x1000, 0x2000, "/bin/p");
  mapping code = memory_at(0x3000, 0x4000, "/bin/p");
  code.anonymous_bytes = 0;
  mapping shared = memory_at(0x5000, 0x6000, "/tmp/table");
  shared.shared = true;
  mapping looked_at = shared;
  looked_at.writable = false;
  EXPECT_EQ(roots({data}), "1000-2000 ");
  EXPECT_EQ(roots({code}), "");
  EXPECT_NE(roots({shared}), "");
  EXPECT_EQ(roots({looked_at}), "");
}

TEST(leak_look, the_data_of_mallocs_own_file_is_marked) {
  EXPECT_EQ(roots({memory_at(0x1000, 0x2000, "/bin/p"), memory_at(0x3000, 0x4000, "/lib/libc.so.6"),
                   memory_at(0x4000, 0x5000, "/lib/libc.so.6")},
                  process_model({}), {}, 0x3800),
            "1000-2000 3000-4000! 4000-5000! ");
}

TEST(leak_look, the_memory_of_the_recorder_is_no_root) {
  EXPECT_EQ(roots({memory_at(0x1000, 0x2000, "/memfd:tarn-process (deleted)")}), "");
}

}  // namespace
}  // namespace tarn::profiler
