// SPDX-License-Identifier: MIT
// scope_core: blocks of each size, what is charged for them, empty spans, survivors, and the invariants.
#include "fronts/scopes/scope_core.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "broken_invariant.hpp"
#include "fronts/scopes/scope_registry.hpp"

namespace tarn {

class scope_core_test_access {
 public:
  static std::size_t& small_bytes(scope_core& c) { return c.small_bytes_; }
  static std::size_t& own_bytes(scope_core& c) { return c.own_bytes_; }
  static std::size_t& dirty_bytes(scope_core& c) { return c.dirty_bytes_; }
  static std::size_t& leaving_bytes(scope_core& c) { return c.leaving_bytes_; }
  static scope_region* regions(scope_core& c) { return c.regions_; }
  // As release_empty(), which does both.
  static void take_out_empty(scope_core& c, scope_leaving& l) TARN_NOT_ANALYZED {
    os::lock_guard guard(c.lock_);
    while (span* const s = c.dirty_.pop_front()) c.detach_locked(s, l);
    c.dirty_bytes_ = 0;
    c.begin_leaving_locked(l);
  }
  static void give_back(scope_leaving& l) { scope_core::end_leaving(l, 0); }
};

namespace {

using access = scope_core_test_access;

class scope_core_test : public testing::Test {
 protected:
  void begin(std::size_t budget, scope_core& parent = process_scope) {
    tarn_scope_options options = TARN_SCOPE_OPTIONS;
    options.limit = budget;
    core->begin(names_of_scopes.row("core"), options, parent);
  }
  scope_core_test() { begin(0); }
  ~scope_core_test() override {
    validate();
    EXPECT_EQ(core->finish(process_scope, false, nullptr).blocks, 0U);
    EXPECT_EQ(core->charged(), 0U);
    core->retire();
    scope_registry::keep_core(core);
  }
  void validate() {
    os::lock_guard guard(core->lock());
    core->validate_locked();
  }

  scope_core* core = scope_registry::take_core();
};

TEST_F(scope_core_test, serves_each_size_and_alignment) {
  for (std::size_t alignment = 1; alignment <= mib; alignment *= 4) {
    for (const std::size_t size : {0UL, 1UL, 8UL, 100UL, 4097UL, 262144UL, 262145UL, 3000000UL}) {
      auto* const block = static_cast<unsigned char*>(core->allocate(size, alignment));
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(address_of(block) % alignment, 0U);
      const std::size_t usable = scope_core::usable_size(scope_core::span_of(block), block);
      EXPECT_GE(usable, size);
      std::memset(block, 0xab, usable);
      EXPECT_EQ(&scope_core::owner_of(scope_core::span_of(block)), core);
      EXPECT_EQ(engine::map.class_of(address_of(block)), 0U);
      scope_core::deallocate(scope_core::span_of(block), block);
    }
  }
  EXPECT_EQ(core->bytes().small + core->bytes().large, 0U);
}

TEST_F(scope_core_test, charges_its_spans_and_those_around_it) {
  const std::size_t before = process_scope.charged();
  void* const small = core->allocate(100, 1);
  void* const large = core->allocate(mib / 2, 1);
  // The rest of the small block's region is charged if it may be resident.
  const std::size_t charged = core->charged();
  EXPECT_GE(charged, page_size + mib / 2);
  EXPECT_LE(charged, 64 * kib + mib / 2);
  EXPECT_EQ(charged, core->bytes().spans);
  EXPECT_EQ(process_scope.charged(), before + charged);
  scope_core::deallocate(scope_core::span_of(small), small);
  scope_core::deallocate(scope_core::span_of(large), large);
  // Resident still, and for the next ones.
  EXPECT_EQ(core->charged(), charged);
  void* const again = core->allocate(mib / 2, 1);
  EXPECT_EQ(again, large);
  scope_core::deallocate(scope_core::span_of(again), again);
  EXPECT_EQ(core->release_empty(), charged);
  EXPECT_EQ(core->charged(), 0U);
  EXPECT_EQ(process_scope.charged(), before);
}

TEST_F(scope_core_test, the_budget_bounds_what_is_taken) {
  begin(mib);
  std::vector<void*> blocks;
  while (void* const block = core->allocate(10000, 1)) blocks.push_back(block);
  EXPECT_LE(core->charged(), mib);
  EXPECT_GT(blocks.size() * 10000, mib * 7 / 8);
  EXPECT_EQ(core->allocate(300000, 1), nullptr);
  // Empty spans of one class make room for another one.
  for (void* const block : blocks) scope_core::deallocate(scope_core::span_of(block), block);
  void* const large = core->allocate(mib, 1);
  EXPECT_NE(large, nullptr);
  EXPECT_EQ(core->allocate(1, 1), nullptr);
  scope_core::deallocate(scope_core::span_of(large), large);
}

TEST_F(scope_core_test, random_blocks_keep_their_bytes) {
  begin(8 * mib);
  std::mt19937 random(1);
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  std::size_t failed = 0;
  for (int i = 0; i < 30000; ++i) {
    if (!blocks.empty() && random() % 5 < 2) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const auto [block, size] = blocks.back();
      for (std::size_t k = 0; k < size; k += 13) ASSERT_EQ(block[k], static_cast<unsigned char>(size));
      scope_core::deallocate(scope_core::span_of(block), block);
      blocks.pop_back();
    } else {
      const std::size_t size = 1 + random() % (i % 100 == 0 ? 300000 : 2000);
      auto* const block = static_cast<unsigned char*>(core->allocate(size, 1));
      failed += static_cast<std::size_t>(block == nullptr);
      if (block == nullptr) continue;
      std::memset(block, static_cast<unsigned char>(size), size);
      blocks.emplace_back(block, size);
    }
    ASSERT_LE(core->charged(), 8 * mib);
    if (i % 1000 == 0) validate();
  }
  EXPECT_GT(failed, 0U);
  for (const auto& [block, size] : blocks) scope_core::deallocate(scope_core::span_of(block), block);
}

TEST_F(scope_core_test, survivors_go_to_the_heir_and_are_reported) {
  scope_core* const inner = scope_registry::take_core();
  tarn_scope_options options = TARN_SCOPE_OPTIONS;
  inner->begin(names_of_scopes.row("inner"), options, *core);
  std::vector<void*> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(inner->allocate(64, 1));
  blocks.push_back(inner->allocate(mib, 1));
  for (std::size_t i = 0; i < 999; ++i) scope_core::deallocate(scope_core::span_of(blocks[i]), blocks[i]);
  tarn_scope_report report;
  inner->finish(*core, false, &report);
  EXPECT_EQ(report.blocks, 2U);
  EXPECT_EQ(report.bytes, 64 + mib);
  EXPECT_EQ(report.held, page_size + mib);
  ASSERT_EQ(report.count, 2U);
  EXPECT_EQ(report.classes[0].size, 64U);
  EXPECT_EQ(report.classes[0].blocks, 1U);
  EXPECT_EQ(report.classes[1].size, 0U);
  EXPECT_EQ(report.classes[1].bytes, mib);
  EXPECT_EQ(core->charged(), page_size + mib);
  EXPECT_EQ(core->bytes().small, 64U);
  validate();
  // The heir's next block comes from what is free beside the survivor.
  void* const next = core->allocate(64, 1);
  EXPECT_EQ(address_of(next) / page_size, address_of(blocks[999]) / page_size);
  for (void* const block : {next, blocks[999], blocks[1000]}) {
    EXPECT_EQ(&scope_core::owner_of(scope_core::span_of(block)), core);
    scope_core::deallocate(scope_core::span_of(block), block);
  }
  inner->retire();
  scope_registry::keep_core(inner);
}

TEST_F(scope_core_test, an_end_gives_all_memory_back) {
  scope_core* const inner = scope_registry::take_core();
  tarn_scope_options options = TARN_SCOPE_OPTIONS;
  options.keep = 0;
  inner->begin(names_of_scopes.row("inner"), options, process_scope);
  const std::size_t in_use = engine::heap.in_use_bytes();
  const std::size_t returned = engine::heap.stats().returned;
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 3000; ++i) {
    blocks.push_back(inner->allocate(1 + i, 1));
    std::memset(blocks.back(), 1, 1 + i);
  }
  for (void* const block : blocks) scope_core::deallocate(scope_core::span_of(block), block);
  tarn_scope_report report;
  inner->finish(process_scope, false, nullptr);
  EXPECT_EQ(report.blocks, 0U);
  EXPECT_EQ(report.count, 0U);
  EXPECT_EQ(engine::heap.in_use_bytes(), in_use);
  EXPECT_GE(engine::heap.stats().returned, returned + report.given);
  inner->retire();
  scope_registry::keep_core(inner);
}

// The front of scopes, which fork asks, is there from the first scope on.
void attach_scopes() { tarn_scope_end(tarn_scope_begin("first", nullptr), nullptr); }

// Runs `in_child` in a forked child; whether it returned true.
template <class Work>
bool in_child(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(work() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status == 0;
}

TEST_F(scope_core_test, a_forked_child_is_not_charged_what_others_were_giving_back) {
  attach_scopes();
  void* const small = core->allocate(100, 1);
  void* const large = core->allocate(mib, 1);
  scope_core::deallocate(scope_core::span_of(large), large);
  const std::size_t outside = process_scope.charged() - core->charged();
  std::atomic<int> step{0};
  std::thread other([this, &step] {
    scope_leaving l;
    access::take_out_empty(*core, l);
    step = 1;
    while (step != 2) std::this_thread::yield();
    access::give_back(l);
  });
  while (step != 1) std::this_thread::yield();
  EXPECT_GE(core->charged(), mib + core->bytes().spans);
  EXPECT_TRUE(in_child([this, outside] {
    validate();
    const bool is_right =
        core->charged() == core->bytes().spans && process_scope.charged() == outside + core->charged();
    core->retire();  // waits for nobody
    return is_right;
  }));
  step = 2;
  other.join();
  EXPECT_EQ(core->charged(), core->bytes().spans);
  scope_core::deallocate(scope_core::span_of(small), small);
  core->release_empty();
}

// A signal handler forks while its thread gives memory back: the child's thread goes on with that.
TEST_F(scope_core_test, a_forked_child_goes_on_with_what_its_thread_was_giving_back) {
  attach_scopes();
  void* const large = core->allocate(mib, 1);
  scope_core::deallocate(scope_core::span_of(large), large);
  scope_leaving l;
  access::take_out_empty(*core, l);
  const std::size_t before = core->charged();
  EXPECT_TRUE(in_child([this, &l, before] {
    const bool stays = core->charged() == before;
    access::give_back(l);
    validate();
    core->retire();
    return stays && core->charged() == 0;
  }));
  access::give_back(l);
  EXPECT_EQ(core->charged(), 0U);
}

TEST_F(scope_core_test, finds_a_broken_invariant) {
  void* const block = core->allocate(100, 1);
  {
    os::lock_guard guard(core->lock());
    core->validate_locked();
    const auto expect = [&](auto& value, const char* equation) {
      ++value;
      EXPECT_EXIT(core->validate_locked(), testing::KilledBySignal(SIGABRT),
                  testing_support::literally(equation));
      --value;
    };
    expect(access::small_bytes(*core), "small_bytes_ == small");
    expect(access::own_bytes(*core), "own_bytes_ == own");
    expect(access::dirty_bytes(*core), "dirty_bytes_ == empty");
    access::leaving_bytes(*core) += core->charged();
    expect(access::leaving_bytes(*core), "own_bytes_ + leaving_bytes_ <= charged()");
    access::leaving_bytes(*core) -= core->charged();
    expect(access::regions(*core)->used, "region->used == used");
  }
  scope_core::deallocate(scope_core::span_of(block), block);
}

}  // namespace
}  // namespace tarn
