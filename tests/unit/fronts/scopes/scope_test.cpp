// SPDX-License-Identifier: MIT
// tarn/scope.hpp and tarn/scope.h: entering on any thread, nesting, budgets and what happens when they are full, ends of
// threads and of scopes, fork, coroutines, statistics.
#include "tarn/scope.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <coroutine>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "engine/restore.hpp"
#include "fronts/scopes/scope_bin.hpp"
#include "fronts/scopes/scope_core.hpp"
#include "malloc/entry_points.hpp"

namespace tarn {
namespace {

bool is_in(const scope& s, const void* block) {
  const span* const found = scope_core::span_of(block);
  return found != nullptr &&
         &scope_core::owner_of(found) == static_cast<scope_instance*>(s.handle().instance)->memory;
}
bool is_in_none(const void* block) { return scope_core::span_of(block) == nullptr; }

TEST(scope, holds_what_its_threads_allocate) {
  scope s("query");
  void* const before = tarn_malloc(100);
  std::vector<void*> inside;
  {
    const scope_entry in = s.enter();
    EXPECT_EQ(current_scope().instance, s.handle().instance);
    for (const std::size_t size : {0UL, 8UL, 100UL, 2000UL, 50000UL, 300000UL, 5000000UL}) {
      inside.push_back(tarn_malloc(size));
      inside.push_back(tarn_calloc(1, size));
      inside.push_back(tarn_aligned_alloc(256, size));
      inside.push_back(tarn_realloc(tarn_malloc(10), size + 1));
    }
    tarn_free(before);
  }
  void* const after = tarn_malloc(100);
  EXPECT_TRUE(is_in_none(after));
  tarn_free(after);
  for (void* const block : inside) {
    EXPECT_TRUE(is_in(s, block)) << tarn_usable_size(block);
    std::memset(block, 1, tarn_usable_size(block));
  }
  std::thread([&inside] {
    for (void* const block : inside) tarn_free(block);
  }).join();
  EXPECT_EQ(s.end().blocks, 0U);
  EXPECT_EQ(current_scope().instance, nullptr);
}

TEST(scope, calloc_zeroes_memory_that_was_used_before) {
  scope s("zeroes");
  const scope_entry in = s.enter();
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t size : {24UL, 3000UL, 100000UL, 400000UL, 6000000UL}) {
      auto* const block = static_cast<unsigned char*>(tarn_calloc(1, size));
      EXPECT_TRUE(std::all_of(block, block + size, [](unsigned char c) { return c == 0; })) << size;
      std::memset(block, 0xff, size);
      tarn_free(block);
    }
  }
}

TEST(scope, nests_in_any_order) {
  scope outer("outer");
  scope other("other", {.parent = process_scope_handle});
  const scope_entry in = outer.enter();
  scope inner("inner");
  void* const a = tarn_malloc(100);
  void* b = nullptr;
  void* c = nullptr;
  {
    const scope_entry in_other = other.enter();
    b = tarn_malloc(100);
    const scope_entry in_inner = inner.enter();
    c = tarn_malloc(100);
    const scope_entry again = other.enter();
    void* const d = tarn_malloc(100);
    EXPECT_TRUE(is_in(other, d));
    tarn_free(d);
  }
  void* const e = tarn_malloc(100);
  EXPECT_TRUE(is_in(outer, a) && is_in(other, b) && is_in(inner, c) && is_in(outer, e));
  EXPECT_EQ(inner.end().blocks, 1U);
  EXPECT_TRUE(is_in(outer, c));  // the parent's now
  EXPECT_EQ(other.end().blocks, 1U);
  EXPECT_FALSE(is_in(outer, b));
  for (void* const block : {a, b, c, e}) tarn_free(block);
}

TEST(scope, a_budget_ends_in_a_clean_error) {
  scope s("small", {.limit = mib});
  const scope_entry in = s.enter();
  std::vector<void*> blocks;
  while (void* const block = tarn_malloc(1000)) blocks.push_back(block);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_GT(blocks.size(), 900U);
  EXPECT_EQ(tarn_malloc(mib), nullptr);
  EXPECT_EQ(tarn_realloc(blocks.back(), 900000), nullptr);
  EXPECT_LE(s.stats().charged, mib);
  EXPECT_GE(s.stats().failures, 3U);
  for (void* const block : blocks) tarn_free(block);
  void* const large = tarn_malloc(mib - 8192);
  EXPECT_NE(large, nullptr);
  tarn_free(large);
}

struct hoard {
  std::vector<void*> blocks;
  int calls = 0;
};

TEST(scope, realloc_to_fewer_bytes_needs_no_budget) {
  for (const auto& [from, to] : {std::pair<std::size_t, std::size_t>{900'000, 300'000},
                                 {900'000, 100},
                                 {262'144, 100},
                                 {65'536, 20'000},
                                 {20'000, 5000},
                                 {200, 17}}) {
    const tarn::scope s("test shrinking", {.limit = mib});
    const scope_entry in = s.enter();
    auto* const block = static_cast<unsigned char*>(tarn_malloc(from));
    std::memset(block, 7, from);
    std::vector<void*> others;
    others.reserve(100'000);
    for (std::size_t size = from; size >= 16; size /= 2) {
      while (others.size() < others.capacity()) {
        void* const other = tarn_malloc(size);
        if (other == nullptr) break;
        others.push_back(other);
      }
    }
    errno = 0;
    auto* const less = static_cast<unsigned char*>(tarn_realloc(block, to));
    EXPECT_NE(less, nullptr) << from << " to " << to;
    EXPECT_EQ(errno, 0);
    EXPECT_EQ(std::count(less, less + to, 7), static_cast<std::ptrdiff_t>(to));
    for (void* const other : others) tarn_free(other);
    tarn_free(less);
  }
}

TEST(scope, the_callback_may_free_memory) {
  hoard h;
  h.blocks.reserve(10000);
  const auto on_full = [](void* context, scope_handle, std::size_t) {
    auto& mine = *static_cast<hoard*>(context);
    ++mine.calls;
    if (mine.blocks.empty()) return 0;
    EXPECT_EQ(tarn_malloc(3 * mib), nullptr);  // is not announced again
    for (void* const block : mine.blocks) tarn_free(block);
    mine.blocks.clear();
    return 1;
  };
  scope s("hoard", {.limit = mib, .on_full = on_full, .context = &h});
  const scope_entry in = s.enter();
  for (int i = 0; i < 3000; ++i) {
    void* const block = tarn_malloc(1000);
    ASSERT_NE(block, nullptr);
    h.blocks.push_back(block);
  }
  EXPECT_GE(h.calls, 2);
  EXPECT_EQ(s.stats().callbacks, static_cast<std::uint64_t>(h.calls));
  for (void* const block : h.blocks) tarn_free(block);
}

TEST(scope, waits_until_another_thread_frees) {
  scope s("waits", {.limit = mib, .over = over_limit::wait, .wait = std::chrono::milliseconds(20000)});
  const scope_entry in = s.enter();
  void* const large = tarn_malloc(mib - 16384);
  std::thread other([&s, large] {
    while (s.stats().waits == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    tarn_free(large);
  });
  void* const next = tarn_malloc(mib / 2);
  EXPECT_NE(next, nullptr);
  other.join();
  tarn_free(next);
  EXPECT_GE(s.stats().waits, 1U);
}

TEST(scope, waits_no_longer_than_it_may) {
  scope s("waits", {.limit = mib, .over = over_limit::wait, .wait = std::chrono::milliseconds(20)});
  const scope_entry in = s.enter();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(tarn_malloc(2 * mib), nullptr);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(15));
}

TEST(scope, the_parent_lends) {
  scope outer("outer", {.limit = 4 * mib});
  scope inner("inner", {.limit = mib, .over = over_limit::lend, .parent = outer.handle()});
  const scope_entry in = inner.enter();
  void* const a = tarn_malloc(3 * mib);
  EXPECT_NE(a, nullptr);
  EXPECT_GE(inner.stats().lent, 2 * mib);
  EXPECT_EQ(outer.stats().charged, inner.stats().charged);
  EXPECT_EQ(tarn_malloc(2 * mib), nullptr);
  tarn_free(a);
}

TEST(scope, what_one_child_has_left_serves_the_next) {
  scope outer("outer", {.limit = 2 * mib});
  scope a("a", {.limit = 2 * mib, .parent = outer.handle()});
  scope b("b", {.limit = 2 * mib, .parent = outer.handle()});
  {
    const scope_entry in = a.enter();
    tarn_free(tarn_malloc(mib + mib / 2));
  }
  const scope_entry in = b.enter();
  void* const block = tarn_malloc(mib + mib / 2);
  EXPECT_NE(block, nullptr);
  tarn_free(block);
}

TEST(scope, what_a_scope_further_inside_has_left_serves_too) {
  scope outer("outer", {.limit = 2 * mib});
  scope middle("middle", {.parent = outer.handle()});
  scope inner("inner", {.parent = middle.handle()});
  scope b("b", {.parent = outer.handle()});
  for (int round = 0; round < 3; ++round) {
    {
      const scope_entry in = inner.enter();
      tarn_free(tarn_malloc(mib / 2));
    }
    EXPECT_GE(inner.stats().charged, mib / 2);
    const scope_entry in = b.enter();
    void* const block = tarn_malloc(2 * mib - 64 * kib);
    EXPECT_NE(block, nullptr);
    EXPECT_EQ(inner.stats().charged, 0U);
    tarn_free(block);
  }
}

TEST(scope, what_a_full_scope_has_left_itself_serves_those_inside) {
  scope outer("outer", {.limit = 2 * mib});
  {
    const scope_entry in = outer.enter();
    tarn_free(tarn_malloc(mib));
  }
  EXPECT_GE(outer.stats().charged, mib);
  scope inner("inner", {.parent = outer.handle()});
  const scope_entry in = inner.enter();
  void* const block = tarn_malloc(mib + mib / 2);
  EXPECT_NE(block, nullptr);
  tarn_free(block);
}

TEST(scope, a_refusal_takes_nothing_of_other_scopes) {
  scope other("other tenant", {.limit = 64 * mib});
  scope request("request", {.parent = other.handle()});
  {
    const scope_entry in = request.enter();
    tarn_free(tarn_malloc(mib));
  }
  const std::size_t warm = request.stats().charged;
  EXPECT_GE(warm, mib);
  scope tenant("tenant", {.limit = 128 * kib});
  scope query("query", {.parent = tenant.handle()});
  const scope_entry in = query.enter();
  EXPECT_EQ(tarn_malloc(mib), nullptr);
  EXPECT_EQ(request.stats().charged, warm);
}

TEST(scope, threads_that_end_inside) {
  scope s("threads");
  std::vector<void*> blocks(8);
  std::vector<std::thread> threads;
  for (void*& block : blocks) {
    threads.emplace_back([&s, &block] {
      tarn_scope_entry entry;
      ASSERT_EQ(tarn_scope_enter(s.handle(), &entry), 1);
      for (int i = 0; i < 1000; ++i) tarn_free(tarn_malloc(static_cast<std::size_t>(i)));
      block = tarn_malloc(64);
    });
  }
  for (std::thread& t : threads) t.join();
  const scope_report report = s.end();
  EXPECT_EQ(report.blocks, blocks.size());
  EXPECT_EQ(report.count, 1U);
  for (void* const block : blocks) tarn_free(block);
}

TEST(scope, an_exception_leaves_it) {
  scope s("throws");
  EXPECT_THROW(
      {
        const scope_entry in = s.enter();
        throw std::runtime_error("x");
      },
      std::runtime_error);
  EXPECT_EQ(current_scope().instance, nullptr);
  EXPECT_THROW(scope("tiny", {.limit = 1000}), std::invalid_argument);
}

TEST(scope, survivors_have_their_bytes_and_are_freed_after_the_end) {
  std::vector<unsigned char*> blocks;
  scope_report report;
  {
    scope s("leaves");
    {
      const scope_entry in = s.enter();
      for (std::size_t i = 0; i < 2000; ++i) {
        blocks.push_back(static_cast<unsigned char*>(tarn_malloc(1 + i % 700)));
        std::memset(blocks.back(), static_cast<int>(i % 251), 1 + i % 700);
      }
      for (std::size_t i = 0; i < 2000; ++i) {
        if (i % 10 != 0) tarn_free(blocks[i]);
      }
    }
    report = s.end();
  }
  EXPECT_EQ(report.blocks, 200U);
  for (std::size_t i = 0; i < 2000; i += 10) {
    EXPECT_EQ(blocks[i][i % 700], i % 251);
    auto* const longer = static_cast<unsigned char*>(tarn_realloc(blocks[i], 3000));
    EXPECT_EQ(longer[i % 700], i % 251);
    EXPECT_TRUE(is_in_none(longer));
    tarn_free(longer);
  }
  for_each_scope([](const scope_stats& stats) {
    if (std::string_view(stats.name) != "leaves") return;
    EXPECT_EQ(stats.ended, 1U);
    EXPECT_EQ(stats.survivors, 200U);
  });
}

// Guarded blocks lie outside of the scope's memory.
TEST(scope, guarded_survivors_are_reported_and_handed_on) {
  const testing_support::restore_options restore;
  scope outer("outer of guarded");
  scope inner("guarded", {.parent = outer.handle()});
  // A bin that has begun a window of the standard length ends it first.
  constexpr int most_tries = 1 << 18;
  ASSERT_EQ(tarn_set_option("guarded", "1"), 0);
  void* guarded = nullptr;
  void* ordinary = nullptr;
  {
    const scope_entry in = inner.enter();
    for (int i = 0; i < most_tries && guarded == nullptr; ++i) {
      void* const block = tarn_malloc(8000);
      (engine::guards.contains(block) ? guarded : ordinary) = block;
      if (block == ordinary) tarn_free(block);
    }
    tarn_set_option("guarded", "off");
    while (!is_in(inner, ordinary = tarn_malloc(8000))) tarn_free(ordinary);
  }
  const scope_report report = inner.end();
  if (guarded == nullptr) GTEST_SKIP() << "the system gives no guarded memory";
  EXPECT_EQ(report.blocks, 2U);
  ASSERT_EQ(report.count, 1U);
  EXPECT_EQ(report.classes[0].blocks, 2U);
  EXPECT_EQ(report.bytes, 2 * report.classes[0].size);
  tarn_free(ordinary);
  EXPECT_EQ(outer.end().blocks, 1U) << "the parent's";
  tarn_free(guarded);
}

// Allocates, and says which return address the call path of the block has.
[[gnu::noinline]] void* allocate_from(std::size_t size, std::uintptr_t& caller) {
  caller = address_of(__builtin_return_address(0));
  return tarn_malloc(size);
}

// Whether the heap profile's call path of that number has the return address.
bool path_has(std::uint64_t number, std::uintptr_t address) {
  struct search {
    std::uint64_t number;
    std::uintptr_t address;
    bool found;
  } wanted{number, address, false};
  const auto look = [](void* context, const tarn_profile_site* site) {
    auto& in = *static_cast<search*>(context);
    const std::uintptr_t* const end = site->frames + site->frame_count;
    if (site->number == in.number) in.found = std::find(site->frames, end, in.address) != end;
  };
  EXPECT_EQ(tarn_visit_profile(look, &wanted), 0);
  return wanted.found;
}

// Those of classes lie outside of the scope's memory, large ones in it.
TEST(scope, survivors_that_the_heap_profile_follows_are_reported_with_their_call_path) {
  constexpr std::size_t count = 30;
  void* blocks[count] = {};
  void* fewer[count / 3] = {};
  void* large = nullptr;
  std::uintptr_t path = 0;
  std::uintptr_t path_of_large = 0;
  std::uintptr_t path_of_fewer = 0;
  const testing_support::restore_options restore;
  scope outer("outer of followed");
  scope inner("followed", {.parent = outer.handle()});
  tarn_set_option("guarded", "off");
  ASSERT_EQ(tarn_profile_start(1), 0);
  {
    const scope_entry in = inner.enter();
    for (void*& block : fewer) block = allocate_from(100, path_of_fewer);
    for (void*& block : blocks) block = allocate_from(100, path);
    large = allocate_from(mib, path_of_large);
    tarn_free(tarn_malloc(100));
    tarn_free(tarn_malloc(mib));
  }
  tarn_profile_stop();
  const std::size_t live = engine::samples.live_count();
  for (scope* const ends : {&inner, &outer}) {
    const scope_report report = ends->end();
    EXPECT_EQ(report.blocks, count + count / 3 + 1);
    ASSERT_EQ(report.count, 2U);
    const tarn_scope_survivors& of_class = report.classes[0];
    EXPECT_EQ(of_class.blocks, count + count / 3);
    EXPECT_EQ(of_class.bytes, of_class.blocks * of_class.size);
    EXPECT_TRUE(path_has(of_class.site, path));
    EXPECT_FALSE(path_has(of_class.site, path_of_fewer));
    EXPECT_EQ(report.classes[1].blocks, 1U);
    EXPECT_GE(report.classes[1].bytes, mib);
    EXPECT_TRUE(path_has(report.classes[1].site, path_of_large));
    EXPECT_EQ(report.held, report.classes[1].bytes);
  }
  EXPECT_EQ(engine::samples.live_count(), live);
  for (void* const block : blocks) tarn_free(block);
  for (void* const block : fewer) tarn_free(block);
  tarn_free(large);
  EXPECT_EQ(engine::samples.live_count(), live - count - count / 3 - 1);
}

// Another thread has freed it, and its pages have left the scope, when the end walks over the samples.
TEST(scope, a_large_survivor_that_is_freed_during_the_end_is_no_block_of_a_class) {
  scope s("freed at its end");
  scope_core& core = *static_cast<scope_instance*>(s.handle().instance)->memory;
  void* const elsewhere = tarn_malloc(mib);
  ASSERT_EQ(tarn_profile_start(1), 0);
  live_sample* const sample =
      engine::samples.add(engine::profile_samples, address_of(elsewhere), mib, mib, &core.sampled);
  tarn_profile_stop();
  ASSERT_NE(sample, nullptr);
  const scope_report report = s.end();
  EXPECT_EQ(report.blocks, 0U);
  EXPECT_EQ(report.count, 0U);
  engine::samples.remove(sample);
  tarn_free(elsewhere);
}

TEST(scope, a_budget_holds_while_the_heap_profile_follows_many_blocks) {
  constexpr std::size_t budget = 64 * mib;
  for (const std::size_t size : {3000UL, 20000UL, 250000UL}) {
    scope s("followed and bounded", {.limit = budget});
    ASSERT_EQ(tarn_profile_start(65536), 0);
    std::vector<void*> blocks;
    blocks.reserve(budget / size * 3);
    std::uint64_t followed = 0;
    std::size_t held = 0;
    std::uintptr_t path = 0;
    {
      const scope_entry in = s.enter();
      const std::size_t before = engine::samples.live_count();
      while (blocks.size() < blocks.capacity()) {
        void* const block = allocate_from(size, path);
        if (block == nullptr) break;
        held += tarn_usable_size(block);
        blocks.push_back(block);
      }
      followed = engine::samples.live_count() - before;
    }
    EXPECT_LE(held, budget + budget / 100) << size;
    EXPECT_GT(held, budget / 2) << size;
    EXPECT_GT(followed, 100U) << size;
    tarn_profile_stop();
    const scope_report report = s.end();
    EXPECT_EQ(report.blocks, blocks.size());
    EXPECT_EQ(report.count, 1U) << "followed ones are of their class";
    EXPECT_TRUE(path_has(report.classes[0].site, path));
    const std::size_t live = engine::samples.live_count();
    for (void* const block : blocks) tarn_free(block);
    EXPECT_EQ(engine::samples.live_count(), live - followed);
  }
}

TEST(scope, survivors_of_which_the_heap_profile_follows_none_have_no_call_path) {
  scope s("not followed");
  void* block = nullptr;
  {
    const scope_entry in = s.enter();
    block = tarn_malloc(100);
  }
  const scope_report report = s.end();
  ASSERT_EQ(report.count, 1U);
  EXPECT_EQ(report.classes[0].site, 0U);
  tarn_free(block);
}

// Makes mappings until the system allows no more.
bool use_up_mappings() {
  constexpr int most = 1 << 20;
  for (int i = 0; i < most; ++i) {
    const int protection = i % 2 == 0 ? PROT_NONE : PROT_READ;  // so that neighbours do not become one
    if (mmap(nullptr, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) return true;
  }
  return false;
}

// Where the system refuses to make a survivor's memory accessible again, nobody gets it.
TEST(scope, inaccessible_memory_that_cannot_be_made_accessible_is_not_used_again) {
  if (TARN_ASAN || TARN_TSAN) GTEST_SKIP() << "a sanitizer needs mappings";
  const auto child = [] {
    std::vector<void*> blocks(1000);
    scope s("checked", {.checked = true});
    {
      const scope_entry in = s.enter();
      for (void*& block : blocks) block = tarn_malloc(4096);
    }
    s.end();
    if (!use_up_mappings()) _exit(0);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (i / 16 % 2 == 0) tarn_free(blocks[i]);
    }
    for (int i = 0; i < 3000; ++i) {
      if (void* const block = tarn_malloc(8000)) std::memset(block, 1, 8000);
    }
    _exit(0);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

TEST(scope, a_checked_one_allows_to_free_survivors) {
  std::vector<void*> blocks;
  {
    scope s("checked", {.checked = true});
    const scope_entry in = s.enter();
    for (int i = 0; i < 300; ++i) blocks.push_back(tarn_malloc(100));
    blocks.push_back(tarn_malloc(mib));
  }
  const std::size_t before = engine::heap.in_use_bytes();
  for (void* const block : blocks) tarn_free(block);
  EXPECT_LT(engine::heap.in_use_bytes(), before - mib);
  // The memory is accessible again for whoever gets it.
  for (int i = 0; i < 100; ++i) {
    void* const block = tarn_malloc(100000);
    std::memset(block, 1, 100000);
    blocks[static_cast<std::size_t>(i)] = block;
  }
  for (int i = 0; i < 100; ++i) tarn_free(blocks[static_cast<std::size_t>(i)]);
}

TEST(scope, a_forked_child_goes_on_inside) {
  scope s("forks", {.limit = 8 * mib});
  const scope_entry in = s.enter();
  void* const block = tarn_malloc(100);
  const pid_t child = fork();
  if (child == 0) {
    tarn_free(block);
    for (int i = 0; i < 10000; ++i) tarn_free(tarn_malloc(static_cast<std::size_t>(i)));
    scope inner("inner");
    {
      const scope_entry in_inner = inner.enter();
      tarn_free(tarn_malloc(10));
    }
    _exit(inner.end().blocks == 0 && is_in(s, tarn_malloc(10)) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  tarn_free(block);
}

TEST(scope, counts_of_allocations_go_on_inside) {
  scope s("counts");
  tarn_allocation_count count;
  const scope_entry in = s.enter();
  tarn_free(tarn_malloc(100));
  tarn_count_begin(&count);
  for (int i = 0; i < 100; ++i) tarn_free(tarn_malloc(100));
  scope inner("inner");
  {
    const scope_entry in_inner = inner.enter();
    for (int i = 0; i < 10; ++i) tarn_free(tarn_malloc(2000));
    tarn_free(tarn_malloc(mib));
  }
  tarn_count_end(&count);
  EXPECT_EQ(count.allocations, 111U);
  EXPECT_EQ(inner.end().blocks, 0U);
}

TEST(scope, is_never_moved_out_of) {
  scope s("moves");
  const scope_entry in = s.enter();
  void* const block = tarn_malloc(100);
  EXPECT_EQ(tarn_would_move(block, 1.0), 0);
  EXPECT_EQ(tarn_move(block), block);
  tarn_free(block);
}

// A coroutine that another thread resumes.
struct task {
  struct promise_type {
    task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    static std::suspend_never initial_suspend() { return {}; }
    static std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    static void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};
struct elsewhere {
  std::optional<std::thread>& thread;
  static bool await_ready() { return false; }
  void await_suspend(std::coroutine_handle<> waiting) const { thread.emplace(waiting); }
  static int await_resume() { return 7; }
};

task runs_on_two_threads(const scope& s, std::optional<std::thread>& thread, std::vector<void*>& blocks) {
  scope_entry in = s.enter();
  blocks.push_back(tarn_malloc(100));
  const int seven = co_await across(in, elsewhere{thread});
  blocks.push_back(tarn_malloc(static_cast<std::size_t>(100 * seven)));
}

struct refused {
  static bool await_ready() { return false; }
  static void await_suspend(std::coroutine_handle<> /*waiting*/) {
    throw std::runtime_error("the queue is full");
  }
  static void await_resume() {}
};
task goes_on_after_a_refusal(const tarn::scope& s, bool& is_inside) {
  auto in = s.enter();
  try {
    co_await across(in, refused());
  } catch (const std::runtime_error&) {
    is_inside = current_scope().instance == s.handle().instance;
  }
}

TEST(scope, a_coroutine_whose_await_throws_is_in_it_again) {
  const tarn::scope s("test await throws");
  bool is_inside = false;
  const task t = goes_on_after_a_refusal(s, is_inside);
  EXPECT_TRUE(is_inside);
  EXPECT_EQ(current_scope().instance, nullptr);
  t.handle.destroy();
}

TEST(scope, goes_along_with_a_coroutine) {
  scope s("coroutine");
  std::optional<std::thread> thread;
  std::vector<void*> blocks;
  const task t = runs_on_two_threads(s, thread, blocks);
  EXPECT_EQ(current_scope().instance, nullptr);
  thread->join();
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_TRUE(is_in(s, blocks[0]) && is_in(s, blocks[1]));
  t.handle.destroy();
  EXPECT_EQ(s.end().blocks, 2U);
  for (void* const block : blocks) tarn_free(block);
}

TEST(scope, what_does_not_fit_around_it_is_no_peak) {
  scope outer("outer", {.limit = mib});
  scope_options inside;
  inside.parent = outer.handle();
  scope inner("inner", inside);
  {
    const scope_entry in = inner.enter();
    EXPECT_EQ(tarn_malloc(std::size_t{1} << 30), nullptr);
  }
  EXPECT_LE(inner.end().peak, mib);
}

// It must not; the thread's next scopes are announced again all the same.
TEST(scope, a_callback_that_throws_is_forgotten_where_the_thread_leaves) {
  static int calls;
  calls = 0;
  const auto on_full = [](void* /*context*/, scope_handle, std::size_t) -> int {
    if (++calls == 1) throw std::runtime_error("x");
    return 0;
  };
  scope s("throws", {.limit = mib, .on_full = on_full});
  void* (*volatile allocate)(std::size_t) = tarn_malloc;  // the compiler does not know that it does not throw
  EXPECT_THROW(
      {
        const scope_entry in = s.enter();
        allocate(2 * mib);
      },
      std::runtime_error);
  const scope_entry in = s.enter();
  EXPECT_EQ(allocate(2 * mib), nullptr);
  EXPECT_EQ(calls, 2);
}

int asked = 0;
// Allocates in a scope of its own that is full as well.
int enter_another(void* other, tarn_scope /*scope*/, std::size_t /*bytes*/) {
  ++asked;
  tarn_scope_entry entry;
  EXPECT_EQ(tarn_scope_enter(*static_cast<tarn_scope*>(other), &entry), 1);
  EXPECT_EQ(tarn_malloc(16 * mib), nullptr);
  tarn_scope_leave(&entry);
  return 0;
}

TEST(scope, a_callback_is_not_called_within_another_ones) {
  tarn_scope_options options = TARN_SCOPE_OPTIONS;
  options.limit = mib;
  options.on_full = enter_another;
  tarn_scope other{};
  options.context = &other;
  other = tarn_scope_begin("other", &options);
  const tarn_scope first = tarn_scope_begin("first", &options);
  tarn_scope_entry entry;
  ASSERT_EQ(tarn_scope_enter(first, &entry), 1);
  asked = 0;
  EXPECT_EQ(tarn_malloc(16 * mib), nullptr);
  EXPECT_EQ(asked, 1);
  tarn_scope_leave(&entry);
  tarn_scope_end(first, nullptr);
  tarn_scope_end(other, nullptr);
}

}  // namespace
}  // namespace tarn
