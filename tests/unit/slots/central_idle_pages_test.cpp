// SPDX-License-Identifier: MIT
// central_idle_pages: pages between live objects go back, and their objects are whole when they are used again.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "broken_invariant.hpp"
#include "engine/instance.hpp"
#include "os/memory.hpp"
#include "slots/central.hpp"
#include "slots/free_mark.hpp"

namespace tarn {
namespace {

constexpr std::size_t idle_bytes = 1024;
constexpr std::size_t idle_spans = 300;

unsigned class_for(std::size_t bytes) {
  unsigned c = 1;
  while (class_info(c).size < bytes) ++c;
  return c;
}

std::size_t resident_bytes(const std::vector<void*>& objects) {
  const std::size_t page = os::system_page_size();
  std::size_t resident = 0;
  for (void* object : objects) {
    unsigned char state = 0;
    void* const start = reinterpret_cast<void*>(align_down(address_of(object), page));
    if (!os::find_resident(start, page, &state)) return 0;
    resident += state & 1U;
  }
  return resident;
}

// All objects of many spans, then all but one of each span given back.
struct sparse_spans {
  central& c = engine::central_tier;
  unsigned size_class;
  std::vector<void*> live;
  std::vector<void*> freed;

  explicit sparse_spans(std::size_t bytes = idle_bytes) : size_class(class_for(bytes)) {
    const std::size_t per_span = class_info(size_class).objects;
    std::vector<void*> objects;
    for (std::size_t i = 0; i < idle_spans * per_span; ++i) {
      objects.push_back(c.take_one(size_class));
      std::memset(objects.back(), 7, idle_bytes);
    }
    std::sort(objects.begin(), objects.end());
    for (std::size_t i = 0; i < objects.size(); ++i) (i % per_span == 0 ? live : freed).push_back(objects[i]);
    give_back(freed);
  }
  ~sparse_spans() {
    give_back(live);
    c.release_surplus(size_class);
  }
  void give_back(std::vector<void*>& objects) const {
    for (void* object : objects) {
      free_mark::set(c.map(), size_class, object);
      c.flush(size_class, &object, 1);
    }
  }
};

TEST(central_idle_pages, go_back) {
  if constexpr (hardened_build) GTEST_SKIP() << "its objects must be zeroed before they go back";
  if (os::system_page_size() > span_bytes(class_for(idle_bytes)) / 2)
    GTEST_SKIP() << "no page lies between objects";
  sparse_spans s;
  const std::size_t before = resident_bytes(s.freed);
  const std::size_t returned = s.c.heap().stats().returned;
  const std::size_t dropped = s.c.map().dropped_bytes();
  const std::size_t purged = s.c.purge_idle_pages(true);
  EXPECT_EQ(s.c.map().dropped_bytes(), dropped + purged);
  EXPECT_GE(s.c.heap().stats().returned, returned + purged);
  EXPECT_GE(purged, idle_spans * (span_bytes(s.size_class) - os::system_page_size()));
  EXPECT_LE(resident_bytes(s.freed), before / 2);
  for (void* object : s.live) {
    for (std::size_t i = 0; i < idle_bytes; ++i) ASSERT_EQ(static_cast<unsigned char*>(object)[i], 7);
  }
  s.c.depots().validate();
  EXPECT_EQ(s.c.purge_idle_pages(true), 0U) << "nothing was freed since";
}

TEST(central_idle_pages, objects_are_marked_when_they_are_taken) {
  if constexpr (hardened_build) GTEST_SKIP() << "it has no marks";
  sparse_spans s;
  const std::size_t dropped = s.c.map().dropped_bytes();
  s.c.purge_idle_pages(true);
  EXPECT_GT(s.c.map().dropped_bytes(), dropped);
  const auto taken = s.c.depots().figures_of(s.size_class).taken;
  constexpr std::size_t most = 12;
  std::vector<void*> again;
  for (std::size_t i = 0; i < s.freed.size() / most; ++i) {
    magazine* const m = s.c.magazines().allocate(s.c.metadata(), 0);
    ASSERT_NE(m, nullptr);
    const std::size_t found = s.c.refill(s.size_class, m, most);
    for (std::size_t k = 0; k < found; ++k) {
      EXPECT_TRUE(free_mark::is_set(s.c.map(), s.size_class, m->bottom()[k]));
      again.push_back(m->bottom()[k]);
    }
    s.c.magazines().deallocate(m);
  }
  EXPECT_EQ(s.c.depots().figures_of(s.size_class).taken, taken + again.size());
  EXPECT_EQ(s.c.map().dropped_bytes(), dropped) << "their pages may be backed again";
  s.give_back(again);
  s.c.depots().validate();
}

TEST(central_idle_pages, are_none_of_spans_that_have_ended) {
  const std::size_t dropped = engine::map.dropped_bytes();
  {
    sparse_spans s;
    s.c.purge_idle_pages(true);
  }
  engine::central_tier.release_spares(true);
  EXPECT_EQ(engine::map.dropped_bytes(), dropped);
  engine::heap.validate();
}

TEST(central_idle_pages, wait_for_an_idle_period) {
  if constexpr (hardened_build) GTEST_SKIP() << "its objects must be zeroed before they go back";
  if (os::system_page_size() > span_bytes(class_for(idle_bytes)) / 2)
    GTEST_SKIP() << "no page lies between objects";
  sparse_spans s;
  s.c.flush_idle_magazines(false);  // ends the period in which they were freed
  EXPECT_EQ(s.c.purge_idle_pages(false), 0U);
  s.c.flush_idle_magazines(false);
  EXPECT_NE(s.c.purge_idle_pages(false), 0U);
}

TEST(central_idle_pages, spans_whose_pages_the_system_keeps_stay_listed) {
  if constexpr (hardened_build) GTEST_SKIP() << "its objects must be zeroed before they go back";
  sparse_spans s;
  std::vector<span*> locked;
  for (void* object : s.live) {
    span* const of_object = s.c.map().span_of(address_of(object));
    // By the system call: the sanitizers' mlock() does nothing.
    if (syscall(SYS_mlock, of_object->start, of_object->bytes()) != 0) break;
    locked.push_back(of_object);
  }
  if (locked.size() == s.live.size()) {
    s.c.purge_idle_pages(true);
    for (void* object : s.live) EXPECT_EQ(s.c.map().class_of(address_of(object)), s.size_class);
    s.c.depots().validate();
  }
  for (const span* each : locked) syscall(SYS_munlock, each->start, each->bytes());
  if (locked.size() != s.live.size()) GTEST_SKIP() << "so much memory may not be locked";
}

TEST(central_idle_pages, a_few_locked_spans_keep_no_others_from_it) {
  if constexpr (hardened_build) GTEST_SKIP() << "its objects must be zeroed before they go back";
  if (os::system_page_size() > span_bytes(class_for(idle_bytes)) / 2)
    GTEST_SKIP() << "no page lies between objects";
  sparse_spans s;
  constexpr std::size_t locked = 20;
  const auto span_of = [&](std::size_t i) { return s.c.map().span_of(address_of(s.live[i * 14])); };
  std::size_t count = 0;
  for (; count < locked; ++count) {
    if (syscall(SYS_mlock, span_of(count)->start, span_of(count)->bytes()) != 0) break;
  }
  if (count == locked) {
    for (std::size_t i = 0; i < locked; ++i) s.c.purge_idle_pages(true);
    // The others are unlisted.
    EXPECT_EQ(std::count_if(s.live.begin(), s.live.end(),
                            [&](void* object) { return s.c.map().class_of(address_of(object)) != 0; }),
              static_cast<std::ptrdiff_t>(locked));
    s.c.depots().validate();
  }
  for (std::size_t i = 0; i < count; ++i) syscall(SYS_munlock, span_of(i)->start, span_of(i)->bytes());
  if (count != locked) GTEST_SKIP() << "so much memory may not be locked";
}

TEST(central_idle_pages, a_second_free_is_seen_at_once) {
  if constexpr (hardened_build) GTEST_SKIP() << "it has no marks";
  if (os::system_page_size() > span_bytes(class_for(idle_bytes)) / 2)
    GTEST_SKIP() << "no page lies between objects";
  sparse_spans s;
  s.c.purge_idle_pages(true);
  std::size_t unlisted = 0;
  for (void* object : s.freed) {
    const idle_pages::unlisted found = s.c.idle_pages().look_up(object);
    if (found.has_changed || found.size_class == 0) continue;
    ++unlisted;
    EXPECT_EQ(found.size_class, s.size_class);
    EXPECT_STREQ(found.fault, "double free");
    EXPECT_STREQ(s.c.idle_pages().look_up(static_cast<char*>(object) + 16).fault,
                 "invalid free of a pointer into a block");
  }
  EXPECT_GT(unlisted, s.freed.size() / 2);
  for (void* object : s.live) EXPECT_EQ(s.c.idle_pages().look_up(object).fault, nullptr);
}

TEST(central_idle_pages, occupancy_is_told) {
  if constexpr (hardened_build) GTEST_SKIP() << "its objects must be zeroed before they go back";
  sparse_spans s;
  s.c.purge_idle_pages(true);
  const std::size_t per_span = class_info(s.size_class).objects;
  for (void* object : s.live) {
    class_depots::occupancy of_span{};
    const span& its_span = *s.c.map().span_of(address_of(object));
    ASSERT_TRUE(s.c.depots().occupancy_of(its_span, object, of_span));
    EXPECT_EQ(of_span.objects, per_span);
    EXPECT_LT(of_span.taken, of_span.objects);
    EXPECT_FALSE(class_depots::is_full(its_span));
  }
}

TEST(central_idle_pages, finds_a_broken_invariant) {
  if constexpr (hardened_build) GTEST_SKIP() << "it has no marks";
  sparse_spans s(9 * idle_bytes /
                 8);  // spans without marks, which another test has left, are of another class
  s.c.depots().validate();
  free_mark::clear(s.c.map(), s.size_class, s.freed[0]);
  EXPECT_BROKEN(s.c.depots().validate(), "class_depots",
                "free_mark::is_listed(map_, s) == free_mark::all_are_set(map_, s)", &s.c.depots());
  free_mark::set(s.c.map(), s.size_class, s.freed[0]);
}

}  // namespace
}  // namespace tarn
