// SPDX-License-Identifier: MIT
// The heap profile through the functions of tarn/malloc.h: blocks of every kind while all, or some, of them are sampled,
// threads, fork, other features beside it, and the profile that is written.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../child_status.hpp"
#include "base/compiler.hpp"
#include "base/hardened.hpp"
#include "base/units.hpp"
#include "engine/engine.hpp"
#include "engine/restore.hpp"
#include "tarn/malloc.h"
#include "tarn/scope.h"

namespace {

struct totals {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t live_blocks = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t samples = 0;
  std::uint64_t live_samples = 0;
};

totals sum() {
  totals all;
  EXPECT_EQ(tarn_visit_profile(
                [](void* context, const tarn_profile_site* s) {
                  auto& to = *static_cast<totals*>(context);
                  to.blocks += s->blocks;
                  to.bytes += s->bytes;
                  to.live_blocks += s->live_blocks;
                  to.live_bytes += s->live_bytes;
                  to.samples += s->samples;
                  to.live_samples += s->live_samples;
                },
                &all),
            0);
  return all;
}

// A rate of 1 samples every block that is not at a guarded place.
struct heap_profile_test : testing::Test {
  heap_profile_test() { tarn_set_option("guarded", "off"); }
  ~heap_profile_test() override { tarn_profile_stop(); }
  const tarn::testing_support::restore_options restore;
  totals before = sum();
  [[nodiscard]] totals since() const {
    const totals now = sum();
    return {now.blocks - before.blocks,           now.bytes - before.bytes,
            now.live_blocks - before.live_blocks, now.live_bytes - before.live_bytes,
            now.samples - before.samples,         now.live_samples - before.live_samples};
  }
};

TEST_F(heap_profile_test, off_there_are_no_samples) {
  tarn_free(tarn_malloc(100));
  tarn_free(tarn_malloc(1000000));
  EXPECT_EQ(since().samples, 0U);
}

TEST_F(heap_profile_test, every_size_and_function) {
  ASSERT_EQ(tarn_profile_start(1), 0);
  for (std::size_t size = 0; size < 2000000; size += 1 + size / 7) {
    auto* block = static_cast<char*>(tarn_malloc(size));
    ASSERT_NE(block, nullptr);
    const std::size_t usable = tarn_usable_size(block);
    ASSERT_GE(usable, size);
    std::memset(block, 'x', usable);
    EXPECT_EQ(tarn_realloc(block, usable), block) << size << ": it has room for so many";
    block = static_cast<char*>(tarn_realloc(block, usable + 100));
    ASSERT_NE(block, nullptr);
    for (std::size_t i = 0; i < usable; ++i) ASSERT_EQ(block[i], 'x');
    block = static_cast<char*>(tarn_realloc(block, usable / 3 + 1));
    ASSERT_NE(block, nullptr);
    for (std::size_t i = 0; i < usable / 3 + 1; ++i) ASSERT_EQ(block[i], 'x');
    tarn_free(block);
    auto* const zeroed = static_cast<char*>(tarn_calloc(1, size));
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(zeroed[i], 0);
    tarn_free_sized(zeroed, size);
    for (std::size_t alignment = 8; alignment <= 65536; alignment *= 2) {
      void* const aligned = tarn_aligned_alloc(alignment, size);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % alignment, 0U) << size;
      ASSERT_GE(tarn_usable_size(aligned), size);
      tarn_free_aligned_sized(aligned, alignment, size);
    }
  }
  EXPECT_GT(since().samples, 1000U);
  EXPECT_EQ(since().live_samples, 0U);
  EXPECT_EQ(since().live_bytes, 0U);
}

TEST_F(heap_profile_test, with_a_rate_of_1_the_bytes_are_exact) {
  ASSERT_EQ(tarn_profile_start(1), 0);
  std::vector<void*> blocks(1000);
  std::uint64_t bytes = 0;
  std::mt19937 random(1);
  const totals begin = since();
  for (void*& block : blocks) {
    block = tarn_malloc(1000 + random() % 400000);
    bytes += tarn_usable_size(block) + (tarn::hardened_build && tarn_usable_size(block) < 262144 ? 16 : 0);
  }
  const totals end = since();
  EXPECT_EQ(end.samples - begin.samples, blocks.size());
  EXPECT_EQ(end.blocks - begin.blocks, blocks.size());
  if (!tarn::hardened_build) {
    EXPECT_EQ(end.bytes - begin.bytes, bytes);
  }
  EXPECT_EQ(end.live_blocks - begin.live_blocks, blocks.size());
  for (void* const block : blocks) tarn_free(block);
  EXPECT_EQ(since().live_bytes, begin.live_bytes);
}

TEST_F(heap_profile_test, moving_leaves_a_sampled_block_usable) {
  ASSERT_EQ(tarn_profile_start(1), 0);
  auto* block = static_cast<char*>(tarn_malloc(500));
  std::memset(block, 'y', 500);
  EXPECT_EQ(tarn_would_move(block, 1.0), 0);
  block = static_cast<char*>(tarn_move(block));
  for (int i = 0; i < 500; ++i) ASSERT_EQ(block[i], 'y');
  tarn_free(block);
  EXPECT_EQ(since().live_samples, 0U);
}

TEST_F(heap_profile_test, guarded_blocks_and_samples_beside_each_other) {
  tarn_set_option("guarded", "100");
  ASSERT_EQ(tarn_profile_start(2000), 0);
  tarn_stats first;
  tarn_get_stats(&first);
  std::uint64_t bytes = 0;
  constexpr int rounds = 200000;
  for (int i = 0; i < rounds; ++i) {
    void* const block = tarn_malloc(64);
    bytes += 64;
    tarn_free(block);
  }
  tarn_stats last;
  tarn_get_stats(&last);
  // The thread adopts the shorter windows when the window before ends.
  EXPECT_GE(last.guarded_blocks - first.guarded_blocks, (rounds - (1 << 16)) / 100U - 20);
  EXPECT_LE(last.guarded_blocks - first.guarded_blocks, rounds / 100U + 1);
  if (!tarn::hardened_build) {
    EXPECT_NEAR(static_cast<double>(since().bytes) / static_cast<double>(bytes), 1, 0.08)
        << "4 standard deviations";
  }
}

TEST_F(heap_profile_test, traffic_counts_sampled_blocks_once) {
  for (const char* rate : {"off", "1", "700"}) {
    tarn_set_option("profile", rate);
    const tarn::engine::traffic begin = tarn::engine::traffic_of_thread();
    for (int i = 0; i < 10000; ++i) tarn_free(tarn_malloc(64));
    const tarn::engine::traffic end = tarn::engine::traffic_of_thread();
    const std::uint64_t size = tarn::hardened_build ? 80 : 64;
    EXPECT_EQ(end.allocated - begin.allocated, 10000 * size) << rate;
    EXPECT_EQ(end.freed - begin.freed, 10000 * size) << rate;
  }
}

// What is chosen for a guarded block or for the profile, but refused because there are too many, is an ordinary block.
TEST_F(heap_profile_test, traffic_counts_refused_samples_once) {
  tarn_set_option("guarded", "100,1");
  tarn_set_option("profile", "on");
  tarn_stats first;
  tarn_get_stats(&first);
  constexpr std::uint64_t count = 2'000'000;
  for (const std::size_t bytes : {64U, 1024U}) {
    const tarn::engine::traffic begin = tarn::engine::traffic_of_thread();
    for (std::uint64_t i = 0; i < count; ++i) tarn_free(tarn_malloc(bytes));
    const tarn::engine::traffic end = tarn::engine::traffic_of_thread();
    // The usable size of a guarded block is what was asked for.
    const std::uint64_t size = bytes + (tarn::hardened_build ? 16 : 0);
    EXPECT_EQ(end.allocated - begin.allocated, count * size);
    EXPECT_EQ(end.freed - begin.freed, count * size);
  }
  tarn_stats last;
  tarn_get_stats(&last);
  EXPECT_LT(last.guarded_blocks - first.guarded_blocks, count / 100) << "some are refused";
}

// By that size growing buffers tell that they need not move.
TEST_F(heap_profile_test, realloc_of_a_guarded_block_to_its_usable_size_keeps_it) {
  tarn_set_option("guarded", "1,1000");
  const auto guarded_so_far = [] {
    tarn_stats stats;
    tarn_get_stats(&stats);
    return stats.guarded_blocks;
  };
  for (const std::size_t size : {1U, 24U, 1000U, 9000U}) {
    const std::uint64_t earlier = guarded_so_far();
    void* block = nullptr;
    // The distance to the next sample may still be one of the usual rate: 65,536 on average.
    for (int tries = 0; tries < 2'000'000 && guarded_so_far() == earlier; ++tries) {
      tarn_free(block);
      block = tarn_malloc(size);
    }
    ASSERT_NE(guarded_so_far(), earlier) << size;
    void* const same = tarn_realloc(block, tarn_usable_size(block));
    EXPECT_EQ(same, block) << size;
    tarn_free(same);
  }
}

TEST_F(heap_profile_test, traffic_counts_sampled_and_guarded_blocks_of_a_scope) {
  const tarn_scope scope = tarn_scope_begin("traffic", nullptr);
  for (const char* profile : {"off", "1"}) {
    tarn_set_option("guarded", *profile == '1' ? "off" : "1");
    tarn_set_option("profile", profile);
    tarn_scope_entry entry;
    ASSERT_EQ(tarn_scope_enter(scope, &entry), 1);
    const tarn::engine::traffic begin = tarn::engine::traffic_of_thread();
    // Of such blocks the thread keeps no free ones for the scope.
    for (int i = 0; i < 1000; ++i) tarn_free(tarn_malloc(4000));
    const tarn::engine::traffic end = tarn::engine::traffic_of_thread();
    tarn_scope_leave(&entry);
    EXPECT_GE(end.allocated - begin.allocated, 1000 * 4000U) << profile;
    EXPECT_EQ(end.freed - begin.freed, end.allocated - begin.allocated) << profile;
  }
  tarn_set_option("guarded", "off");
  tarn_scope_end(scope, nullptr);
}

TEST_F(heap_profile_test, counting_allocations_beside_it) {
  ASSERT_EQ(tarn_profile_start(100), 0);
  tarn_allocation_count count;
  tarn_count_begin(&count);
  for (int i = 0; i < 1000; ++i) tarn_free(tarn_malloc(64));
  tarn_count_end(&count);
  EXPECT_EQ(count.allocations, 1000U);
  EXPECT_EQ(count.bytes, 64000U);
}

// A thread that allocates all the time follows at once, although its countdowns were those of a profile that is off.
TEST_F(heap_profile_test, a_running_thread_follows_a_start) {
  if (TARN_TSAN) GTEST_SKIP() << "other threads follow later there";
  std::atomic<bool> started{false};
  std::atomic<bool> ready{false};
  std::atomic<std::uint64_t> bytes{0};
  std::thread other([&] {
    std::uint64_t sum_of_sizes = 0;
    for (int i = 0; i < 200000 || !started; ++i) {
      void* const block = tarn_malloc(64);
      tarn_free(block);
      ready = true;
    }
    for (int i = 0; i < 100000; ++i) {
      void* const block = tarn_malloc(64);
      sum_of_sizes += 64;
      tarn_free(block);
    }
    bytes = sum_of_sizes;
  });
  while (!ready) std::this_thread::yield();
  const totals begin = sum();
  ASSERT_EQ(tarn_profile_start(1000), 0);
  started = true;
  other.join();
  const std::uint64_t seen = sum().bytes - begin.bytes;
  EXPECT_GE(static_cast<double>(seen), 0.93 * static_cast<double>(bytes)) << "4 standard deviations";
}

TEST_F(heap_profile_test, blocks_are_freed_by_other_threads) {
  ASSERT_EQ(tarn_profile_start(100), 0);
  for (int round = 0; round < 20; ++round) {
    std::vector<void*> blocks(2000);
    std::thread([&] {
      std::mt19937 random(static_cast<unsigned>(round));
      for (void*& block : blocks) block = tarn_malloc(random() % 5000);
    }).join();
    std::thread([&] {
      for (void* const block : blocks) tarn_free(block);
    }).join();
  }
  EXPECT_EQ(since().live_samples, 0U);
}

TEST_F(heap_profile_test, a_forked_child_goes_on) {
  ASSERT_EQ(tarn_profile_start(1), 0);
  void* const of_parent = tarn_malloc(100);
  const auto goes_on = [of_parent] {
    const totals begin = sum();
    tarn_free(of_parent);
    void* const own = tarn_malloc(200);
    const totals end = sum();
    tarn_free(own);
    return end.samples == begin.samples + 1 && end.live_samples == begin.live_samples ? 0 : 1;
  };
  EXPECT_EQ(tarn::testing_support::child_status(goes_on), 0);
  EXPECT_EQ(since().live_samples, 1U);
  tarn_free(of_parent);
}

TEST_F(heap_profile_test, options) {
  EXPECT_EQ(tarn_set_option("profile", "64k"), 0);
  EXPECT_EQ(tarn::engine::profile_samples.mean(), 64 * tarn::kib);
  EXPECT_EQ(tarn_set_option("profile", "on"), 0);
  EXPECT_EQ(tarn::engine::profile_samples.mean(), 512 * tarn::kib);
  for (const char* bad : {"", "0", "2G", "-1", "yes", "1x"})
    EXPECT_EQ(tarn_set_option("profile", bad), EINVAL) << bad;
  EXPECT_EQ(tarn_profile_start(std::size_t{2} << 30), EINVAL);
  EXPECT_EQ(tarn::engine::profile_samples.mean(), 512 * tarn::kib) << "a failed call changes nothing";
  EXPECT_EQ(tarn_profile_start(0), 0);
  tarn_profile_stop();
  EXPECT_EQ(tarn::engine::profile_samples.mean(), 0U);
}

// ---- what is written ----

std::uint64_t varint(const std::string& from, std::size_t& at) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; at < from.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(from[at++]);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  ADD_FAILURE() << "cut off";
  return 0;
}

struct field {
  std::uint64_t number;
  std::uint64_t value;
  std::string text;
};

std::vector<field> parse(const std::string& message) {
  std::vector<field> all;
  for (std::size_t at = 0; at < message.size();) {
    const std::uint64_t key = varint(message, at);
    field f{key >> 3, varint(message, at), {}};
    EXPECT_TRUE((key & 7) == 0 || (key & 7) == 2) << key;
    if ((key & 7) == 2) {
      EXPECT_LE(f.value, message.size() - at);
      f.text = message.substr(at, f.value);
      at += f.value;
    }
    all.push_back(f);
  }
  return all;
}

TEST_F(heap_profile_test, the_profile_is_one_of_pprof) {
  ASSERT_EQ(tarn_profile_start(1), 0);
  std::vector<void*> blocks(100);
  for (void*& block : blocks) block = tarn_malloc(1000);
  std::string written;
  ASSERT_EQ(tarn_profile_write(
                [](void* context, const char* data, std::size_t size) {
                  EXPECT_LE(size, 4096U);
                  static_cast<std::string*>(context)->append(data, size);
                },
                &written),
            0);
  for (void* const block : blocks) tarn_free(block);
  std::vector<std::string> strings;
  std::uint64_t samples = 0;
  std::uint64_t locations = 0;
  std::uint64_t mappings = 0;
  std::uint64_t bytes = 0;
  for (const field& f : parse(written)) {
    if (f.number == 6) strings.push_back(f.text);
    if (f.number == 3) ++mappings;
    if (f.number == 4) {
      const std::vector<field> parts = parse(f.text);
      EXPECT_EQ(parts[0].value, ++locations) << "locations are numbered from 1 on";
    }
    if (f.number != 2) continue;
    ++samples;
    const std::vector<field> parts = parse(f.text);
    ASSERT_EQ(parts.size(), 2U);
    std::size_t at = 0;
    std::vector<std::uint64_t> values;
    while (at < parts[1].text.size()) values.push_back(varint(parts[1].text, at));
    ASSERT_EQ(values.size(), 6U);
    EXPECT_LE(values[3], values[1]) << "live bytes are part of all bytes";
    bytes += values[1];
  }
  EXPECT_EQ(bytes, sum().bytes);
  EXPECT_GT(samples, 0U);
  EXPECT_GT(locations, 0U);
  EXPECT_GT(mappings, 0U);
  ASSERT_GT(strings.size(), 2 * mappings);
  EXPECT_EQ(strings[0], "");
  char self[4096] = "";
  ASSERT_GT(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  EXPECT_NE(std::find(strings.begin(), strings.end(), self), strings.end());
}

TEST_F(heap_profile_test, a_file_that_cannot_be_written_is_an_error) {
  EXPECT_EQ(tarn_profile_dump(-1), EBADF);
}

}  // namespace
