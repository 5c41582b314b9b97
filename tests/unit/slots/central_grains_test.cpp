// SPDX-License-Identifier: MIT
// central_grains: what is free in sparse spans serves other classes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "slots/central_fixture.hpp"
#include "slots/free_mark.hpp"

namespace tarn {
namespace {

using testing_support::central_fixture;
using testing_support::small;

constexpr unsigned old_class = 22;
constexpr unsigned new_class = 27;

// Moves seven eighths of the objects, chosen at random, to `freed`. Returns the others.
std::vector<void*> thin_out(std::vector<void*> objects, std::vector<void*>& freed) {
  std::shuffle(objects.begin(), objects.end(), std::mt19937(1));
  freed.assign(objects.begin() + static_cast<std::ptrdiff_t>(objects.size() / 8), objects.end());
  objects.resize(objects.size() / 8);
  return objects;
}

class grains_test : public central_fixture {
 protected:
  void SetUp() override {
    if (hardened_build) GTEST_SKIP() << "the hardened build divides no span";
    std::vector<void*> freed;
    old_ = thin_out(take(old_class, 4 * mib / class_info(old_class).size), freed);
    for (void* object : freed) free_mark::set(object);
    give(old_class, freed);
    central_.release_spares(true);
    engine_->heap.trim(0);
  }
  bool is_of_grains(const void* object) {
    return size_classes::is_grain(static_cast<unsigned>(class_at(object)));
  }
  std::size_t class_at(const void* object) { return engine_->map.class_of(address_of(object)); }
  std::size_t bytes_of(const void* object) {
    const auto size_class = static_cast<unsigned>(class_at(object));
    return is_of_grains(object) ? central_.grains().bytes_of(size_class, address_of(object))
                                : class_info(size_class).size;
  }

  std::vector<void*> old_;
};

TEST_F(grains_test, what_is_free_in_sparse_spans_serves_another_class) {
  const std::size_t before = in_use();
  const auto fresh = take(new_class, mib / class_info(new_class).size);
  EXPECT_LT(in_use(), before + mib / 4) << "the heap has grown although most of it is free";
  std::map<std::uintptr_t, std::size_t> blocks;
  for (const auto& objects : {old_, fresh}) {
    for (void* object : objects) ASSERT_TRUE(blocks.emplace(address_of(object), bytes_of(object)).second);
  }
  std::uintptr_t end = 0;
  for (const auto& [start, bytes] : blocks) {
    ASSERT_LE(end, start) << "two blocks overlap";
    end = start + bytes;
  }
  for (const void* object : old_) ASSERT_EQ(bytes_of(object), class_info(old_class).size);
  for (const void* object : fresh) ASSERT_GE(bytes_of(object), class_info(new_class).size);
  give(new_class, fresh);
  give(old_class, old_);
  central_.release_spares(true);
  EXPECT_EQ(in_use(), 0U);
}

TEST_F(grains_test, what_is_free_in_sparse_spans_goes_before_memory_of_which_half_is_backed) {
  page_heap& heap = engine_->heap;
  span* const before = heap.allocate(4, 1, span_state::large, page_heap::source::any, page_heap::use::dense);
  ASSERT_NE(before, nullptr);
  span* const backed = heap.split(before, 1);
  span* const clean = heap.split(backed, 1);
  heap.split(clean, 1);
  heap.deallocate(backed);
  heap.deallocate(clean, page_backing::clean);
  const unsigned of_two_pages = class_of_size(2304);
  ASSERT_EQ(class_info(of_two_pages).span_pages, 2);
  EXPECT_TRUE(is_of_grains(take(of_two_pages, 1).front())) << "the resident set grows by a page";
}

TEST_F(grains_test, small_blocks_are_made_of_grains_only_if_much_memory_is_free) {
  constexpr std::size_t no_grains = 2 * size_classes::largest_of_grains;
  const auto live = take(class_of_size(no_grains), 7 * mib / no_grains);
  EXPECT_FALSE(is_of_grains(take(small, 1).front())) << "a third is free";
  EXPECT_TRUE(is_of_grains(take(new_class, 1).front()));
  give(class_of_size(no_grains), live);
  central_.release_spares(true);
  engine_->heap.trim(0);
  EXPECT_TRUE(is_of_grains(take(small, class_info(small).objects + 1U).back())) << "most is free";
}

TEST_F(grains_test, small_blocks_do_not_come_from_spans_that_are_mostly_in_use) {
  while (is_of_grains(take(new_class, 1).front())) {
  }
  // Much is free, but in spans that cannot be divided.
  std::vector<void*> freed;
  for (void* object : take(1, 4 * mib / class_info(1).size)) {
    if (objects::index_of(span_of(object), address_of(object)) != 0) freed.push_back(object);
  }
  give(1, freed);
  EXPECT_FALSE(is_of_grains(take(small, 1).front()));
  EXPECT_TRUE(is_of_grains(take(old_class - 1, 1).front())) << "a larger block does";
}

TEST_F(grains_test, a_block_has_its_mark_inside_and_no_other) {
  const unsigned coarse = class_of_size(2 * kib);
  // The memory has once been of a class whose objects have their marks outside.
  for (const void* object : old_) {
    const span* const s = span_of(object);
    for (std::uintptr_t at = s->start; at != s->end(); at += page_map::bytes_per_mark)
      free_mark::write(engine_->map.mark(at), true);
  }
  for (const unsigned c : {new_class, coarse}) {
    std::size_t of_grains = 0;
    for (const void* object : take(c, 50)) {
      ASSERT_TRUE(free_mark::is_set(engine_->map, c, object)) << "an object in a magazine has no mark";
      if (!is_of_grains(object)) continue;
      ++of_grains;
      ASSERT_TRUE(free_mark::is_set(object));
      ASSERT_FALSE(free_mark::is_set(engine_->map.mark(address_of(object))));
      for (std::size_t at = size_classes::least_grain; at < class_info(c).size;
           at += size_classes::least_grain)
        ASSERT_FALSE(free_mark::is_set(static_cast<const char*>(object) + at)) << c << ", " << at;
    }
    EXPECT_GT(of_grains, 0U) << c;
  }
}

TEST_F(grains_test, an_object_of_the_class_itself_is_aligned_as_its_size) {
  take(new_class, 200);
  for (int i = 0; i < 50; ++i) ASSERT_EQ(class_at(central_.take_one(new_class, 0, true)), new_class);
}

TEST_F(grains_test, a_block_is_given_back_once_and_by_its_start) {
  void* block = nullptr;
  for (void* object : take(new_class, 200)) {
    if (is_of_grains(object)) block = object;
  }
  ASSERT_NE(block, nullptr);
  const auto grain = static_cast<unsigned>(class_at(block));
  void* inside = static_cast<char*>(block) + class_info(grain).size;
  EXPECT_DEATH(central_.flush(grain, &inside, 1), "into a block");
  void* freed = block;
  central_.flush(grain, &freed, 1);
  EXPECT_DEATH(central_.flush(grain, &block, 1), "double free");
}

}  // namespace
}  // namespace tarn
