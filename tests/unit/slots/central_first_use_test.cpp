// SPDX-License-Identifier: MIT
// Marks of free objects, and the pages that they touch, in memory that has been used before and in memory that has not.
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>

#include "../../guarantees/kernel_emulator.hpp"
#include "base/compiler.hpp"
#include "broken_invariant.hpp"
#include "os/memory.hpp"
#include "slots/central_fixture.hpp"
#include "slots/free_mark.hpp"

namespace tarn {
namespace {

using testing_support::central_fixture;
using testing_support::make_engine;
using testing_support::own_engine;
using testing_support::small;

// Objects of 1 KiB: the first four of a span's eight fill a page.
const unsigned idle = class_of_size(kib);

bool is_resident(std::uintptr_t address) {
  unsigned char state = 0;
  void* const page = reinterpret_cast<void*>(align_down(address, os::system_page_size()));
  return !os::find_resident(page, os::system_page_size(), &state) || (state & 1U) != 0;
}

class central_first_use : public central_fixture {
 protected:
  void SetUp() override {
    if constexpr (hardened_build) GTEST_SKIP() << "it has no marks";
  }
  void expect_marked(const std::vector<void*>& objects, unsigned c = small) {
    for (const void* object : objects) ASSERT_TRUE(free_mark::is_set(engine_->map, c, object)) << object;
  }
};

TEST_F(central_first_use, pages_that_no_object_needs_are_not_touched) {
  if (os::system_page_size() > span_bytes(small) / 2) GTEST_SKIP() << "a span has one page";
  const auto some = take(small, 3);
  expect_marked(some);
  const span* const s = span_of(some[0]);
  EXPECT_TRUE(s->is_first_use);
  EXPECT_EQ(s->first_unused, 4U);
  EXPECT_TRUE(free_mark::is_set(objects::at(s, 3))) << "freeing the end of the last object is an error";
  EXPECT_TRUE(is_resident(s->start));
  EXPECT_FALSE(is_resident(s->end() - 1));
  central_.depots().validate();

  give(small, {some[1]});
  const auto rest = take(small, class_info(small).objects - 2U);
  expect_marked(rest);
  EXPECT_EQ(rest[0], some[1]) << "what was used before comes first";
  EXPECT_EQ(s->first_unused, s->capacity);
  EXPECT_TRUE(is_resident(s->end() - 1));
  give(small, rest);
  give(small, {some[0], some[2]});
  central_.depots().validate();
}

TEST_F(central_first_use, in_every_class_each_object_is_marked_when_it_is_taken) {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    for (std::size_t taken = 0; taken < 2U * class_info(c).objects; ++taken) expect_marked(take(c, 1), c);
    central_.depots().validate();
  }
}

TEST_F(central_first_use, in_memory_that_was_used_before_all_free_objects_are_marked) {
  const auto old = take(small, 8 * class_info(small).objects);
  for (void* object : old) std::memset(object, 1, class_info(small).size);
  give(small, old);
  central_.release_surplus(small);
  ASSERT_NE(central_.release_spares(true), 0U);
  constexpr unsigned other = small + 1;
  const auto one = take(other, 1);
  const span* const s = span_of(one[0]);
  ASSERT_FALSE(s->is_first_use);
  EXPECT_EQ(s->first_unused, s->capacity);
  for (std::size_t i = 0; i < s->capacity; ++i) EXPECT_TRUE(free_mark::is_set(objects::at(s, i)));
  give(other, one);
  central_.depots().validate();
}

TEST_F(central_first_use, unused_pages_are_not_given_back) {
  unsigned page_sized = 1;
  while (class_info(page_sized).size < os::system_page_size()) ++page_sized;
  const auto one = take(page_sized, 1);
  EXPECT_LE(central_.purge_idle_pages(true), class_info(page_sized).size)
      << "of the object that was marked in advance";
  give(page_sized, one);
}

TEST_F(central_first_use, pages_of_objects_that_are_longer_are_not_prepared) {
  const auto others = take(small, 2 * first_touch::populate_from / class_info(small).size);
  const std::size_t before = engine_->touch.populated();
  const unsigned longer = class_of_size(8 * kib);
  const auto some = take(longer, 100);
  EXPECT_EQ(engine_->touch.populated(), before);
  give(longer, some);
  give(small, others);
}

TEST_F(central_first_use, unused_pages_that_were_prepared_are_given_back) {
  unsigned page_sized = 1;
  while (class_info(page_sized).size < os::system_page_size()) ++page_sized;
  constexpr std::size_t heap_bytes = 2 * first_touch::populate_from;
  const auto others = take(small, heap_bytes / class_info(small).size);
  const auto one = take(page_sized, 1);
  const span* const s = span_of(one[0]);
  if (s->first_unused + 1U >= s->capacity) GTEST_SKIP() << "a span has few pages";
  if (!is_resident(s->end() - 1)) GTEST_SKIP() << "the system prepares no memory";
  central_.purge_idle_pages(true);
  EXPECT_FALSE(is_resident(s->end() - 1));
  central_.depots().validate();
  const auto rest = take(page_sized, s->capacity - 1U);
  expect_marked(rest);
  give(page_sized, rest);
  give(page_sized, one);
  give(small, others);
}

TEST_F(central_first_use, finds_a_broken_invariant) {
  const auto some = take(small, 3);
  span* const s = span_of(some[0]);
  s->first_unused = 2;
  EXPECT_BROKEN(central_.depots().validate(), "class_depots", "free_mark::unused_are_free(s)",
                &central_.depots());
  s->first_unused = 5;
  EXPECT_BROKEN(central_.depots().validate(), "class_depots",
                "free_mark::is_listed(map_, s) == free_mark::all_are_set(map_, s)", &central_.depots());
  s->first_unused = 4;
  give(small, some);
}

// ---- while pages of a span go back ----

own_engine* window_engine = nullptr;
void* freed_in_window = nullptr;
bool in_window = false;

// While the system drops pages, another thread frees an object of the span, and the invariants are checked.
long with_other_thread(const guarantee::kernel::call& c) {
  if (c.number == SYS_madvise && c.arguments[2] == MADV_DONTNEED && !in_window) {
    in_window = true;
    free_mark::set(freed_in_window);
    window_engine->central_tier.flush(idle, &freed_in_window, 1);
    window_engine->central_tier.depots().validate();
  }
  return guarantee::kernel::pass(c);
}

// 0: good.
int free_in_window() {
  const auto engine = make_engine();
  central& c = engine->central_tier;
  constexpr std::size_t taken = 6;
  void* objects[taken];
  for (void*& object : objects) object = c.take_one(idle);
  const span* const s = engine->map.span_of(address_of(objects[0]));
  if (s->first_unused != taken + 1 || s->first_unused >= s->capacity) return 2;
  for (void* object : objects) {
    if (object == objects[taken - 1]) break;
    free_mark::set(object);
    c.flush(idle, &object, 1);
  }
  window_engine = engine.get();
  freed_in_window = objects[taken - 1];
  guarantee::kernel::emulate(with_other_thread);
  if (c.purge_idle_pages(true) == 0 || !in_window) return 3;
  c.depots().validate();
  return s->free_objects == s->capacity ? 0 : 4;
}

TEST_F(central_first_use, unused_objects_are_taken_while_idle_pages_go_back) {
  if (TARN_ASAN || TARN_TSAN) GTEST_SKIP() << "a sanitizer needs the system calls";
  if (os::system_page_size() > span_bytes(idle) / 2) GTEST_SKIP() << "no page lies between objects";
  const guarantee::child_result child = guarantee::run_in_child(20, free_in_window);
  if (child.code == guarantee::not_checkable) GTEST_SKIP() << "no filter";
  EXPECT_TRUE(child.good()) << "exit status " << child.code << ", signal " << child.signal;
}

// ---- page faults ----

const os::mutex* watched_lock = nullptr;
std::uintptr_t fresh_start = 0;
std::size_t faults = 0;
std::size_t faults_under_lock = 0;

void on_fault(int, siginfo_t* info, void*) {
  const std::uintptr_t page = align_down(address_of(info->si_addr), os::system_page_size());
  if (page < fresh_start ||
      mprotect(reinterpret_cast<void*>(page), os::system_page_size(), PROT_READ | PROT_WRITE) != 0)
    _exit(5);
  ++faults;
  faults_under_lock += watched_lock->is_interrupted() ? 1 : 0;
}

// 0: good.
int refill_from_fresh_pages() {
  const auto engine = make_engine();
  central& c = engine->central_tier;
  const void* const object = c.take_one(small);
  fresh_start = engine->map.span_of(address_of(object))->end();
  if (mprotect(reinterpret_cast<void*>(fresh_start), mib, PROT_NONE) != 0) return guarantee::not_checkable;
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  watched_lock = &c.depots().at(idle).lock;
  magazine* const m = c.magazines().allocate(engine->metadata, 0);
  if (m == nullptr || c.refill(idle, m, class_info(idle).objects) != class_info(idle).objects) return 2;
  if (faults != span_bytes(idle) / os::system_page_size()) return 3;
  return faults_under_lock == 0 ? 0 : 4;
}

TEST_F(central_first_use, pages_of_a_new_span_are_touched_without_a_lock) {
  if (TARN_ASAN || TARN_TSAN) GTEST_SKIP() << "a sanitizer handles faults";
  if (os::system_page_size() > span_bytes(idle)) GTEST_SKIP() << "a page is longer than a span";
  const guarantee::child_result child = guarantee::run_in_child(20, refill_from_fresh_pages);
  if (child.code == guarantee::not_checkable) GTEST_SKIP() << "no protection of memory";
  EXPECT_TRUE(child.good()) << "exit status " << child.code << ", signal " << child.signal;
}

}  // namespace
}  // namespace tarn
