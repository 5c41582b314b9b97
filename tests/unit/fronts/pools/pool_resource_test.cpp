// SPDX-License-Identifier: MIT
// pool_resource and local_pool_resource: blocks of all sizes and alignments, upstream, release, threads.
#include "tarn/resources.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../bytes.hpp"
#include "fronts/pools/pool_support.hpp"

namespace {

namespace slot_sizes = tarn::detail::slot_sizes;
using tarn::testing_support::in_threads;
using tarn::testing_support::is_aligned;
using tarn::testing_support::pools_named;

// Counts its live blocks, and a sum over their sizes and alignments. Both are 0 after each block was given back once,
// with the size and alignment of its allocation.
class counting_resource : public std::pmr::memory_resource {
 public:
  [[nodiscard]] std::size_t blocks() const { return blocks_.load(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_.load(); }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    ++blocks_;
    bytes_ += bytes * 64 + alignment;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    --blocks_;
    bytes_ -= bytes * 64 + alignment;
    std::pmr::new_delete_resource()->deallocate(block, bytes, alignment);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::atomic<std::size_t> blocks_{0};
  std::atomic<std::size_t> bytes_{0};
};

struct stamped_block {
  unsigned char* at;
  std::size_t bytes;
  std::size_t alignment;
  unsigned char stamp;

  [[nodiscard]] bool is_whole() const { return tarn::testing_support::all_bytes_are(at, bytes, stamp); }
};
stamped_block take(std::pmr::memory_resource& from, std::size_t bytes, std::size_t alignment,
                   unsigned stamp) {
  auto* const at = static_cast<unsigned char*>(from.allocate(bytes, alignment));
  std::memset(at, static_cast<unsigned char>(stamp), bytes);
  return {at, bytes, alignment, static_cast<unsigned char>(stamp)};
}
void give(std::pmr::memory_resource& to, const stamped_block& b) {
  to.deallocate(b.at, b.bytes, b.alignment);
}

template <class Random>
stamped_block take_at_random(std::pmr::memory_resource& from, Random& random) {
  const std::size_t bytes = random() % (random() % 8 == 0 ? 20000 : random() % 4 == 0 ? 3000 : 200);
  const std::size_t alignment = std::size_t{1} << random() % (random() % 8 == 0 ? 14 : 5);
  return take(from, bytes, alignment, static_cast<unsigned>(random()));
}

template <class Resource>
class pool_resources : public testing::Test {};
using resources = testing::Types<tarn::pool_resource, tarn::local_pool_resource>;
TYPED_TEST_SUITE(pool_resources, resources);

TYPED_TEST(pool_resources, every_size_and_alignment_is_served) {
  counting_resource upstream;
  TypeParam resource(&upstream);
  std::vector<stamped_block> blocks;
  for (std::size_t alignment = 1; alignment <= 16384; alignment *= 2) {
    for (std::size_t bytes = 0; bytes <= 9000; bytes += bytes < 300 ? 1 : 97) {
      blocks.push_back(take(resource, bytes, alignment, static_cast<unsigned>(blocks.size())));
      ASSERT_TRUE(is_aligned(blocks.back().at, alignment)) << bytes << " bytes aligned to " << alignment;
    }
  }
  for (const stamped_block& b : blocks) {
    ASSERT_TRUE(b.is_whole());
    give(resource, b);
  }
  EXPECT_EQ(resource.stats().live, 0U);
  EXPECT_EQ(upstream.blocks(), 0U);
  EXPECT_EQ(upstream.bytes(), 0U);
}

TYPED_TEST(pool_resources, blocks_of_no_bytes_are_aligned) {
  TypeParam resource;
  std::vector<void*> blocks;
  for (std::size_t alignment = 1; alignment <= 64; alignment *= 2) {
    for (int i = 0; i < 20; ++i) {
      blocks.push_back(resource.allocate(0, alignment));
      ASSERT_TRUE(is_aligned(blocks.back(), alignment));
    }
    for (void* const block : blocks) resource.deallocate(block, 0, alignment);
    blocks.clear();
  }
}

TYPED_TEST(pool_resources, blocks_keep_their_content) {
  counting_resource upstream;
  TypeParam resource(&upstream);
  std::mt19937 random(3);
  std::vector<stamped_block> live;
  for (int step = 0; step < 30000; ++step) {
    if (live.size() < 800 && random() % 8 < 5) {
      live.push_back(take_at_random(resource, random));
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(live.back().is_whole());
      give(resource, live.back());
      live.pop_back();
    }
  }
  for (const stamped_block& b : live) give(resource, b);
  EXPECT_EQ(resource.stats().live + upstream.blocks(), 0U);
}

TYPED_TEST(pool_resources, only_what_is_too_large_comes_from_upstream) {
  counting_resource upstream;
  TypeParam resource(&upstream);
  EXPECT_EQ(resource.upstream_resource(), &upstream);
  const auto largest = take(resource, slot_sizes::largest, 4096, 1);
  EXPECT_EQ(upstream.blocks(), 0U);
  EXPECT_EQ(resource.stats().live, 1U);
  const auto larger = take(resource, slot_sizes::largest + 1, 1, 2);
  const auto stricter = take(resource, 10, 8192, 3);
  EXPECT_EQ(upstream.blocks(), 2U);
  EXPECT_EQ(resource.stats().live, 1U);
  give(resource, larger);
  EXPECT_EQ(upstream.blocks(), 1U);
  give(resource, stricter);
  give(resource, largest);
  EXPECT_EQ(upstream.bytes(), 0U);
}

TYPED_TEST(pool_resources, the_default_upstream_is_that_of_the_moment_it_is_made) {
  counting_resource upstream;
  std::pmr::memory_resource* const before = std::pmr::set_default_resource(&upstream);
  TypeParam resource;
  std::pmr::set_default_resource(before);
  EXPECT_EQ(resource.upstream_resource(), &upstream);
  EXPECT_EQ(TypeParam().upstream_resource(), before);
}

TYPED_TEST(pool_resources, release_gives_all_back_and_the_resource_goes_on) {
  counting_resource upstream;
  TypeParam resource(&upstream);
  for (int round = 0; round < 5; ++round) {
    std::mt19937 random(static_cast<unsigned>(round));
    std::vector<stamped_block> blocks;
    for (int i = 0; i < 3000; ++i) blocks.push_back(take_at_random(resource, random));
    for (const stamped_block& b : blocks) ASSERT_TRUE(b.is_whole());
    for (std::size_t i = 0; i < blocks.size(); i += 3) give(resource, blocks[i]);
    EXPECT_GT(resource.stats().bytes, 0U);
    resource.release();
    EXPECT_EQ(resource.stats().bytes, 0U);
    EXPECT_EQ(resource.stats().live, 0U);
    EXPECT_EQ(upstream.bytes(), 0U);
  }
  resource.release();
}

TYPED_TEST(pool_resources, its_end_gives_all_back) {
  counting_resource upstream;
  const auto pools = pools_named("tarn::pool_resource/").pools;
  {
    TypeParam resource(&upstream);
    std::mt19937 random(1);
    for (int i = 0; i < 500; ++i) (void)take_at_random(resource, random);
    EXPECT_GT(pools_named("tarn::pool_resource/").pools, pools);
  }
  EXPECT_EQ(pools_named("tarn::pool_resource/").pools, pools);
  EXPECT_EQ(upstream.bytes(), 0U);
}

TYPED_TEST(pool_resources, trim_gives_unused_memory_back) {
  TypeParam resource;
  std::vector<stamped_block> blocks;
  for (unsigned i = 0; i < 5000; ++i) blocks.push_back(take(resource, 40 + i % 400, 8, i));
  for (const stamped_block& b : blocks) give(resource, b);
  const std::size_t before = resource.stats().bytes;
  EXPECT_GT(before, 0U);
  EXPECT_EQ(resource.trim(), before);
  EXPECT_EQ(resource.stats().bytes, 0U);
  give(resource, take(resource, 40, 8, 1));
}

TYPED_TEST(pool_resources, a_request_that_cannot_be_met_is_refused) {
  TypeParam resource;
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 7, SIZE_MAX - 100, SIZE_MAX / 2 + 1}) {
    EXPECT_THROW((void)resource.allocate(bytes, 1), std::bad_alloc);
    EXPECT_THROW((void)resource.allocate(bytes, 16), std::bad_alloc);
  }
  TypeParam strict(std::pmr::null_memory_resource());
  EXPECT_THROW((void)strict.allocate(5000, 8), std::bad_alloc);
  strict.deallocate(strict.allocate(4000, 8), 4000, 8);
}

TYPED_TEST(pool_resources, are_equal_to_themselves_alone) {
  const TypeParam one, other;
  EXPECT_TRUE(one == one);
  EXPECT_FALSE(one == other);
}

TYPED_TEST(pool_resources, serve_containers) {
  counting_resource upstream;
  TypeParam resource(&upstream);
  {
    std::pmr::map<int, std::pmr::string> names(&resource);
    std::pmr::unordered_map<std::pmr::string, std::pmr::vector<int>> lists(&resource);
    for (int i = 0; i < 3000; ++i) {
      const std::string text(static_cast<std::size_t>(i % 60), static_cast<char>('a' + i % 26));
      names.emplace(i, text);
      lists[std::pmr::string(text)].push_back(i);
    }
    for (const auto& [key, text] : names) {
      ASSERT_EQ(std::string_view(text),
                std::string(static_cast<std::size_t>(key % 60), static_cast<char>('a' + key % 26)));
      ASSERT_EQ(text.get_allocator().resource(), &resource);
    }
    const std::pmr::map<int, std::pmr::string> copy(names, std::pmr::new_delete_resource());
    EXPECT_EQ(copy, names);
    EXPECT_GT(resource.stats().live, 3000U);
  }
  EXPECT_EQ(resource.stats().live + upstream.blocks(), 0U);
}

TEST(local_pool_resource, may_move_to_another_thread_as_a_whole) {
  auto resource = std::make_unique<tarn::local_pool_resource>();
  std::vector<stamped_block> blocks;
  for (unsigned i = 0; i < 2000; ++i) blocks.push_back(take(*resource, i % 300, 8, i));
  std::thread([&] {
    for (int i = 0; i < 1000; ++i) {
      if (!blocks.back().is_whole()) std::abort();
      give(*resource, blocks.back());
      blocks.pop_back();
    }
    for (unsigned i = 0; i < 500; ++i) blocks.push_back(take(*resource, i % 500, 16, i));
  }).join();
  for (const stamped_block& b : blocks) {
    ASSERT_TRUE(b.is_whole());
    give(*resource, b);
  }
  std::thread([&] { resource.reset(); }).join();
}

// Threads exchange their blocks through shared places.
TEST(pool_resource, threads_share_it) {
  struct exchange {
    std::mutex mutex;
    std::vector<stamped_block> blocks;
  };
  counting_resource upstream;
  tarn::pool_resource resource(&upstream);
  std::vector<exchange> places(4);
  in_threads(4, [&](int index) {
    std::mt19937 random(static_cast<unsigned>(index));
    std::vector<stamped_block> live;
    for (int step = 0; step < 15000; ++step) {
      if (random() % 16 == 0) {
        exchange& place = places[random() % places.size()];
        const std::lock_guard lock(place.mutex);
        place.blocks.swap(live);
      } else if (live.size() < 300 && random() % 2 == 0) {
        live.push_back(take_at_random(resource, random));
      } else if (!live.empty()) {
        if (!live.back().is_whole()) std::abort();
        give(resource, live.back());
        live.pop_back();
      }
    }
    for (const stamped_block& b : live) give(resource, b);
  });
  for (const exchange& place : places) {
    for (const stamped_block& b : place.blocks) give(resource, b);
  }
  EXPECT_EQ(resource.stats().live + upstream.blocks(), 0U);
}

// Slots that threads have cached of pools that release() has ended must not be handed out again.
TEST(pool_resource, release_reaches_what_other_threads_hold) {
  constexpr int threads = 3;
  constexpr int rounds = 20;
  tarn::pool_resource resource;
  std::barrier turn(threads + 1);
  std::vector<std::vector<stamped_block>> blocks(threads);
  std::vector<std::jthread> workers;
  for (int index = 0; index < threads; ++index) {
    workers.emplace_back([&, index] {
      auto& own = blocks[static_cast<std::size_t>(index)];
      for (int round = 0; round < rounds; ++round) {
        for (unsigned i = 0; i < 200; ++i)
          own.push_back(take(resource, 64, 8, i + static_cast<unsigned>(index) * 77));
        for (int i = 0; i < 100; ++i) {  // so that this thread has cached free slots
          give(resource, own.back());
          own.pop_back();
        }
        turn.arrive_and_wait();
        turn.arrive_and_wait();
      }
    });
  }
  for (int round = 0; round < rounds; ++round) {
    turn.arrive_and_wait();
    for (auto& own : blocks) {
      for (const stamped_block& b : own) ASSERT_TRUE(b.is_whole());
      own.clear();
    }
    EXPECT_EQ(resource.stats().live, 300U);
    resource.release();
    turn.arrive_and_wait();
  }
}

TEST(slot_sizes, waste_little_and_keep_alignments) {
  for (std::size_t alignment = 1; alignment <= slot_sizes::largest; alignment *= 2) {
    for (std::size_t bytes = 1; bytes <= slot_sizes::largest; ++bytes) {
      const std::size_t index = slot_sizes::find(bytes, alignment);
      ASSERT_LT(index, slot_sizes::count);
      ASSERT_GE(slot_sizes::size_of(index), bytes);
      ASSERT_EQ(slot_sizes::alignment_of(index) % alignment, 0U);
      if (alignment <= 8) {
        ASSERT_LE((slot_sizes::size_of(index) - bytes) * 8, std::max<std::size_t>(bytes, 56));
      }
    }
  }
  EXPECT_EQ(slot_sizes::find(slot_sizes::largest + 1, 1), slot_sizes::count);
  EXPECT_EQ(slot_sizes::find(1, 2 * slot_sizes::largest), slot_sizes::count);
}

}  // namespace
