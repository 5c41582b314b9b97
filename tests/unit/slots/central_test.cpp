// SPDX-License-Identifier: MIT
// central: objects of a class between spans and magazines.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "broken_invariant.hpp"
#include "slots/central_fixture.hpp"

namespace tarn {
namespace {

using testing_support::central_fixture;
using testing_support::small;

class central_test : public central_fixture {};

TEST_F(central_test, objects_come_in_address_order) {
  if (hardened_build) GTEST_SKIP() << "the order is random in the hardened build";
  const auto objects = take(small, 3 * class_info(small).objects);
  for (std::size_t i = 1; i < class_info(small).objects; ++i) {
    ASSERT_EQ(address_of(objects[i]), address_of(objects[i - 1]) + class_info(small).size);
  }
}

TEST_F(central_test, every_class_gives_each_object_once_and_takes_all_back) {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    const std::size_t count = 2 * class_info(c).objects + 1U;
    auto objects = take(c, count);
    ASSERT_EQ(objects.size(), count);
    const std::set<void*> distinct(objects.begin(), objects.end());
    ASSERT_EQ(distinct.size(), count) << "an object handed out twice";
    for (void* object : objects) {
      ASSERT_EQ(engine_->map.class_of(address_of(object)), c);
      ASSERT_LE(address_of(object) + class_info(c).size, span_of(object)->end());
    }
    std::shuffle(objects.begin(), objects.end(), std::mt19937(c));
    give(c, objects);
    ASSERT_EQ(central_.depots().spare_bytes(), 3U * class_info(c).span_pages * page_size)
        << class_info(c).size;
    central_.release_surplus(c);
    ASSERT_EQ(central_.depots().spare_bytes(), in_use());
    const std::size_t left = in_use();
    ASSERT_EQ(central_.release_spares(true), left);
    ASSERT_EQ(in_use(), 0U);
  }
  engine_->heap.validate();
}

TEST_F(central_test, a_refill_that_finds_less_than_asked_for_fills_the_lower_slots) {
  if (hardened_build) GTEST_SKIP() << "the order is random in the hardened build";
  const auto objects = take(small, class_info(small).objects);
  give(small, {objects[3], objects[9]});
  magazine* const m = new_magazine();
  ASSERT_EQ(central_.refill(small, m, 40), 2U);
  EXPECT_EQ(m->slots[2], objects[3]) << "the lowest address is not on top";
  EXPECT_EQ(m->slots[1], objects[9]);
}

// Whether the thread of this process with that kernel thread id sleeps.
bool is_asleep(long thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string number;
  std::string name;
  char state = 0;
  file >> number >> name >> state;
  return state == 'S';
}

// flush() looks up a block's span before it takes the class's lock. If the block has already been freed, its span may
// be released in between, and the span's structure may then describe other pages, of this class or another.
TEST_F(central_test, a_span_that_is_anothers_since_the_look_up_takes_nothing_back) {
  const auto objects = take(small, class_info(small).objects);
  span* const s = span_of(objects[0]);
  const auto flush_while_the_span_changes = [&](auto change) {
    os::mutex& lock = central_.depots().at(small).lock;
    std::atomic<long> flusher{0};
    lock.lock();
    std::thread late([&] {
      flusher = syscall(SYS_gettid);
      void* object = objects[0];
      central_.flush(small, &object, 1);
    });
    while (flusher == 0 || !is_asleep(flusher)) std::this_thread::yield();
    change();
    lock.unlock();
    late.join();
  };
  constexpr const char* text = "double free, detected when the block returned to its span";
  EXPECT_DEATH(flush_while_the_span_changes([s] { s->start += s->bytes(); }), text);
  EXPECT_DEATH(flush_while_the_span_changes([s] { s->start -= s->bytes(); }), text);
  EXPECT_DEATH(flush_while_the_span_changes([s] { s->size_class = small + 1; }), text);
  // With no change the block goes back.
  flush_while_the_span_changes([] {});
  EXPECT_TRUE(is_in_span(objects[0]));
}

// Objects of several classes are taken and given back at random: no object is handed out twice, no span is lost.
TEST_F(central_test, random_taking_and_giving_loses_nothing) {
  std::mt19937 random(7);
  const unsigned classes[] = {1, small, 20, 45};
  std::vector<void*> live[4];
  std::set<void*> all;
  for (int step = 0; step < 4000; ++step) {
    const std::size_t i = random() % 4;
    const unsigned c = classes[i];
    if (live[i].size() < 600 && random() % 2 == 0) {
      for (void* object : take(c, 1 + random() % 60)) {
        ASSERT_TRUE(all.insert(object).second) << "handed out twice";
        live[i].push_back(object);
      }
    } else if (!live[i].empty()) {
      std::shuffle(live[i].begin(), live[i].end(), random);
      const std::size_t count = 1 + random() % live[i].size();
      const std::vector<void*> back(live[i].end() - static_cast<std::ptrdiff_t>(count), live[i].end());
      live[i].resize(live[i].size() - count);
      for (void* object : back) all.erase(object);
      give(c, back);
    }
    if (step % 100 == 0) central_.release_spares(step % 200 == 0);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    give(classes[i], live[i]);
  }
  central_.release_spares(true);
  EXPECT_EQ(in_use(), 0U) << "a span was lost";
  engine_->heap.validate();
}

TEST_F(central_test, finds_a_broken_invariant) {
  give(small, take(small, 1));
  central_.depots().validate();
  span* const listed = central_.depots().at(small).spans.best();
  listed->owner = nullptr;
  EXPECT_BROKEN(central_.depots().validate(), "class_depots", "s.owner.load(std::memory_order_relaxed) == &d",
                &central_.depots());
  listed->owner = &central_.depots().at(small);
  slot_depot& depot = central_.depots().at(small);
  depot.sparse = true;
  EXPECT_BROKEN(central_.depots().validate(), "class_depots",
                "is_sparse(c, d.home) == (size_classes::may_be_divided(c) && d.sparse)", &central_.depots());
  depot.sparse = false;
  span* const spare = depot.spans.take_spare();
  ASSERT_NE(spare, nullptr);
  EXPECT_BROKEN(central_.depots().validate(), "class_depots", "spare_bytes() == spare", &central_.depots());
  depot.spans.adopt(spare);
  central_.depots().validate();
}

}  // namespace
}  // namespace tarn
