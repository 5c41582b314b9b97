// SPDX-License-Identifier: MIT
// central: objects of a class between spans and magazines, empty spans, full magazines, and spans divided into grains.
#include "central/central.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "broken_invariant.hpp"
#include "central/objects.hpp"
#include "own_engine.hpp"

namespace tarn {
namespace {

class central_test : public testing::Test {
 protected:
  magazine* new_magazine() { return central_.magazines().allocate(engine_->metadata, 2); }

  // Takes `count` objects. Returns them in the order in which a cache would hand them out.
  std::vector<void*> take(unsigned size_class, std::size_t count, unsigned home = 0) {
    std::vector<void*> out;
    while (out.size() < count) {
      magazine* const m = new_magazine();
      const std::size_t most =
          std::min<std::size_t>({count - out.size(), m->capacity, class_info(size_class).magazine});
      const std::size_t got = central_.refill(size_class, m, most, home);
      EXPECT_NE(got, 0U);
      if (got == 0) break;
      for (std::size_t slot = got; slot > 0; --slot) out.push_back(m->slots[slot]);
      m->count = 0;
      central_.magazines().deallocate(m);
    }
    return out;
  }

  void give(unsigned size_class, std::vector<void*> objects) {
    for (std::size_t i = 0; i < objects.size(); i += largest_magazine) {
      central_.flush(size_class, objects.data() + i, std::min(largest_magazine, objects.size() - i));
    }
  }

  span* span_of(const void* object) { return engine_->map.span_of(address_of(object)); }
  bool is_in_span(const void* object) {
    const span* s = span_of(object);
    EXPECT_EQ(s->free_objects, objects::count_free(s));
    const std::size_t index = objects::index_of(s, address_of(object));
    EXPECT_EQ(objects::at(s, index), object);
    return objects::is_free(s, index);
  }
  std::size_t in_use() { return engine_->heap.stats().in_use; }

  std::unique_ptr<testing_support::own_engine> engine_ = testing_support::make_engine();
  central& central_ = engine_->central_tier;
};

constexpr unsigned small = 5;  // objects of 64 bytes

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
    ASSERT_EQ(central_.spare_bytes(), 3U * class_info(c).span_pages * page_size) << class_info(c).size;
    central_.settle(c);
    ASSERT_EQ(central_.spare_bytes(), in_use());
    const std::size_t left = in_use();
    ASSERT_EQ(central_.release_spares(true), left);
    ASSERT_EQ(in_use(), 0U);
  }
  engine_->heap.validate();
}

TEST_F(central_test, empty_spans_are_used_again_in_the_order_of_their_addresses) {
  if (hardened_build) GTEST_SKIP() << "the order is random in the hardened build";
  constexpr std::size_t spans = 64;
  const std::size_t count = spans * class_info(small).objects;
  auto objects = take(small, count);
  ASSERT_EQ(objects.size(), count);
  std::shuffle(objects.begin(), objects.end(), std::mt19937(1));
  give(small, objects);
  ASSERT_EQ(central_.spare_bytes(), spans * class_info(small).span_pages * page_size);
  const auto again = take(small, count);
  ASSERT_EQ(again.size(), count);
  EXPECT_EQ(central_.depot(small).counters.spans_made.load(), spans);
  // Without an order, 63 of 64 spans would follow one that is not their neighbour. Each walk begins at any spare span and
  // leaves those before it, so about ln 64 walks are needed.
  std::size_t jumps = 0;
  for (std::size_t i = 1; i < again.size(); ++i) {
    jumps += address_of(again[i]) == address_of(again[i - 1]) + class_info(small).size ? 0 : 1;
  }
  EXPECT_LE(jumps, 16U);
}

TEST_F(central_test, tells_which_spare_span_is_used_next) {
  if (hardened_build) GTEST_SKIP() << "the order is random in the hardened build";
  constexpr std::size_t spans = 16;
  const std::size_t per_span = class_info(small).objects;
  auto objects = take(small, spans * per_span);
  ASSERT_EQ(objects.size(), spans * per_span);
  std::shuffle(objects.begin(), objects.end(), std::mt19937(2));
  give(small, objects);
  auto taken = take(small, per_span);
  for (std::size_t i = 1; i < spans; ++i) {
    central::occupancy out{};
    ASSERT_TRUE(central_.occupancy_of(taken[0], out));
    taken = take(small, per_span);
    EXPECT_EQ(out.next_from, span_of(taken[0])->start);
  }
}

TEST_F(central_test, what_comes_back_is_taken_again_before_a_span_is_made) {
  const auto objects = take(small, class_info(small).objects);
  give(small, {objects[7]});
  EXPECT_TRUE(is_in_span(objects[7]));
  EXPECT_EQ(span_of(objects[7])->free_objects, 1);
  EXPECT_EQ(take(small, 1)[0], objects[7]);
  EXPECT_EQ(span_of(objects[7])->free_objects, 0);
  EXPECT_EQ(central_.depot(small).counters.spans_made.load(), 1U);
}

TEST_F(central_test, the_fullest_span_is_used_up_first) {
  const std::size_t per_span = class_info(small).objects;
  const auto objects = take(small, 2 * per_span);
  // Gives back most objects of the first span and a few of the second.
  give(small, {objects.begin(), objects.begin() + static_cast<std::ptrdiff_t>(per_span - 2)});
  give(small, {objects.end() - 3, objects.end()});
  for (const void* object : take(small, 3)) EXPECT_EQ(span_of(object), span_of(objects.back()));
  EXPECT_EQ(span_of(take(small, 1)[0]), span_of(objects.front()));
}

TEST_F(central_test, an_empty_span_is_kept_for_the_next_refill) {
  if (hardened_build) GTEST_SKIP() << "the order is random in the hardened build";
  const auto objects = take(small, class_info(small).objects);
  EXPECT_EQ(central_.spare_bytes(), 0U);
  give(small, objects);
  EXPECT_EQ(central_.spare_bytes(), class_info(small).span_pages * page_size);
  EXPECT_EQ(take(small, 1)[0], objects[0]);
  EXPECT_EQ(central_.spare_bytes(), 0U);
  EXPECT_EQ(central_.depot(small).counters.spans_made.load(), 1U);
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

TEST_F(central_test, an_object_that_is_in_its_span_is_not_taken_back) {
  auto objects = take(small, 3);
  give(small, {objects[1]});
  EXPECT_DEATH(give(small, {objects[0], objects[1]}),
               "double free, detected when the block returned to its span");
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
    os::mutex& lock = central_.depot(small).lock;
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

TEST_F(central_test, spares_that_were_used_lately_stay_for_a_period) {
  give(small, take(small, 3 * class_info(small).objects));
  EXPECT_EQ(central_.release_spares(false), 0U) << "they became spare in this period";
  EXPECT_EQ(central_.release_spares(false), 3U * class_info(small).span_pages * page_size);
  EXPECT_EQ(central_.spare_bytes(), 0U);
}

TEST_F(central_test, empty_spans_serve_other_classes_before_the_heap_grows) {
  const auto objects = take(small, 64 * class_info(small).objects);
  const std::size_t used = in_use();
  give(small, objects);
  EXPECT_EQ(central_.spare_bytes(), used);
  const unsigned large = class_of_size(64 * kib);
  take(large, 1);
  EXPECT_LT(central_.spare_bytes(), used);
  EXPECT_NE(central_.spare_bytes(), 0U) << "no more than are needed";
  EXPECT_LE(in_use(), used);
}

TEST_F(central_test, a_class_keeps_few_empty_spans) {
  const auto objects = take(small, 64 * class_info(small).objects);
  const std::size_t used = in_use();
  give(small, objects);
  central_.settle(small);
  EXPECT_LE(central_.spare_bytes(), used / 4);
  EXPECT_EQ(central_.spare_bytes(), in_use());
  EXPECT_GE(engine_->heap.dirty_bytes(), used / 2);
}

TEST_F(central_test, full_magazines_change_hands_up_to_a_limit) {
  for (const unsigned c : {1U, small, 40U, size_classes::count - 1}) {
    EXPECT_EQ(central_.take_full(c), nullptr);
    std::vector<magazine*> given;
    for (;;) {
      magazine* const m = new_magazine();
      const std::size_t most = std::min<std::size_t>(m->capacity, class_info(c).magazine);
      while (m->count < most) {
        const auto one = take(c, 1);
        m->slots[++m->count] = one[0];
      }
      if (!central_.give_full(c, m)) break;
      given.push_back(m);
      ASSERT_LE(given.size(), 4096U) << "the depot has no limit";
    }
    const std::size_t bytes = given.size() * class_info(c).magazine * std::size_t{class_info(c).size};
    EXPECT_GE(given.size(), 2U);
    EXPECT_LE(bytes, std::max<std::size_t>(256 * kib, 2 * largest_class_size));
    EXPECT_EQ(central_.handover_bytes(), bytes);
    EXPECT_EQ(central_.take_full(c), given.back()) << "not the one given last";
    given.pop_back();
    central_.flush_idle_magazines(true);
    EXPECT_EQ(central_.handover_bytes(), 0U);
    EXPECT_EQ(central_.take_full(c), nullptr);
  }
}

TEST_F(central_test, magazines_that_nobody_wants_for_a_period_are_flushed) {
  magazine* m = new_magazine();
  m->count = static_cast<std::uint16_t>(central_.refill(small, m, class_info(small).magazine));
  const void* const object = m->slots[1];
  ASSERT_TRUE(central_.give_full(small, m));
  central_.flush_idle_magazines(false);
  EXPECT_NE(central_.handover_bytes(), 0U) << "it was given in this period";
  central_.flush_idle_magazines(false);
  EXPECT_EQ(central_.handover_bytes(), 0U);
  EXPECT_TRUE(is_in_span(object));
}

TEST_F(central_test, who_leaves_a_full_magazine_gets_an_empty_one) {
  const std::size_t most = class_info(small).magazine;
  std::vector<magazine*> full;
  for (int i = 0; i < 2; ++i) {
    full.push_back(new_magazine());
    full.back()->count = static_cast<std::uint16_t>(central_.refill(small, full.back(), most));
  }
  magazine* empty = nullptr;
  ASSERT_TRUE(central_.give_full(small, full[0], 0, &empty));
  EXPECT_EQ(empty, nullptr);
  magazine* const left = new_magazine();
  ASSERT_TRUE(central_.leave_empty(small, left));
  ASSERT_TRUE(central_.give_full(small, full[1], 0, &empty));
  EXPECT_EQ(empty, left);
  EXPECT_EQ(central_.depot(small).empty_hint(), 0U);
}

TEST_F(central_test, a_depot_keeps_few_empty_magazines_and_frees_those_that_nobody_needs) {
  magazine* shorter = central_.magazines().allocate(central_.metadata(), 0);
  ASSERT_LT(shorter->capacity, class_info(small).magazine);
  EXPECT_FALSE(central_.leave_empty(small, shorter)) << "not every giver could use it";
  std::vector<magazine*> left;
  while (left.size() < 4096) {
    left.push_back(new_magazine());
    if (!central_.leave_empty(small, left.back())) break;
  }
  EXPECT_GE(left.size(), 3U);
  EXPECT_LT(left.size(), 100U) << "the depot has no limit";
  EXPECT_EQ(central_.depot(small).empty_hint(), left.size() - 1);
  // Full and empty ones have one limit.
  magazine* const full = left.back();
  full->count = static_cast<std::uint16_t>(central_.refill(small, full, class_info(small).magazine));
  ASSERT_TRUE(central_.give_full(small, full));
  EXPECT_FALSE(central_.leave_empty(small, new_magazine()));
  central_.flush_idle_magazines(false);
  EXPECT_EQ(central_.depot(small).empty_hint(), left.size() - 1) << "they were left in this period";
  central_.flush_idle_magazines(false);
  EXPECT_EQ(central_.depot(small).empty_hint(), 0U);
  EXPECT_EQ(std::count(left.begin(), left.end(), new_magazine()), 1) << "they did not go back to the store";
}

// Objects of the class go back to their spans and are taken out again, in one period.
class full_limit_test : public central_test {
 protected:
  void SetUp() override {
    objects_ = take(small, objects);
    before_ = leave();
    central_.flush_idle_magazines(true);
    objects_ = take(small, objects);
    give(small, objects_);
    objects_ = take(small, objects);
  }
  // Leaves objects in full magazines until there is no room for more; gives the others back. Returns the magazines'
  // number.
  std::size_t leave() {
    std::size_t left = 0;
    for (; objects_.size() >= class_info(small).magazine; ++left) {
      magazine* const m = new_magazine();
      m->count = class_info(small).magazine;
      std::copy(objects_.end() - m->count, objects_.end(), m->bottom());
      if (!central_.give_full(small, m)) break;
      objects_.resize(objects_.size() - m->count);
    }
    give(small, std::exchange(objects_, {}));
    return left;
  }

  static constexpr std::size_t objects = 100000;
  static constexpr std::size_t bytes = objects * class_info(small).size;
  std::size_t before_ = 0;
  std::vector<void*> objects_;
};

TEST_F(full_limit_test, more_magazines_wait_if_their_objects_are_taken_again) {
  const std::size_t now = leave();
  EXPECT_GT(now, 2 * before_);
  EXPECT_LE((now - before_) * class_info(small).magazine * sizeof(void*), bytes / 8);
}

// In random order, so that spans become partly free and the class drains until all of its free objects may wait.
TEST_F(central_test, what_is_freed_and_allocated_again_and_again_comes_to_wait_in_full_magazines) {
  constexpr std::size_t count = 100000;
  std::mt19937 random(1);
  std::vector<void*> live;
  const auto refills = [this] { return central_.depot(small).counters.refills.load(); };
  std::uint64_t before = 0;
  for (int round = 0; round < 12; ++round) {
    before = refills();
    while (live.size() < count) {
      magazine* m = central_.take_full(small);
      if (m == nullptr) {
        m = new_magazine();
        m->count = static_cast<std::uint16_t>(central_.refill(small, m, class_info(small).magazine));
      }
      live.insert(live.end(), m->bottom(), m->bottom() + m->count);
      central_.magazines().deallocate(m);
    }
    std::shuffle(live.begin(), live.end(), random);
    while (!live.empty()) {
      magazine* const m = new_magazine();
      m->count = static_cast<std::uint16_t>(std::min<std::size_t>(live.size(), class_info(small).magazine));
      std::copy(live.end() - m->count, live.end(), m->bottom());
      live.resize(live.size() - m->count);
      if (m->count == class_info(small).magazine && central_.give_full(small, m)) continue;
      central_.flush(small, m->bottom(), m->count);
      central_.magazines().deallocate(m);
    }
  }
  EXPECT_LE(refills() - before, count / class_info(small).magazine / 10);
}

TEST_F(full_limit_test, fewer_wait_after_a_period_in_which_nobody_took_them) {
  leave();
  central_.flush_idle_magazines(false);
  central_.flush_idle_magazines(false);
  EXPECT_EQ(central_.handover_bytes(), 0U);
  EXPECT_EQ(central_.depot(small).full_limit.extra(), 0U);
}

TEST_F(full_limit_test, those_beyond_the_limit_go_back_before_the_heap_grows) {
  ASSERT_GT(leave(), before_);
  engine_->heap.trim(0);
  const std::size_t used = in_use();
  take(small + 1, bytes / class_info(small + 1).size / 2);
  EXPECT_EQ(central_.handover_bytes(), 0U);
  EXPECT_EQ(central_.depot(small).full_limit.extra(), 0U);
  EXPECT_LE(in_use(), used) << "empty spans serve the other class";
}

TEST_F(full_limit_test, a_depot_that_drains_keeps_no_magazine) {
  for (std::size_t i = 0; i < objects / 2; ++i) std::swap(objects_[i], objects_[2 * i]);
  give(small, {objects_.begin() + objects / 2, objects_.end()});
  objects_.resize(objects / 2);
  ASSERT_TRUE(central_.draining(small));
  EXPECT_EQ(leave(), 0U);
}

TEST_F(central_test, spare_spans_go_back_until_there_are_enough_bytes) {
  const auto some = take(small, 8 * class_info(small).objects);
  give(small, some);
  const std::size_t spare = central_.spare_bytes();
  const std::size_t span_length = span_of(some[0])->bytes();
  ASSERT_GE(spare, 8 * span_length);
  EXPECT_EQ(central_.release_spares(true, 2 * span_length + 1), 3 * span_length);
  EXPECT_EQ(central_.spare_bytes(), spare - 3 * span_length);
}

TEST_F(central_test, full_magazines_do_not_pin_the_spans_of_a_class_that_drains) {
  auto objects = take(small, 4 * mib / class_info(small).size);
  magazine* m = new_magazine();
  for (std::size_t i = 0; i < class_info(small).magazine; ++i) m->slots[++m->count] = objects[16 * i];
  ASSERT_TRUE(central_.give_full(small, m));
  // Gives back every second object, so that all spans become sparse.
  std::vector<void*> back;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i % 2 == 1) back.push_back(objects[i]);
  }
  give(small, back);
  ASSERT_TRUE(central_.draining(small));
  EXPECT_EQ(central_.handover_bytes(), 0U);
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

// ---- grains ----

constexpr unsigned old_class = 22;
constexpr unsigned new_class = 27;

// Moves seven eighths of the objects, chosen at random, to `freed`. Returns the others.
std::vector<void*> thin_out(std::vector<void*> objects, std::vector<void*>& freed) {
  std::shuffle(objects.begin(), objects.end(), std::mt19937(1));
  freed.assign(objects.begin() + static_cast<std::ptrdiff_t>(objects.size() / 8), objects.end());
  objects.resize(objects.size() / 8);
  return objects;
}

class grains_test : public central_test {
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
    return is_of_grains(object) ? central_.bytes_of_grains(size_class, address_of(object))
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

TEST_F(grains_test, no_mark_lies_within_a_block) {
  for (const void* object : take(new_class, 200)) {
    ASSERT_TRUE(free_mark::is_set(object)) << "an object in a magazine has no mark";
    for (std::size_t at = size_classes::least_grain; at < class_info(new_class).size && is_of_grains(object);
         at += size_classes::least_grain) {
      ASSERT_FALSE(free_mark::is_set(static_cast<const char*>(object) + at));
    }
  }
}

TEST_F(grains_test, an_object_of_the_class_itself_is_aligned_as_its_size) {
  take(new_class, 200);
  for (int i = 0; i < 50; ++i) ASSERT_EQ(class_at(central_.take_from_own_spans(new_class)), new_class);
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

// ---- homes ----

TEST_F(central_test, threads_of_two_memory_nodes_share_no_home) {
  std::set<unsigned> homes[2];
  for (unsigned thread = 0; thread < 4 * central::most_homes; ++thread) {
    homes[thread % 2].insert(central_.enter_home(thread % 2));
  }
  EXPECT_EQ(homes[0].size(), central::most_homes / 2);
  EXPECT_EQ(homes[1].size(), central::most_homes / 2);
  for (const unsigned home : homes[0]) EXPECT_EQ(homes[1].count(home), 0U);
}

TEST_F(central_test, a_home_that_its_threads_have_left_serves_any_node) {
  std::vector<std::uint8_t> left;
  for (unsigned i = 0; i < central::most_homes; ++i) left.push_back(central_.enter_home(0));
  for (const std::uint8_t home : left) central_.leave_home(home);
  std::set<unsigned> homes;
  for (unsigned i = 0; i < central::most_homes; ++i) homes.insert(central_.enter_home(1));
  EXPECT_EQ(homes.size(), central::most_homes);
}

// A class that threads of the homes 0, 1 and 2 use; each home has objects of its own.
class homes_test : public central_test {
 protected:
  static constexpr unsigned homes = 3;
  static constexpr std::size_t count = 512 * kib / class_info(small).size;

  void SetUp() override {
    for (unsigned home = 0; home < homes; ++home) ASSERT_EQ(central_.enter_home(), home);
    std::vector<void*> first;
    for (unsigned turn = 0; central_.depot(small, 1).home == 0 || central_.depot(small, 2).home == 0;
         ++turn) {
      ASSERT_LT(turn, 100U) << "the class is still that of one home";
      const auto some = take(small, count / 8, turn % homes);
      first.insert(first.end(), some.begin(), some.end());
    }
    give(small, first);
    central_.release_spares(true);
    ASSERT_EQ(in_use(), 0U);
    for (unsigned home = 0; home < homes; ++home) objects_[home] = take(small, count, home);
  }
  unsigned home_of(const void* object) { return span_of(object)->home; }
  magazine* full_magazine(const std::vector<void*>& objects) {
    magazine* const m = new_magazine();
    for (std::size_t i = 0; i < class_info(small).magazine; ++i) m->slots[++m->count] = objects[i];
    return m;
  }
  // Frees all objects; then no span may be in use.
  void expect_nothing_lost() {
    for (const auto& each : objects_) give(small, each);
    central_.flush_idle_magazines(true);
    central_.validate();
    central_.release_spares(true);
    EXPECT_EQ(in_use(), 0U);
  }

  std::vector<void*> objects_[homes];
};

TEST_F(central_test, a_class_that_one_thread_uses_has_one_depot) {
  for (int turn = 0; turn < 100; ++turn) take(small, 1000, 1);
  EXPECT_EQ(central_.depot(small, 1).home, 0);
}

TEST_F(central_test, a_class_of_little_memory_has_one_depot) {
  for (unsigned turn = 0; turn < 100; ++turn) take(small, 100, turn % 2);
  EXPECT_EQ(central_.depot(small, 1).home, 0);
}

TEST_F(central_test, a_class_of_larger_objects_has_one_depot) {
  const unsigned larger = fine_class_of(512);
  for (unsigned turn = 0; turn < 100; ++turn) take(larger, 1000, turn % 2);
  EXPECT_EQ(central_.depot(larger, 1).home, 0);
}

TEST_F(homes_test, each_home_has_spans_of_its_own) {
  for (unsigned home = 0; home < homes; ++home) {
    for (const void* object : objects_[home]) ASSERT_EQ(home_of(object), home);
  }
  expect_nothing_lost();
}

TEST_F(homes_test, objects_of_several_homes_go_back_to_theirs) {
  std::vector<void*> mixed;
  for (std::size_t i = 0; i < count; ++i) {
    for (auto& each : objects_) mixed.push_back(each[i]);
  }
  for (auto& each : objects_) each.clear();
  give(small, mixed);
  for (unsigned home = 0; home < homes; ++home) {
    os::lock_guard guard(central_.depot(small, home).lock);
    EXPECT_EQ(central_.depot(small, home).taken(), 0U);
    EXPECT_EQ(central_.depot(small, home).spare_count.load(), count / class_info(small).objects);
  }
  expect_nothing_lost();
}

TEST_F(homes_test, a_double_free_of_objects_of_several_homes_is_detected) {
  const std::vector<void*> twice = {objects_[0][0], objects_[1][0], objects_[2][0], objects_[1][0]};
  EXPECT_DEATH(give(small, twice), "double free, detected when the block returned to its span");
}

TEST_F(homes_test, a_full_magazine_waits_where_its_objects_belong) {
  magazine* const of_two = full_magazine(objects_[2]);
  ASSERT_TRUE(central_.give_full(small, of_two, 1));
  EXPECT_EQ(central_.take_full(small, 1), nullptr);
  EXPECT_EQ(central_.take_full(small, 2), of_two);
  std::vector<void*> mixed = objects_[0];
  mixed[1 + class_info(small).magazine / 2] = objects_[2].back();
  mixed[class_info(small).magazine / 2] = objects_[2].back();
  magazine* const of_two_homes = full_magazine(mixed);
  ASSERT_TRUE(central_.give_full(small, of_two_homes, 1));
  EXPECT_EQ(central_.take_full(small, 1), of_two_homes) << "not left for the threads of its giver";
}

TEST_F(homes_test, empty_spans_serve_other_homes_before_the_heap_grows) {
  const std::size_t used = in_use();
  give(small, objects_[1]);
  objects_[1].clear();
  const auto more = take(small, count / 2, 2);
  EXPECT_EQ(in_use(), used);
  for (const void* object : more) ASSERT_EQ(home_of(object), 2U);
  objects_[2].insert(objects_[2].end(), more.begin(), more.end());
  expect_nothing_lost();
}

// Gives back every second object of the home.
class half_free_homes_test : public homes_test {
 protected:
  void SetUp() override {
    homes_test::SetUp();
    std::vector<void*> half;
    for (std::size_t i = 0; i < count; i += 2) {
      half.push_back(objects_[1][i]);
      objects_[0].push_back(objects_[1][i + 1]);
    }
    objects_[1].clear();
    give(small, half);
    engine_->heap.trim(0);
    used_ = in_use();
  }
  // Whether objects for home 2 come from the half-free spans of home 1.
  bool gives_its_spans() {
    const auto more = take(small, count / 4, 2);
    objects_[2].insert(objects_[2].end(), more.begin(), more.end());
    return in_use() == used_;
  }
  std::size_t used_ = 0;
};

TEST_F(half_free_homes_test, spans_partly_used_stay_with_threads_that_used_them_lately) {
  EXPECT_FALSE(gives_its_spans());
  expect_nothing_lost();
}

TEST_F(half_free_homes_test, only_what_nobody_needed_for_a_period_may_be_divided) {
  object_depot& d = central_.depot(small, 1);
  const auto sparse = [&d] {
    os::lock_guard guard(d.lock);
    return d.sparse;
  };
  EXPECT_FALSE(sparse());
  central_.flush_idle_magazines(false);
  central_.flush_idle_magazines(false);
  give(small, {objects_[0].back()});  // counts are looked at when they change
  objects_[0].pop_back();
  EXPECT_TRUE(sparse());
  expect_nothing_lost();
}

TEST_F(half_free_homes_test, spans_partly_used_move_after_a_period_without_use) {
  central_.flush_idle_magazines(false);
  central_.flush_idle_magazines(false);
  EXPECT_TRUE(gives_its_spans());
  expect_nothing_lost();
}

TEST_F(half_free_homes_test, spans_partly_used_move_from_a_home_whose_threads_have_ended) {
  central_.leave_home(1);
  EXPECT_TRUE(gives_its_spans());
  expect_nothing_lost();
}

TEST_F(homes_test, finds_a_broken_invariant) {
  give(small, {objects_[1][0]});
  central_.validate();
  span_of(objects_[1][0])->home = 2;
  EXPECT_BROKEN(central_.validate(), "central", "s.home.load(std::memory_order_relaxed) == d.home",
                &central_);
}

TEST_F(central_test, finds_a_broken_invariant) {
  give(small, take(small, 1));
  central_.validate();
  span* const listed = central_.depot(small).best();
  listed->owner = nullptr;
  EXPECT_BROKEN(central_.validate(), "central", "s.owner.load(std::memory_order_relaxed) == &d", &central_);
  listed->owner = &central_.depot(small);
  object_depot& depot = central_.depot(small);
  depot.sparse = true;
  EXPECT_BROKEN(central_.validate(), "central",
                "size_classes::is_grain(c) || is_sparse(c, d.home) == d.sparse", &central_);
  depot.sparse = false;
  span* const spare = depot.take_spare_span();
  ASSERT_NE(spare, nullptr);
  EXPECT_BROKEN(central_.validate(), "central", "spare_bytes() == spare", &central_);
  depot.adopt(spare);
  central_.validate();
}

}  // namespace
}  // namespace tarn
