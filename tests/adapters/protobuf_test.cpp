// SPDX-License-Identifier: MIT
// protobuf_arena: messages on arenas whose blocks come from the store, and the size of the first block.
#include "tarn/adapters/protobuf.hpp"

#include <google/protobuf/struct.pb.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace {

using google::protobuf::Arena;
using google::protobuf::ListValue;

// A message of about `numbers` times 32 bytes.
ListValue* make_list(Arena* arena, int numbers) {
  auto* const list = Arena::CreateMessage<ListValue>(arena);
  for (int i = 0; i < numbers; ++i) list->add_values()->set_number_value(i);
  return list;
}
double sum_of(const ListValue& list) {
  double sum = 0;
  for (const auto& value : list.values()) sum += value.number_value();
  return sum;
}

TEST(protobuf_arena, messages_lie_in_its_blocks) {
  const auto before = tarn::protobuf_blocks::stats().live_blocks;
  {
    tarn::protobuf_arena arena;
    EXPECT_EQ(sum_of(*make_list(arena.get(), 1000)), 499500);
    EXPECT_GT(tarn::protobuf_blocks::stats().live_blocks, before);
    EXPECT_GT(arena->SpaceUsed(), 30000U);
  }
  EXPECT_EQ(tarn::protobuf_blocks::stats().live_blocks, before);
}

TEST(protobuf_arena, the_first_block_becomes_as_large_as_arenas_need) {
  struct kind {};
  using arena_of_kind = tarn::basic_protobuf_arena<kind>;
  EXPECT_EQ(arena_of_kind::first_block_bytes(), 256U);
  for (int request = 0; request < 50; ++request) {
    arena_of_kind arena;
    make_list(arena.get(), 1000);
  }
  const std::size_t first = arena_of_kind::first_block_bytes();
  EXPECT_GT(first, 30000U);
  EXPECT_LT(first, 200000U);
  const auto before = tarn::protobuf_blocks::stats().live_blocks;
  {
    arena_of_kind arena;
    make_list(arena.get(), 1000);
    EXPECT_EQ(tarn::protobuf_blocks::stats().live_blocks, before + 1) << "one block is enough";
  }
  for (int request = 0; request < 3000; ++request) arena_of_kind arena;
  EXPECT_LT(arena_of_kind::first_block_bytes(), 1000U) << "the size follows the load";
}

TEST(protobuf_arena, reset_and_threads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      tarn::protobuf_arena arena;
      for (int request = 0; request < 300; ++request) {
        EXPECT_EQ(sum_of(*make_list(arena.get(), t * 100 + 1)), (t * 100) * (t * 100 + 1) / 2.0);
        arena.reset();
      }
    });
  }
  for (std::thread& each : threads) each.join();
}

TEST(protobuf_arena, one_arena_of_several_threads) {
  const auto before = tarn::protobuf_blocks::stats().live_blocks;
  {
    tarn::protobuf_arena arena;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&arena] { EXPECT_EQ(sum_of(*make_list(arena.get(), 5000)), 12497500); });
    for (std::thread& each : threads) each.join();
  }
  EXPECT_EQ(tarn::protobuf_blocks::stats().live_blocks, before);
  tarn::protobuf_blocks::trim();
}

TEST(arena_size_history, six_of_ten) {
  tarn::arena_size_history history;
  EXPECT_EQ(history.usual_bytes(), 256U);
  for (int i = 0; i < 60; ++i) history.note(1000);
  for (int i = 0; i < 40; ++i) history.note(100000);
  EXPECT_EQ(history.usual_bytes(), 1024U);
  for (int i = 0; i < 40; ++i) history.note(100000);
  EXPECT_EQ(history.usual_bytes(), 114688U);
  for (int i = 0; i < 1000; ++i) history.note(std::size_t{1} << 40U);
  EXPECT_EQ(history.usual_bytes(), tarn::arena_size_history::largest);
}

TEST(protobuf_blocks, misuse_ends_the_process) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  int local = 0;
  EXPECT_DEATH(tarn::protobuf_blocks::deallocate(&local, 256), "tarn: .*buffer");
}

}  // namespace
