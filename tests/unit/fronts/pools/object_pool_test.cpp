// SPDX-License-Identifier: MIT
// object_pool and pool_of: objects and pointers to them, limits, threads, and in which order slots are handed out.
#include "tarn/pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <latch>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "../../bytes.hpp"
#include "fronts/pools/pool_support.hpp"
#include "tarn/malloc.h"

namespace {

struct counted_line {
  char bytes[64];
};

using tarn::testing_support::in_threads;
using tarn::testing_support::is_aligned;
using tarn::testing_support::leak_notes;
using tarn::testing_support::pools_named;
using tarn::testing_support::stamped;

struct limited {
  char bytes[1024];
};

}  // namespace

template <>
inline constexpr std::size_t tarn::objects_per_span<limited> = 8;

namespace {

struct thrower {
  explicit thrower(bool throws) {
    if (throws) throw std::runtime_error("as asked");
  }
  char bytes[40];
};

template <std::size_t Size, std::size_t Alignment>
struct alignas(Alignment) shaped {
  unsigned char bytes[Size];
};

template <class T>
class object_pool_shapes : public testing::Test {};
using shapes = testing::Types<shaped<1, 1>, shaped<2, 2>, shaped<8, 8>, shaped<24, 8>, shaped<33, 1>,
                              shaped<48, 16>, shaped<64, 64>, shaped<1, 64>, shaped<200, 128>,
                              shaped<1, 1024>, shaped<5000, 8>, shaped<1, 4096>, shaped<70000, 4096>>;
TYPED_TEST_SUITE(object_pool_shapes, shapes);

template <class Pool>
void expect_slots_of_their_own(const Pool& pool) {
  using value = typename Pool::value_type;
  std::vector<value*> objects;
  for (int i = 0; i < 300; ++i) {
    objects.push_back(pool.create());
    ASSERT_TRUE(is_aligned(objects.back(), alignof(value)));
    std::fill(std::begin(objects.back()->bytes), std::end(objects.back()->bytes),
              static_cast<unsigned char>(i));
  }
  for (std::size_t i = 0; i < objects.size(); ++i) {
    ASSERT_TRUE(tarn::testing_support::all_bytes_are(objects[i]->bytes, sizeof objects[i]->bytes,
                                                     static_cast<int>(i)));
  }
  EXPECT_EQ(pool.stats().live, objects.size());
  for (value* object : objects) pool.destroy(object);
  EXPECT_EQ(pool.stats().live, 0U);
}

TYPED_TEST(object_pool_shapes, objects_are_aligned_and_do_not_overlap) {
  expect_slots_of_their_own(tarn::pool_of<TypeParam>());
  expect_slots_of_their_own(tarn::object_pool<TypeParam>());
}

TEST(object_pool, a_constructor_that_throws_leaves_nothing_behind) {
  tarn::object_pool<thrower> own;
  EXPECT_THROW((void)own.create(true), std::runtime_error);
  EXPECT_THROW((void)own.try_create(true), std::runtime_error);
  EXPECT_THROW((void)own.make_unique(true), std::runtime_error);
  EXPECT_THROW((void)own.make_shared(true), std::runtime_error);
  EXPECT_EQ(own.stats().live, 0U);
  constexpr auto shared = tarn::pool_of<thrower>();
  EXPECT_THROW((void)shared.create(true), std::runtime_error);
  EXPECT_THROW((void)shared.try_create(true), std::runtime_error);
  EXPECT_THROW((void)shared.make_unique(true), std::runtime_error);
  EXPECT_THROW((void)shared.make_shared(true), std::runtime_error);
  EXPECT_EQ(shared.stats().live, 0U);
  EXPECT_EQ(pools_named("thrower", "Sp_counted").live, 0U);
}

TEST(object_pool, objects_for_overwrite_are_not_cleared) {
  const tarn::object_pool<counted_line> pool;
  counted_line* line = pool.create();
  EXPECT_EQ(line->bytes[9], 0);
  std::memset(line->bytes, 0x5a, sizeof line->bytes);
  asm volatile("" : : "r"(line) : "memory");  // the bytes are written although the object ends
  pool.destroy(line);
  line = pool.create_for_overwrite();
  asm volatile("" : : "r"(line) : "memory");  // for the compiler the bytes have no value
  EXPECT_NE(line->bytes[9], 0);
  pool.destroy(line);
  struct started {
    int number = 7;
    std::vector<int> list;
  };
  const tarn::object_pool<started> others;
  started* const other = others.try_create_for_overwrite();
  ASSERT_NE(other, nullptr);
  EXPECT_TRUE(other->number == 7 && other->list.empty());
  others.destroy(other);
}

TEST(object_pool, a_constructor_that_throws_for_overwrite_leaves_nothing_behind) {
  struct refuses {
    refuses() { throw std::runtime_error("as asked"); }
    [[maybe_unused]] explicit refuses(tarn::detail::for_overwrite /*not chosen*/) noexcept {}
  };
  const tarn::object_pool<refuses> pool;
  EXPECT_THROW(static_cast<void>(pool.create_for_overwrite()), std::runtime_error);
  EXPECT_THROW(static_cast<void>(pool.try_create_for_overwrite()), std::runtime_error);
  EXPECT_EQ(pool.stats().live, 0U);
}

TEST(object_pool, memory_without_an_object) {
  const auto pool = tarn::pool_of<thrower>();
  thrower* const memory = pool.allocate();
  thrower* const another = pool.try_allocate();
  EXPECT_NE(memory, another);
  EXPECT_EQ(pool.stats().live, 2U);
  pool.deallocate(memory);
  pool.deallocate(another);
  EXPECT_EQ(pool.stats().live, 0U);
}

TEST(object_pool, null_is_destroyed_without_effect) {
  tarn::pool_of<thrower>().destroy(nullptr);
  tarn::object_pool<thrower>().destroy(nullptr);
}

TEST(object_pool, the_maximum_is_kept_and_objects_given_back_make_room) {
  tarn::object_pool<limited> pool({.limit = 32768});
  std::vector<limited*> objects;
  while (limited* const object = pool.try_create()) {
    objects.push_back(object);
    ASSERT_LE(objects.size(), 32U);
  }
  EXPECT_GE(objects.size(), 8U);
  EXPECT_THROW((void)pool.create(), std::bad_alloc);
  EXPECT_LE(pool.stats().bytes, 32768U);
  pool.destroy(objects.back());
  objects.back() = pool.try_create();
  EXPECT_NE(objects.back(), nullptr);
  for (limited* object : objects) pool.destroy(object);
}

TEST(object_pool, reserved_memory_is_the_pools_at_once) {
  tarn::object_pool<limited> pool;
  EXPECT_EQ(pool.stats().bytes, 0U);
  pool.reserve(100);
  const std::size_t bytes = pool.stats().bytes;
  EXPECT_GE(bytes, 100 * sizeof(limited));
  std::vector<limited*> objects;
  for (int i = 0; i < 100; ++i) objects.push_back(pool.create());
  EXPECT_EQ(pool.stats().bytes, bytes);
  for (limited* object : objects) pool.destroy(object);
  tarn::object_pool<limited> prepared({.initial_capacity = 50});
  EXPECT_GE(prepared.stats().bytes, 50 * sizeof(limited));
  tarn::object_pool<limited> bounded({.limit = 32768});
  EXPECT_THROW(bounded.reserve(1000), std::bad_alloc);
}

TEST(object_pool, trim_gives_all_idle_memory_back) {
  tarn::object_pool<limited> pool;
  std::vector<limited*> objects;
  for (int i = 0; i < 1000; ++i) objects.push_back(pool.create());
  const std::size_t bytes = pool.stats().bytes;
  for (limited* object : objects) pool.destroy(object);
  const std::size_t before = pool.stats().bytes;
  EXPECT_LE(before, bytes);
  EXPECT_EQ(pool.trim(), before);
  EXPECT_EQ(pool.stats().bytes, 0U);
  pool.destroy(pool.create());
}

TEST(object_pool, unique_pointers_are_one_word) {
  static_assert(sizeof(tarn::pool_ptr<stamped>) == sizeof(void*));
  static_assert(sizeof(tarn::pool_ptr<stamped, tarn::owner_deleter<stamped>>) == sizeof(void*));
  tarn::object_pool<stamped> own;
  {
    const auto a = own.make_unique(1U);
    auto b = own.make_unique(2U);
    const auto c = tarn::pool_of<stamped>().make_unique(3U);
    EXPECT_EQ(a->number + b->number + c->number, 6U);
    EXPECT_EQ(own.stats().live, 2U);
    EXPECT_EQ(tarn::pool_of<stamped>().stats().live, 1U);
    b.reset();
    EXPECT_EQ(own.stats().live, 1U);
  }
  EXPECT_EQ(own.stats().live, 0U);
  EXPECT_EQ(tarn::pool_of<stamped>().stats().live, 0U);
}

struct shared_thing {
  explicit shared_thing(int n) : number(n) {}
  int number;
};

TEST(object_pool, a_shared_object_and_its_control_block_are_one_slot) {
  std::shared_ptr<shared_thing> object = tarn::pool_of<shared_thing>().make_shared(7);
  EXPECT_EQ(object->number, 7);
  EXPECT_EQ(pools_named("shared_thing", "Sp_counted").live, 1U);
  const std::weak_ptr<shared_thing> watcher = object;
  const std::shared_ptr<shared_thing> second = object;
  object.reset();
  EXPECT_EQ(watcher.lock()->number, 7);
  EXPECT_EQ(tarn::pool_of<shared_thing>().stats().live, 0U)
      << "objects without control block are in another pool";
}

TEST(object_pool, a_weak_pointer_keeps_the_slot_alone) {
  struct watched {
    explicit watched(int* where) : dead(where) {}
    ~watched() { ++*dead; }
    int* dead;
  };
  int dead = 0;
  tarn::object_pool<watched> own;
  {
    std::weak_ptr<watched> watcher;
    {
      const auto object = own.make_shared(&dead);
      watcher = object;
      EXPECT_EQ(pools_named("watched", "Sp_counted").live, 1U);
      EXPECT_EQ(own.stats().live, 0U);
    }
    EXPECT_EQ(dead, 1);
    EXPECT_EQ(pools_named("watched", "Sp_counted").live, 1U);
  }
  EXPECT_EQ(pools_named("watched", "Sp_counted").live, 0U);
}

TEST(object_pool, a_pool_that_ends_with_live_objects_says_so_and_keeps_them) {
  const leak_notes notes;
  shared_thing* left = nullptr;
  {
    tarn::object_pool<shared_thing> pool;
    left = pool.create(5);
    pool.destroy(pool.create(6));
  }
  EXPECT_EQ(leak_notes::leaks, 1U);
  EXPECT_EQ(leak_notes::live, 1U);
  EXPECT_EQ(left->number, 5);
  { const tarn::object_pool<shared_thing> empty; }
  EXPECT_EQ(leak_notes::leaks, 1U);
}

TEST(object_pool, the_name_is_the_types_or_the_one_given) {
  const tarn::object_pool<shared_thing> named({.name = "somebody's things"});
  EXPECT_EQ(pools_named("somebody's things").pools, 1U);
  const tarn::object_pool<std::pair<short, shared_thing>> unnamed;
  EXPECT_EQ(pools_named("pair<short").pools, 1U);
}

struct later;
struct holder {
  [[no_unique_address]] tarn::shared_pool<later> pool;
  tarn::pool_ptr<later> object;
  tarn::object_pool<later>* own = nullptr;
};
struct later {
  int number = 3;
};

TEST(object_pool, the_type_may_be_incomplete_where_the_pool_is_named) {
  holder h;
  h.object = h.pool.make_unique();
  EXPECT_EQ(h.object->number, 3);
}

// Creates and destroys objects at random; threads exchange their objects through shared places.
template <class Pool>
void churn(const Pool& pool, int threads) {
  struct exchange {
    std::mutex mutex;
    std::vector<stamped*> objects;
  };
  std::vector<exchange> places(static_cast<std::size_t>(threads));
  in_threads(threads, [&](int index) {
    std::mt19937 random(static_cast<unsigned>(index));
    std::vector<stamped*> live;
    for (int step = 0; step < 30000; ++step) {
      const auto choice = random() % 16;
      if (choice < 8) {
        live.push_back(pool.create(random()));
      } else if (choice < 15 && !live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        if (!live.back()->is_whole()) std::abort();
        pool.destroy(live.back());
        live.pop_back();
      } else {
        exchange& place = places[random() % places.size()];
        const std::lock_guard lock(place.mutex);
        place.objects.swap(live);
      }
    }
    for (stamped* object : live) pool.destroy(object);
  });
  for (exchange& place : places) {
    for (stamped* object : place.objects) pool.destroy(object);
  }
}

TEST(object_pool, objects_pass_between_threads) {
  tarn::object_pool<stamped> own;
  churn(own, 4);
  EXPECT_EQ(own.stats().live, 0U);
  churn(tarn::pool_of<stamped>(), 4);
  EXPECT_EQ(tarn::pool_of<stamped>().stats().live, 0U);
}

// A thread must not take the slots that it has cached of an ended pool for slots of a new pool.
TEST(object_pool, pools_may_follow_each_other_while_a_thread_lives) {
  for (int round = 0; round < 50; ++round) {
    tarn::object_pool<stamped> small;
    tarn::object_pool<limited> large;
    stamped* const a = small.create(1U);
    limited* const b = large.create();
    std::fill(std::begin(b->bytes), std::end(b->bytes), '\x7f');
    in_threads(2, [&](int /*index*/) {
      stamped* const here = small.create(2U);
      large.destroy(large.create());
      small.destroy(here);
    });
    EXPECT_TRUE(a->is_whole());
    small.destroy(a);
    large.destroy(b);
  }
}

TEST(object_pool, objects_outlive_the_thread_that_made_them) {
  constexpr auto pool = tarn::pool_of<stamped>();
  std::vector<stamped*> objects;
  std::thread([&] {
    for (std::uint64_t i = 0; i < 1000; ++i) objects.push_back(pool.create(i));
  }).join();
  std::thread([&] {
    for (int i = 0; i < 500; ++i) {
      pool.destroy(objects.back());
      objects.pop_back();
    }
  }).join();
  for (stamped* object : objects) pool.destroy(object);
  EXPECT_EQ(pool.stats().live, 0U);
}

// Threads that get each other's slots write to the same cache lines, which makes them several times slower and has no
// other visible effect.
TEST(object_pool, threads_that_exchange_nothing_get_back_their_own_slots) {
  if (TARN_CHECKED_POOLS != 0) GTEST_SKIP() << "a checked pool writes over free slots";
  // On a slow machine a round takes longer than a period of decay, which would let other threads take idle slots.
  ASSERT_EQ(tarn_set_option("decay_ms", "-1"), 0);
  tarn::object_pool<counted_line> pool;
  constexpr int threads = 4;
  constexpr int rounds = 6;
  // Unique to this run, because a fresh slot may contain what was written to its memory before.
  const std::uint64_t first_mark = std::random_device()() * std::uint64_t{threads};
  std::vector<std::size_t> foreign(threads);
  // No thread ends before the others, which would take over its spans.
  std::latch all_done(threads);
  in_threads(threads, [&](int index) {
    std::mt19937 random(static_cast<unsigned>(index));
    std::vector<counted_line*> objects(20000);
    const std::uint64_t own = first_mark + static_cast<std::uint64_t>(index);
    for (int round = 0; round < rounds; ++round) {
      for (counted_line*& each : objects) {
        each = pool.allocate();
        std::uint64_t mark = 0;
        std::memcpy(&mark, each->bytes, sizeof mark);
        if (mark != own && mark - first_mark < threads) ++foreign[static_cast<std::size_t>(index)];
        std::memcpy(each->bytes, &own, sizeof own);
      }
      std::ranges::shuffle(objects, random);
      // A free slot keeps its mark.
      for (counted_line* each : objects) pool.deallocate(each);
    }
    all_done.arrive_and_wait();
  });
  for (const std::size_t each : foreign) EXPECT_EQ(each, 0U);
  EXPECT_EQ(tarn_set_option("decay_ms", "1000"), 0);
}

TEST(object_pool, a_thread_takes_over_the_spans_of_one_that_has_ended) {
  tarn::object_pool<counted_line> pool;
  std::vector<counted_line*> kept;
  counted_line* own = pool.allocate();  // assigns the first shard to this thread
  std::thread([&] {
    std::vector<counted_line*> objects(50000);
    for (counted_line*& each : objects) each = pool.allocate();
    for (std::size_t i = 0; i < objects.size(); ++i) {
      if (i % 2 == 0) {
        kept.push_back(objects[i]);
      } else {
        pool.deallocate(objects[i]);
      }
    }
  }).join();
  const std::size_t before = pool.stats().bytes;
  std::vector<counted_line*> objects(20000);
  for (counted_line*& each : objects) each = pool.allocate();
  EXPECT_LE(pool.stats().bytes, before + 2 * 65536);
  // Objects that were live in those spans go back to the spans' new owner.
  std::thread([&] {
    for (counted_line* each : kept) pool.deallocate(each);
  }).join();
  for (counted_line* each : objects) pool.deallocate(each);
  pool.deallocate(own);
  EXPECT_EQ(pool.stats().live, 0U);
  pool.trim();
  EXPECT_EQ(pool.stats().bytes, 0U);
}

TEST(object_pool, hits_and_refills_tell_how_arrays_were_filled) {
  tarn::object_pool<counted_line> pool;
  std::vector<counted_line*> all;
  for (int i = 0; i < 1000; ++i) all.push_back(pool.allocate());
  const tarn::pool_stats stats = pool.stats();
  EXPECT_GE(stats.refills, 1000U / 252U);
  EXPECT_LT(stats.refills, 100U);
  EXPECT_EQ(stats.hits + stats.refills, stats.live + stats.cached);
  for (counted_line* each : all) pool.deallocate(each);
}

// Takes `count` objects, gives them back in random order, and takes half of them again. Returns the fraction of these,
// without the `first` ones, whose address is above that of the one before.
double ascending_part(tarn::object_pool<counted_line>& pool, std::size_t count, std::size_t first) {
  std::vector<counted_line*> objects(count);
  for (counted_line*& each : objects) each = pool.allocate();
  std::ranges::shuffle(objects, std::mt19937(1));
  for (counted_line* each : objects) pool.deallocate(each);
  objects.resize(count / 2);
  for (counted_line*& each : objects) each = pool.allocate();
  std::size_t ascending = 0;
  for (std::size_t i = first + 1; i < objects.size(); ++i) ascending += objects[i - 1] < objects[i] ? 1 : 0;
  const double part = static_cast<double>(ascending) / static_cast<double>(objects.size() - first - 1);
  for (counted_line* each : objects) pool.deallocate(each);
  return part;
}

TEST(object_pool, a_pool_beyond_the_caches_hands_out_in_the_order_of_addresses) {
  if (TARN_CHECKED_POOLS != 0) GTEST_SKIP() << "a checked pool has no arrays of free slots";
  tarn::object_pool<counted_line> pool;
  // The slots that were given back last may come back in that order: 512 KiB and two arrays of a thread.
  constexpr std::size_t unordered = (512 << 10) / sizeof(counted_line) + 2 * 256;
  EXPECT_GT(ascending_part(pool, (20 << 20) / sizeof(counted_line), unordered), 0.98);
  // When the pool is small again, it hands out the slots that were given back last.
  pool.trim();
  EXPECT_LT(ascending_part(pool, (2 << 20) / sizeof(counted_line), 0), 0.6);
}

TEST(object_pool, empty_spans_wait_for_their_thread_up_to_a_limit) {
  if (TARN_CHECKED_POOLS != 0) GTEST_SKIP() << "a checked pool gives its spans back at once";
  tarn::object_pool<counted_line> pool;
  std::vector<counted_line*> objects((24 << 20) / sizeof(counted_line));
  std::size_t most = 0;
  // Decay may return them in between, so several tries.
  for (int tries = 0; most < 8U << 20 && tries < 10; ++tries) {
    for (counted_line*& each : objects) each = pool.allocate();
    for (counted_line* each : objects) pool.deallocate(each);
    most = std::max<std::size_t>(most, pool.stats().bytes);
  }
  EXPECT_GE(most, 8U << 20);
  EXPECT_LE(most, 10U << 20);
  pool.trim();
  EXPECT_EQ(pool.stats().bytes, 0U);
}

}  // namespace
