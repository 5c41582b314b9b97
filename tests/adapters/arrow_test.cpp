// SPDX-License-Identifier: MIT
// arrow_pool: what arrow::MemoryPool promises, Arrow's builders and functions with it, limits and bad input.
#include "tarn/adapters/arrow.hpp"

#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace {

void initialize_compute() {
#if ARROW_VERSION_MAJOR >= 21
  static const bool done = arrow::compute::Initialize().ok();
  ASSERT_TRUE(done);
#endif
}

class arrow_pools : public testing::TestWithParam<bool> {
 protected:
  tarn::buffer_pool buffers_{{.name = "columns"}};
  tarn::arrow_pool memory_{{.large = GetParam() ? &buffers_ : nullptr}};
};

TEST_P(arrow_pools, blocks_are_aligned_and_counted) {
  std::int64_t bytes = 0;
  std::int64_t count = 0;
  std::vector<std::pair<std::uint8_t*, std::int64_t>> live;
  for (const std::int64_t alignment : {64, 128, 4096}) {
    for (const std::int64_t size : {0, 1, 63, 64, 1000, 65535, 65536, 262144, 262145, 5000000}) {
      std::uint8_t* block = nullptr;
      ASSERT_TRUE(memory_.Allocate(size, alignment, &block).ok());
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % static_cast<std::uintptr_t>(alignment), 0U);
      std::memset(block, 7, static_cast<std::size_t>(size));
      bytes += size;
      ++count;
      EXPECT_EQ(memory_.bytes_allocated(), bytes);
      EXPECT_EQ(memory_.num_allocations(), count);
      live.emplace_back(block, size);
      if (live.size() % 10 != 0) continue;
      for (const auto& [each, length] : live) memory_.Free(each, length, alignment);
      live.clear();
      EXPECT_EQ(memory_.max_memory(), bytes);
      EXPECT_EQ(memory_.bytes_allocated(), 0);
      EXPECT_EQ(memory_.total_bytes_allocated(), bytes * (count / 10));
      bytes = 0;
    }
  }
  EXPECT_EQ(memory_.backend_name(), "tarn");
  memory_.ReleaseUnused();
  EXPECT_EQ(buffers_.stats().live, 0U);
}

TEST_P(arrow_pools, reallocation_keeps_the_content_and_the_alignment) {
  std::mt19937 random(1);
  std::uint8_t* block = nullptr;
  std::int64_t size = 0;
  ASSERT_TRUE(memory_.Allocate(size, 64, &block).ok());
  for (int i = 0; i < 300; ++i) {
    const auto next = static_cast<std::int64_t>(random() % (std::uint32_t{1} << (5 + random() % 18)));
    ASSERT_TRUE(memory_.Reallocate(size, next, 64, &block).ok());
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U);
    const std::int64_t kept = size < next ? size : next;
    for (std::int64_t at = 0; at < kept; at += 61) ASSERT_EQ(block[at], static_cast<std::uint8_t>(at * 31));
    for (std::int64_t at = 0; at < next; ++at) block[at] = static_cast<std::uint8_t>(at * 31);
    size = next;
    ASSERT_EQ(memory_.bytes_allocated(), size);
  }
  memory_.Free(block, size, 64);
  EXPECT_EQ(memory_.bytes_allocated(), 0);
}

TEST_P(arrow_pools, bad_input_changes_nothing) {
  std::uint8_t* block = nullptr;
  EXPECT_TRUE(memory_.Allocate(-1, 64, &block).IsInvalid());
  EXPECT_TRUE(memory_.Allocate(100, 48, &block).IsInvalid());
  EXPECT_TRUE(memory_.Allocate(100, 0, &block).IsInvalid());
  EXPECT_TRUE(memory_.Allocate(INT64_MAX, 64, &block).IsOutOfMemory());
  EXPECT_EQ(block, nullptr);
  ASSERT_TRUE(memory_.Allocate(100, 64, &block).ok());
  std::uint8_t* const before = block;
  std::memset(block, 3, 100);
  EXPECT_TRUE(memory_.Reallocate(100, -5, 64, &block).IsInvalid());
  EXPECT_TRUE(memory_.Reallocate(100, INT64_MAX / 2, 64, &block).IsOutOfMemory());
  EXPECT_EQ(block, before);
  EXPECT_EQ(block[99], 3);
  EXPECT_EQ(memory_.bytes_allocated(), 100);
  memory_.Free(block, 100, 64);
}

TEST_P(arrow_pools, columns_are_computed_in_it) {
  initialize_compute();
  arrow::Int64Builder builder(&memory_);
  for (std::int64_t i = 0; i < 300000; ++i) ASSERT_TRUE(builder.Append(i).ok());
  std::shared_ptr<arrow::Array> column = builder.Finish().ValueOrDie();
  EXPECT_GE(memory_.bytes_allocated(), 2400000);
  arrow::compute::ExecContext context(&memory_);
  const std::int64_t before = memory_.num_allocations();
  const auto doubled = arrow::compute::CallFunction("add", {column, column}, &context).ValueOrDie();
  EXPECT_GT(memory_.num_allocations(), before);
  const auto sum = arrow::compute::CallFunction("sum", {doubled}, &context).ValueOrDie();
  EXPECT_EQ(sum.scalar_as<arrow::Int64Scalar>().value, std::int64_t{299999} * 300000);
  EXPECT_EQ(buffers_.stats().live > 0, GetParam());
}

TEST_P(arrow_pools, nothing_is_left_and_threads_may_share_it) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 200; ++i) {
        arrow::StringBuilder builder(&memory_);
        for (int k = 0; k < 200; ++k)
          EXPECT_TRUE(builder.Append(std::string(static_cast<std::size_t>(k * t), 'x')).ok());
        const std::shared_ptr<arrow::Array> column = builder.Finish().ValueOrDie();
        EXPECT_EQ(column->length(), 200);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(memory_.bytes_allocated(), 0);
  EXPECT_GT(memory_.max_memory(), 0);
}
INSTANTIATE_TEST_SUITE_P(with_and_without_buffers, arrow_pools, testing::Bool());

TEST(arrow_pool, a_limit_refuses_and_says_so) {
  tarn::arrow_pool memory({.maximum_bytes = 1000000});
  arrow::Int64Builder builder(&memory);
  const arrow::Status status = builder.Resize(200000);
  EXPECT_TRUE(status.IsOutOfMemory());
  EXPECT_NE(status.ToString().find("limit of 1000000"), std::string::npos) << status.ToString();
  EXPECT_EQ(memory.bytes_allocated(), 0);
  EXPECT_TRUE(builder.Resize(1000).ok());
}

TEST(arrow_pool, free_of_a_foreign_pointer_ends_the_process) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  tarn::arrow_pool memory;
  alignas(64) static std::uint8_t foreign[64];
  EXPECT_DEATH(memory.Free(foreign, 64, 64), "tarn: .*did not allocate");
}

}  // namespace
