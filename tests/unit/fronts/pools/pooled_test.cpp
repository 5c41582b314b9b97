// SPDX-License-Identifier: MIT
// pooled: operator new and delete of classes, derived classes, arrays, alignment, failure.
#include "tarn/pooled.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "../../../system_probes.hpp"
#include "fronts/pools/pool_support.hpp"

namespace {

using tarn::testing_support::in_threads;
using tarn::testing_support::is_aligned;
using tarn::testing_support::stamped;

template <class T>
std::size_t live() {
  return tarn::pool_of<T>().stats().live;
}

struct order : public tarn::pooled<order> {
  explicit order(int n = 0, bool throws = false) : number(n) {
    if (throws) throw std::runtime_error("as asked");
  }
  virtual ~order() = default;
  int number;
};
struct larger_order : public order {
  explicit larger_order(bool throws = false) : order(1) {
    if (throws) throw std::runtime_error("as asked");
  }
  ~larger_order() override { extra.clear(); }
  std::vector<int> extra = {1, 2, 3};
};
struct same_order : public order {
  using order::order;
};
struct alignas(16) aligned_order : public order {};
struct alignas(256) over_aligned_order : public order {};

TEST(pooled, new_and_delete_use_the_pool) {
  order* const one = new order(4);
  EXPECT_EQ(live<order>(), 1U);
  const auto two = std::make_unique<order>(5);
  EXPECT_EQ(live<order>(), 2U);
  EXPECT_EQ(one->number + two->number, 9);
  delete one;
  EXPECT_EQ(live<order>(), 1U);
  order::operator delete(nullptr, sizeof(order));
}

TEST(pooled, a_constructor_that_throws_gives_the_slot_back) {
  EXPECT_THROW(delete new order(1, true), std::runtime_error);
  EXPECT_THROW(delete new (std::nothrow) order(1, true), std::runtime_error);
  EXPECT_THROW(delete new larger_order(true), std::runtime_error);
  EXPECT_THROW(delete new (std::nothrow) larger_order(true), std::runtime_error);
  EXPECT_EQ(live<order>(), 0U);
}

TEST(pooled, derived_classes_of_other_sizes_do_not) {
  order* const object = new larger_order;
  EXPECT_EQ(live<order>(), 0U);
  EXPECT_EQ(tarn_pool_of(object), nullptr);
  delete object;
  const std::unique_ptr<order> wider(new over_aligned_order);
  EXPECT_TRUE(is_aligned(wider.get(), 256));
  EXPECT_EQ(live<order>(), 0U);
}

TEST(pooled, derived_classes_that_add_nothing_do) {
  order* const object = new same_order(3);
  EXPECT_EQ(live<order>(), 1U);
  delete object;
  EXPECT_EQ(live<order>(), 0U);
  static_assert(sizeof(aligned_order) == sizeof(order) && alignof(aligned_order) > alignof(order));
  std::vector<std::unique_ptr<order>> objects;
  for (int i = 0; i < 100; ++i) {
    objects.push_back(std::make_unique<aligned_order>());
    ASSERT_TRUE(is_aligned(objects.back().get(), 16));
  }
  EXPECT_EQ(live<order>(), 100U);
}

TEST(pooled, arrays_do_not) {
  order* const objects = new order[5];
  EXPECT_EQ(live<order>(), 0U);
  delete[] objects;
}

TEST(pooled, nothrow_does) {
  order* const object = new (std::nothrow) order(2);
  EXPECT_EQ(live<order>(), 1U);
  delete object;
  order* const other = new (std::nothrow) larger_order;
  EXPECT_EQ(live<order>(), 0U);
  delete other;
}

TEST(pooled, objects_may_be_built_in_memory_of_ones_own) {
  alignas(order) std::byte memory[sizeof(order)];
  order* const object = new (memory) order(8);
  EXPECT_EQ(static_cast<void*>(object), memory);
  EXPECT_EQ(live<order>(), 0U);
  object->~order();
  EXPECT_THROW(new (memory) order(8, true), std::runtime_error);
  const std::shared_ptr<order> shared = std::make_shared<order>(9);
  const std::vector<order> copies(3, order(1));
  EXPECT_EQ(live<order>(), 0U);
}

template <std::size_t Alignment>
struct alignas(Alignment) wide : public tarn::pooled<wide<Alignment>> {
  explicit wide(bool throws = false) {
    if (throws) throw std::runtime_error("as asked");
  }
  char byte = 1;
};

template <std::size_t Alignment>
void expect_aligned_objects() {
  using wide_object = wide<Alignment>;
  static_assert(sizeof(wide_object) == Alignment, "the base takes no room");
  std::vector<std::unique_ptr<wide_object>> objects;
  for (int i = 0; i < 50; ++i) {
    objects.push_back(i % 2 == 0 ? std::make_unique<wide_object>()
                                 : std::unique_ptr<wide_object>(new (std::nothrow) wide_object));
    ASSERT_TRUE(is_aligned(objects.back().get(), Alignment));
  }
  EXPECT_EQ(live<wide_object>(), 50U);
  EXPECT_THROW(delete new wide_object(true), std::runtime_error);
  EXPECT_THROW(delete new (std::nothrow) wide_object(true), std::runtime_error);
  EXPECT_EQ(live<wide_object>(), 50U);
  objects.clear();
  EXPECT_EQ(live<wide_object>(), 0U);
}

TEST(pooled, over_aligned_classes_are_aligned) {
  expect_aligned_objects<32>();
  expect_aligned_objects<64>();
  expect_aligned_objects<512>();
  expect_aligned_objects<4096>();
}

struct alignas(64) line : public tarn::pooled<line> {
  explicit line(bool throws = false) {
    if (throws) throw std::runtime_error("as asked");
  }
  virtual ~line() = default;
  char bytes[40] = {};
};
struct two_lines : public line {
  using line::line;
  char more[64] = {};
};

TEST(pooled, derived_from_over_aligned_classes) {
  line* const object = new two_lines;
  EXPECT_TRUE(is_aligned(object, 64));
  EXPECT_EQ(live<line>(), 0U);
  delete object;
  EXPECT_THROW(delete new (std::nothrow) two_lines(true), std::runtime_error);
}

struct special : public order, public tarn::pooled<special> {
  using tarn::pooled<special>::operator new;
  using tarn::pooled<special>::operator delete;
  long more[4] = {};
};

TEST(pooled, a_derived_class_may_have_a_pool_of_its_own) {
  order* const object = new special;
  EXPECT_EQ(live<special>(), 1U);
  EXPECT_EQ(live<order>(), 0U);
  delete object;
  EXPECT_EQ(live<special>(), 0U);
}

struct point : public tarn::pooled<point> {
  int x, y;
};
static_assert(std::is_aggregate_v<point> && std::is_trivially_copyable_v<point> &&
              sizeof(point) == 2 * sizeof(int));

TEST(pooled, aggregates_stay_aggregates) {
  const std::unique_ptr<point> p(new point{{}, 3, 4});
  EXPECT_EQ(p->x * p->y, 12);
  EXPECT_EQ(live<point>(), 1U);
}

struct marked : public stamped, public tarn::pooled<marked> {
  using stamped::stamped;
};

TEST(pooled, deleted_in_another_thread) {
  std::vector<std::vector<std::unique_ptr<marked>>> batches(4);
  in_threads(4, [&](int index) {
    for (std::uint64_t i = 0; i < 5000; ++i) {
      batches[static_cast<std::size_t>(index)].push_back(std::make_unique<marked>(i));
    }
  });
  EXPECT_EQ(live<marked>(), 20000U);
  in_threads(4, [&](int index) { batches[static_cast<std::size_t>(index + 1) % 4].clear(); });
  EXPECT_EQ(live<marked>(), 0U);
}

struct block : public tarn::pooled<block> {
  char bytes[64 * 1024];
};
int handler_calls = 0;

TEST(pooled, the_new_handler_is_asked_first) {
  if (!system_probes::address_space_is_limited()) GTEST_SKIP() << system_probes::no_limit;
  using namespace tarn::testing_support;
  if (under_address_sanitizer || under_thread_sanitizer)
    GTEST_SKIP() << "sanitizers need the address space themselves";
  const auto exhaust = [] {
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = std::size_t{1} << 30;
    setrlimit(RLIMIT_AS, &limit);
    std::set_new_handler([] {
      if (++handler_calls == 3) std::set_new_handler(nullptr);
    });
    try {
      for (int i = 0; i < 100000; ++i) (void)new block;
    } catch (const std::bad_alloc&) {
      std::_Exit(handler_calls == 3 && new (std::nothrow) block == nullptr ? 0 : 2);
    }
    std::_Exit(1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exhaust(), testing::ExitedWithCode(0), "");
}

}  // namespace
