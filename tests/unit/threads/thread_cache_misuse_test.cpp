// SPDX-License-Identifier: MIT
// thread_cache: it takes no object that is free already, and no pointer that is not an object.
#include <gtest/gtest.h>

#include "slots/objects.hpp"
#include "thread_cache_fixture.hpp"

namespace tarn {
namespace {

class thread_cache_misuse_test : public thread_cache_fixture {};

TEST_F(thread_cache_misuse_test, an_object_that_is_in_the_magazine_is_not_taken_again) {
  if (hardened_build) GTEST_SKIP() << "the hardened build has no marks";
  const auto objects = allocate_many(small, 8);
  release_all(small, objects);
  for (void* object : objects) {
    EXPECT_FALSE(cache_.push(engine_->map.find(address_of(object)), object));
  }
  EXPECT_EQ(allocate(small), objects.back());
  EXPECT_TRUE(cache_.push(engine_->map.find(address_of(objects.back())), objects.back()));
}

TEST_F(thread_cache_misuse_test, an_object_in_the_spare_magazine_is_not_taken_again) {
  if (hardened_build) GTEST_SKIP() << "the hardened build has no marks";
  const auto objects = allocate_many(small, 3000);
  release_all(small, objects);
  ASSERT_TRUE(access::has_spare(cache_, small));
  const magazine* const spare = access::spare(cache_, small);
  ASSERT_NE(spare->count, 0U);
  for (std::size_t slot = 1; slot <= spare->count; ++slot) {
    void* const object = spare->slots[slot];
    EXPECT_FALSE(cache_.push(engine_->map.find(address_of(object)), object)) << slot;
  }
}

TEST_F(thread_cache_misuse_test, an_object_that_another_thread_freed_is_not_taken) {
  if (hardened_build) GTEST_SKIP() << "the hardened build has no marks";
  const auto objects = allocate_many(small, 8);
  for (void* object : objects) release_to(other_, small, object);
  for (void* object : objects) {
    EXPECT_FALSE(cache_.push(engine_->map.find(address_of(object)), object));
  }
}

TEST_F(thread_cache_misuse_test, only_the_first_byte_of_an_object_is_taken) {
  open_class(cache_, small);
  auto* const object = static_cast<char*>(allocate(small));
  for (std::size_t i = 1; i < class_info(small).size; ++i) {
    EXPECT_FALSE(cache_.push(engine_->map.find(address_of(object + i)), object + i)) << i;
  }
  EXPECT_TRUE(cache_.push(engine_->map.find(address_of(object)), object));
}

TEST_F(thread_cache_misuse_test, what_is_left_over_of_a_span_is_no_object) {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    void* const object = allocate(c);
    const span* s = engine_->map.span_of(address_of(object));
    for (std::uintptr_t at = s->start; at < objects::first_of(s); at += 8) {
      ASSERT_FALSE(cache_.push(engine_->map.find(at), reinterpret_cast<void*>(at))) << class_info(c).size;
    }
    release(c, object);
  }
}

TEST_F(thread_cache_misuse_test, an_object_that_is_in_its_span_is_not_taken) {
  const auto objects = allocate_many(small, 4);
  release(small, objects[0]);
  cache_.flush_all();
  EXPECT_FALSE(cache_.push(engine_->map.find(address_of(objects[0])), objects[0]));
}

}  // namespace
}  // namespace tarn
