// SPDX-License-Identifier: MIT
// frame_step: steps over a stack of known words, by each kind of rule, and where a step must not be made.
#include "unwind/frame_step.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using namespace tarn::unwind;

// A stack of 16 words; word i holds 0x10000 + i, so a read tells its place.
class frame_step_test : public testing::Test {
 protected:
  frame_step_test() {
    for (std::uintptr_t i = 0; i < words; ++i) stack_[i] = 0x10000 + i;
  }
  static constexpr std::uintptr_t words = 16;
  [[nodiscard]] std::uintptr_t at(std::uintptr_t word) const {
    return reinterpret_cast<std::uintptr_t>(stack_) + 8 * word;
  }
  bool step_from(const frame_rule& rule, std::uintptr_t stack_pointer, std::uintptr_t frame_pointer) {
    stack_memory memory(stack_bounds{at(0), at(words)});
    out_ = {};
    return step(rule, stack_pointer, frame_pointer, memory, out_);
  }

  alignas(16) std::uintptr_t stack_[words];
  frame_step out_;
};

TEST_F(frame_step_test, from_the_stack_pointer) {
  ASSERT_TRUE(step_from({rule_kind::usual, false, 6, 0, 1}, at(2), 77));
  EXPECT_EQ(out_.stack_pointer, at(8));
  EXPECT_EQ(out_.pc, 0x10007U);
  EXPECT_EQ(out_.pc_slot, at(7));
  EXPECT_EQ(out_.frame_pointer, 77U) << "still in its register";
  EXPECT_EQ(out_.frame_pointer_slot, 0U);
  EXPECT_FALSE(out_.by_frame_pointer);
}

TEST_F(frame_step_test, from_the_frame_pointer_which_was_saved) {
  ASSERT_TRUE(step_from({rule_kind::usual, true, 2, 2, 1}, at(1), at(9)));
  EXPECT_EQ(out_.stack_pointer, at(11));
  EXPECT_EQ(out_.pc, 0x1000aU);
  EXPECT_EQ(out_.frame_pointer, 0x10009U);
  EXPECT_EQ(out_.frame_pointer_slot, at(9));
  EXPECT_TRUE(out_.by_frame_pointer);
}

TEST_F(frame_step_test, along_a_chain_of_frame_pointers) {
  ASSERT_TRUE(step_from({.kind = rule_kind::frame_pointer}, at(1), at(4)));
  EXPECT_EQ(out_.stack_pointer, at(6));
  EXPECT_EQ(out_.pc, 0x10005U);
  EXPECT_EQ(out_.frame_pointer, 0x10004U);
  EXPECT_TRUE(out_.by_frame_pointer);
}

TEST_F(frame_step_test, over_a_frame_that_was_realigned) {
  stack_[6] = at(12);
  const frame_rule rule{rule_kind::realigned, false, -1, 0, 1};
  ASSERT_TRUE(step_from(rule, at(2), at(7)));
  EXPECT_EQ(out_.stack_pointer, at(12));
  EXPECT_EQ(out_.pc, 0x1000bU);
  EXPECT_EQ(out_.frame_pointer, 0x10007U);
  EXPECT_FALSE(step_from(rule, at(7), at(7))) << "the saved address lies below the stack pointer";
  EXPECT_FALSE(step_from(rule, at(2), at(words) + 16)) << "it lies outside of the stack";
  stack_[6] = 0x10006;
  EXPECT_FALSE(step_from(rule, at(2), at(7))) << "it does not lead outwards";
}

TEST_F(frame_step_test, the_walk_ends) {
  EXPECT_FALSE(step_from({rule_kind::end, false, 6, 0, 1}, at(2), at(4)));
  EXPECT_FALSE(step_from({rule_kind::unknown, false, 6, 0, 1}, at(2), at(4)));
  EXPECT_FALSE(step_from({rule_kind::usual, false, 6, 0, 0}, at(2), at(4)))
      << "the return address is in a register";
}

TEST_F(frame_step_test, a_step_leads_outwards) {
  EXPECT_FALSE(step_from({rule_kind::usual, false, 0, 0, 1}, at(2), at(4)));
  EXPECT_FALSE(step_from({rule_kind::usual, true, 2, 0, 1}, at(9), at(7))) << "to the same frame";
  EXPECT_FALSE(step_from({rule_kind::usual, true, 2, 0, 1}, at(9), at(3)));
  EXPECT_FALSE(step_from({rule_kind::usual, false, 2, 0, 3}, at(5), at(4)))
      << "return address below the frame";
}

TEST_F(frame_step_test, refuses_impossible_frames) {
  EXPECT_FALSE(step_from({rule_kind::usual, true, 2, 0, 1}, at(2), at(7) + 4)) << "not aligned";
  EXPECT_FALSE(step_from({rule_kind::usual, false, 20, 0, 1}, at(2), at(4))) << "beyond the stack";
  EXPECT_FALSE(step_from({rule_kind::usual, false, 14, 17, 1}, at(2), at(4)))
      << "frame pointer before the stack";
  EXPECT_FALSE(step_from({rule_kind::usual, true, 1 << 18, 0, 1}, at(2), ~std::uintptr_t{7})) << "wraps";
  stack_[7] = 4096;
  EXPECT_FALSE(step_from({rule_kind::usual, false, 6, 0, 1}, at(2), at(4))) << "the return address is none";
  stack_[7] = 4097;
  EXPECT_TRUE(step_from({rule_kind::usual, false, 6, 0, 1}, at(2), at(4)));
}

TEST(plain_address, has_no_signature) {
#if defined(__aarch64__)
  EXPECT_EQ(plain_address(0xab12'0000'1234'5678), 0x0000'0000'1234'5678U);
#endif
  EXPECT_EQ(plain_address(0x7fff'1234'5678), 0x7fff'1234'5678U);
}

}  // namespace
