// SPDX-License-Identifier: MIT
// The hardened build's blocks: zeroed when freed, a canary after the usable bytes, double frees and writes after free
// end the process. The misuse programs of tests/guarantees test hundreds of cases.
#include "malloc/hardened_block.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "tarn/malloc.h"

namespace {

using tarn::canary_bytes;

constexpr std::size_t sizes[] = {1, 16, 24, 56, 100, 128, 500, 1000, 1016, 1017, 5000, 40'000, 200'000};
using volatile_bytes = volatile unsigned char;

bool is_zero(const void* block, std::size_t size) {
  const auto* const bytes = static_cast<const volatile_bytes*>(block);
  for (std::size_t i = 0; i < size; ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

TEST(hardened_block, a_freed_block_reads_as_zero) {
  for (const std::size_t size : sizes) {
    void* const block = tarn_malloc(size);
    std::memset(block, 0x55, size);
    void* volatile stale = block;
    tarn_free(block);
    EXPECT_TRUE(is_zero(stale, size)) << size;
  }
}

TEST(hardened_block, every_block_is_zero_when_it_is_handed_out) {
  for (int round = 0; round < 2000; ++round) {
    for (const std::size_t size : {24U, 100U, 1000U}) {
      void* const block = tarn_malloc(size);
      ASSERT_TRUE(is_zero(block, size)) << size;
      std::memset(block, 0x55, size);
      tarn_free(block);
    }
  }
}

TEST(hardened_block, calloc_gives_zeroes_at_any_size) {
  for (int round = 0; round < 300; ++round) {
    for (const std::size_t size : sizes) {
      void* const block = tarn_calloc(size, 1);
      ASSERT_TRUE(is_zero(block, size)) << size;
      std::memset(block, 0x55, size);
      tarn_free(block);
    }
  }
}

TEST(hardened_block, usable_bytes_end_before_the_canary) {
  for (const std::size_t size : sizes) {
    void* const block = tarn_malloc(size);
    const std::size_t usable = tarn_usable_size(block);
    EXPECT_GE(usable, size);
    EXPECT_EQ((usable + canary_bytes) % 16, 0U);
    std::memset(block, 0x55, usable);
    tarn_free(block);
  }
}

// Two threads free one block at the same time, up to 2,000 times; a double free that is detected ends the process.
void free_from_two_threads() {
  constexpr int rounds = 2000;
  for (int round = 0; round < rounds; ++round) {
    void* const block = tarn_malloc(48);
    std::atomic<int> ready{0};
    const auto free_at_once = [&] {
      ready.fetch_add(1);
      while (ready.load() != 2) {
      }
      tarn_free(block);
    };
    std::thread other(free_at_once);
    free_at_once();
    other.join();
  }
}

TEST(hardened_block_death, two_threads_free_one_block) {
  EXPECT_EXIT(free_from_two_threads(), testing::KilledBySignal(SIGABRT), "double free");
}

void write_after_free(std::size_t size, std::size_t at) {
  auto* const block = static_cast<volatile_bytes*>(tarn_malloc(size));
  tarn_free(const_cast<unsigned char*>(block));
  block[at] = 1;
  std::vector<void*> others;
  for (int i = 0; i < 20'000; ++i) tarn_free(tarn_malloc(size));
  for (int i = 0; i < 20'000; ++i) others.push_back(tarn_malloc(size));
}

TEST(hardened_block_death, every_byte_written_after_free_is_seen_when_the_block_comes_again) {
  for (const std::size_t at : {0U, 7U, 8U, 23U}) {
    EXPECT_EXIT(write_after_free(24, at), testing::KilledBySignal(SIGABRT),
                "a write to a block after it was freed")
        << at;
  }
  for (const std::size_t at : {0U, 64U, 500U, 999U}) {
    EXPECT_EXIT(write_after_free(1000, at), testing::KilledBySignal(SIGABRT),
                "a write to a block after it was freed")
        << at;
  }
}

void write_past_end(std::size_t size) {
  auto* const block = static_cast<volatile_bytes*>(tarn_malloc(size));
  volatile_bytes& past = block[tarn_usable_size(const_cast<unsigned char*>(block))];
  past = static_cast<unsigned char>(~past);
  tarn_free(const_cast<unsigned char*>(block));
}

TEST(hardened_block_death, a_byte_past_the_usable_ones_is_seen_at_free) {
  for (const std::size_t size : {24U, 1000U, 5000U}) {
    EXPECT_EXIT(write_past_end(size), testing::KilledBySignal(SIGABRT), "a write past the end of a block")
        << size;
  }
}

}  // namespace
