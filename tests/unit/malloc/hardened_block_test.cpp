// SPDX-License-Identifier: MIT
// The hardened build's blocks: zeroed when freed, a canary after the usable bytes, double frees and writes after free
// end the process. The misuse programs of tests/guarantees test hundreds of cases.
#include "malloc/hardened_block.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "base/units.hpp"
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

TEST(hardened_block_death, a_long_block_is_checked_from_end_to_end) {
  for (const std::size_t size : {2000U, 8192U, 200'000U}) {
    for (const std::size_t at : {std::size_t{700}, size / 2, size - 100}) {
      EXPECT_EXIT(write_after_free(size, at), testing::KilledBySignal(SIGABRT),
                  "a write to a block after it was freed")
          << size << " " << at;
    }
  }
}

// Writes 16 bytes before a block that begins at a cache line, so that the canary of the one before is in another, and frees
// it.
void write_before(std::size_t size) {
  std::vector<unsigned char*> blocks;
  for (int i = 0; i < 500; ++i) blocks.push_back(static_cast<unsigned char*>(tarn_malloc(size)));
  std::sort(blocks.begin(), blocks.end());
  const std::size_t step = tarn_usable_size(blocks[0]) + canary_bytes;
  for (std::size_t i = 101; i < blocks.size(); ++i) {
    if (blocks[i] != blocks[i - 1] + step || reinterpret_cast<std::uintptr_t>(blocks[i]) % 64 != 0) continue;
    if (reinterpret_cast<std::uintptr_t>(blocks[i]) % tarn::page_size < step) continue;
    for (std::ptrdiff_t at = -16; at != 0; ++at) static_cast<volatile_bytes*>(blocks[i])[at] = 0xee;
    tarn_free(blocks[i]);
    _exit(1);
  }
  _exit(2);
}

TEST(hardened_block_death, a_write_before_a_block_is_seen_in_another_cache_line) {
  for (const std::size_t size : {56U, 120U, 500U}) {
    EXPECT_EXIT(write_before(size), testing::KilledBySignal(SIGABRT), "a write before a block") << size;
  }
}

void* moved_by_realloc(std::size_t size, std::size_t then) { return tarn_realloc(tarn_malloc(size), then); }

TEST(hardened_block, free_with_the_right_size) {
  for (const std::size_t size :
       {0U, 1U, 15U, 16U, 24U, 1016U, 1017U, 5000U, 262'136U, 262'137U, 5'000'000U}) {
    tarn_free_sized(tarn_malloc(size), size);
    tarn_free_sized(tarn_calloc(size, 1), size);
    for (const std::size_t alignment : {1U, 8U, 16U, 32U, 4096U, 8192U, 65'536U})
      tarn_free_aligned_sized(tarn_aligned_alloc(alignment, size), alignment, size);
    for (const std::size_t then : {size / 2 + 1, size + 8, size * 2 + 1})
      tarn_free_sized(moved_by_realloc(size, then), then);
  }
  tarn_free_sized(nullptr, 100);
}

TEST(hardened_block_death, free_with_a_wrong_size) {
  constexpr const char* text = "free of a block with a size that it does not have";
  EXPECT_EXIT(tarn_free_sized(tarn_malloc(1), 32), testing::KilledBySignal(SIGABRT), text);
  EXPECT_EXIT(tarn_free_sized(tarn_malloc(32), 1), testing::KilledBySignal(SIGABRT), text);
  EXPECT_EXIT(tarn_free_sized(tarn_malloc(300'000), 500'000), testing::KilledBySignal(SIGABRT), text);
  EXPECT_EXIT(tarn_free_aligned_sized(tarn_aligned_alloc(64, 24), 64, 88), testing::KilledBySignal(SIGABRT),
              text);
  EXPECT_EXIT(tarn_free_sized(tarn_malloc(0), 1), testing::KilledBySignal(SIGABRT), text);
}

TEST(hardened_block_death, size_of_what_is_no_live_block) {
  constexpr const char* text = "size asked of a pointer that is no live and intact block";
  EXPECT_EXIT(tarn_usable_size(static_cast<char*>(tarn_malloc(16)) + 1), testing::KilledBySignal(SIGABRT),
              text);
  EXPECT_EXIT(
      {
        void* volatile stale = tarn_malloc(16);
        tarn_free(stale);
        tarn_usable_size(stale);
      },
      testing::KilledBySignal(SIGABRT), text);
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
