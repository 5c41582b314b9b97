// SPDX-License-Identifier: MIT
// Plans that the preloaded library cannot read, and the call paths that it recognises.
#include "profiler/apply/apply_sites.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <memory>
#include <string>
#include <thread>

#include "profiler/record/origin.hpp"
#include "tests/profiler/apply/plan.hpp"

namespace tarn::profiler {
namespace {

std::uintptr_t inner_return, outer_return;

// Asks as a hook does: by its caller.
[[gnu::noinline]] int ask(apply_sites& sites) {
  const unwind::frame_origin caller = recorder::caller();
  inner_return = caller.return_address;
  return sites.find(caller);
}

// `extra`: bytes on the stack between the two return addresses.
[[gnu::noinline]] int allocate(apply_sites& sites, std::size_t extra) {
  auto* const room = static_cast<volatile char*>(__builtin_alloca(extra + 16));
  room[0] = 1;
  outer_return = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  const int group = ask(sites);
  asm volatile("" ::: "memory");  // not a tail call
  return group;
}

template <int number>
[[gnu::noinline]] int caller(apply_sites& sites, std::size_t extra = 0) {
  const int group = allocate(sites, extra);
  asm volatile("" ::"i"(number) : "memory");
  return group;
}

TEST(apply_sites, a_plan_that_cannot_be_read) {
  EXPECT_FALSE(std::make_unique<apply_sites>()->load("/nowhere/at/all"));
  EXPECT_FALSE(std::make_unique<apply_sites>()->load("/"));
  const std::string frame = frame_at(reinterpret_cast<std::uintptr_t>(&ask));
  EXPECT_TRUE(loaded_plan("pool 0 64 " + frame).good);
  for (const std::string& line :
       {"cache 0 64 " + frame, "pool x 64 " + frame, "pool 0 x " + frame, "pool -1 64 " + frame,
        "pool 32 64 " + frame, "pool 0 99999999999999999999 " + frame, std::string("pool 0 64"),
        std::string("pool 0"), std::string("pool"), std::string(" "), std::string("pool 0 64 x61:0"),
        std::string("pool 0 64 n:0"), std::string("pool 0 64 n61"), std::string("pool 0 64 n6:0"),
        std::string("pool 0 64 n6G:0"), std::string("pool 0 64 n61:0x1"),
        "pool 0 64 n" + std::string(514, '6') + ":0"})
    EXPECT_FALSE(loaded_plan(line).good) << line;
}

TEST(apply_sites, the_good_lines_of_a_bad_plan_count) {
  const std::string frame = frame_at(reinterpret_cast<std::uintptr_t>(&ask));
  const loaded_plan plan("pool 0 64 " + frame + "\nnonsense\nbuffers 3 0 " + frame + "\n");
  EXPECT_FALSE(plan.good);
  EXPECT_EQ(plan.sites->found(), 2U);
  EXPECT_TRUE(plan.sites->group(0).used);
  EXPECT_EQ(plan.sites->group(0).size, 64U);
  EXPECT_FALSE(plan.sites->group(0).buffers);
  EXPECT_TRUE(plan.sites->group(3).buffers);
  EXPECT_FALSE(plan.sites->group(1).used);
}

TEST(apply_sites, an_empty_plan_has_no_sites) {
  const loaded_plan plan("");
  EXPECT_TRUE(plan.good);
  EXPECT_EQ(plan.sites->sites(), 0U);
  EXPECT_EQ(caller<0>(*plan.sites), apply_sites::none);
}

TEST(apply_sites, a_site_in_a_module_that_is_not_loaded_is_not_found) {
  const loaded_plan plan("pool 0 64 b00112233:10\npool 1 64 n6e6f77686572652e736f:10\n");
  EXPECT_TRUE(plan.good);
  EXPECT_EQ(plan.sites->sites(), 2U);
  EXPECT_EQ(plan.sites->found(), 0U);
}

TEST(apply_sites, one_frame_is_any_path_to_it) {
  caller<0>(*loaded_plan("").sites);
  const loaded_plan plan("pool 5 64 " + frame_at(inner_return));
  ASSERT_TRUE(plan.good);
  EXPECT_EQ(plan.sites->found(), 1U);
  EXPECT_EQ(caller<0>(*plan.sites), 5);
  EXPECT_EQ(caller<1>(*plan.sites), 5);
  EXPECT_EQ(ask(*plan.sites), apply_sites::none);
}

// Beyond eight unwound stacks of one shape the stack is read at the known distance alone.
TEST(apply_sites, two_frames_distinguish_callers) {
  std::string frames[2];
  caller<0>(*loaded_plan("").sites);
  frames[0] = frame_at(inner_return) + " " + frame_at(outer_return);
  caller<1>(*loaded_plan("").sites);
  frames[1] = frame_at(inner_return) + " " + frame_at(outer_return);
  const loaded_plan plan("pool 0 64 " + frames[0] + "\nbuffers 1 0 " + frames[1] + "\n");
  ASSERT_TRUE(plan.good);
  for (int round = 0; round < 30; ++round) {
    EXPECT_EQ(caller<0>(*plan.sites), 0) << round;
    EXPECT_EQ(caller<1>(*plan.sites), 1) << round;
    EXPECT_EQ(caller<2>(*plan.sites), apply_sites::none) << round;
  }
}

TEST(apply_sites, a_frame_whose_size_varies_is_unwound) {
  caller<0>(*loaded_plan("").sites);
  const loaded_plan plan("pool 0 64 " + frame_at(inner_return) + " " + frame_at(outer_return));
  for (int round = 0; round < 30; ++round) {
    EXPECT_EQ(caller<0>(*plan.sites, static_cast<std::size_t>(round % 3) * 64), 0) << round;
    EXPECT_EQ(caller<1>(*plan.sites, static_cast<std::size_t>(round % 3) * 64), apply_sites::none) << round;
  }
}

// ---- stacks that end before the known distance ----

constinit ucontext_t test_context{};
constinit ucontext_t coroutine{};
constinit apply_sites* asked_sites = nullptr;
constinit int answer = 0;

void ask_on_coroutine() { answer = caller<0>(*asked_sites, 16); }

// Calls the site on a coroutine's stack between pages that cannot be read.
int answer_on_coroutine(apply_sites& sites) {
  constexpr std::size_t bytes = std::size_t{128} << 10;
  constexpr std::size_t guard = 4 * bytes;  // more than the distance that is read
  void* const memory = mmap(nullptr, bytes + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  char* const stack = static_cast<char*>(memory) + guard;
  EXPECT_EQ(mprotect(stack, bytes, PROT_READ | PROT_WRITE), 0);
  asked_sites = &sites;
  getcontext(&coroutine);
  coroutine.uc_stack.ss_sp = stack;
  coroutine.uc_stack.ss_size = bytes;
  coroutine.uc_link = &test_context;
  makecontext(&coroutine, ask_on_coroutine, 0);
  swapcontext(&test_context, &coroutine);
  munmap(memory, bytes + 2 * guard);
  return answer;
}

TEST(apply_sites, a_smaller_frame_near_the_end_of_a_stack_is_not_read_beyond_it) {
  caller<0>(*loaded_plan("").sites);
  const loaded_plan plan("pool 0 64 " + frame_at(inner_return) + " " + frame_at(outer_return));
  for (int round = 0; round < 30; ++round) EXPECT_EQ(caller<0>(*plan.sites, 150000), 0) << round;
  EXPECT_EQ(answer_on_coroutine(*plan.sites), 0);
  EXPECT_EQ(caller<0>(*plan.sites, 150000), 0);
}

// The distance that is known may lead beyond the end of a thread's stack, too, and across its guard.
TEST(apply_sites, threads_have_bounds_of_their_own) {
  caller<0>(*loaded_plan("").sites);
  const loaded_plan plan("pool 0 64 " + frame_at(inner_return) + " " + frame_at(outer_return));
  for (int round = 0; round < 30; ++round) EXPECT_EQ(caller<0>(*plan.sites, 1 << 20), 0) << round;
  std::thread([&plan] { EXPECT_EQ(caller<0>(*plan.sites), 0); }).join();
  std::thread([&plan] { EXPECT_EQ(caller<0>(*plan.sites, 1 << 20), 0); }).join();
}

}  // namespace
}  // namespace tarn::profiler
