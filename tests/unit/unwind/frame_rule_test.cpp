// SPDX-License-Identifier: MIT
// frame_rule: rules of hand-made .eh_frame entries, sound and damaged ones. The entries of real modules: the recorder's
// call_path_test.
#include "unwind/frame_rule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

using namespace tarn::unwind;

using bytes = std::vector<unsigned char>;

#if defined(__x86_64__)
constexpr unsigned char fp = 6;
constexpr unsigned char sp = 7;
constexpr unsigned char ra = 16;
#else
constexpr unsigned char fp = 29;
constexpr unsigned char sp = 31;
constexpr unsigned char ra = 30;
#endif

// Instructions (DW_CFA_…) and their first operands.
constexpr unsigned char nop = 0x00;
constexpr unsigned char remember = 0x0a;
constexpr unsigned char restore_state = 0x0b;
constexpr unsigned char def_cfa = 0x0c;
constexpr unsigned char def_cfa_register = 0x0d;
constexpr unsigned char def_cfa_offset = 0x0e;
constexpr unsigned char def_cfa_expression = 0x0f;
constexpr unsigned char undefined = 0x07;
constexpr unsigned char advance(unsigned char bytes_of_code) { return 0x40 | bytes_of_code; }
constexpr unsigned char offset(unsigned char number) { return 0x80 | number; }
constexpr unsigned char restore(unsigned char number) { return 0xc0 | number; }

// The entry of a function of 64 bytes, whose CFA is the stack pointer + 16 at its start, with the return address at
// CFA - 8.
class one_entry {
 public:
  explicit one_entry(const bytes& program, const char* augmentation = "zR") {
    bytes common = {0, 0, 0, 0, 1};
    const std::size_t letters = std::strlen(augmentation);
    common.insert(common.end(), augmentation, augmentation + letters + 1);
    const bytes rest = {1, 0x78, ra, 1, 0x1b, def_cfa, sp, 16, offset(ra), 1};
    common.insert(common.end(), rest.begin(), rest.end());
    put_entry(common_at, common);
    bytes own(12 + 1);
    own.insert(own.end(), program.begin(), program.end());
    put_entry(entry_at, own);
    put(entry_at + 4, entry_at + 4 - common_at);
    put(entry_at + 8, code_at - (entry_at + 8));
    put(entry_at + 12, code_bytes);
  }
  // The rule `distance` bytes behind the function's start.
  [[nodiscard]] frame_rule at(std::uintptr_t distance) const {
    return parse_entry(reinterpret_cast<std::uintptr_t>(all_) + code_at + distance, all_ + entry_at);
  }
  void put(std::uint32_t at, std::uint32_t value) { std::memcpy(all_ + at, &value, sizeof value); }

  static constexpr std::uint32_t common_at = 0;
  static constexpr std::uint32_t entry_at = 64;
  static constexpr std::uint32_t code_at = 512;
  static constexpr std::uint32_t code_bytes = 64;

 private:
  void put_entry(std::uint32_t at, const bytes& content) {
    put(at, static_cast<std::uint32_t>(content.size()));
    std::copy(content.begin(), content.end(), all_ + at + 4);
  }

  alignas(8) unsigned char all_[1024] = {};
};

// No usable information.
constexpr rule_kind none = rule_kind::frame_pointer;

TEST(frame_rule, the_row_of_each_address) {
  const one_entry entry({advance(1), def_cfa_offset, 32, offset(fp), 2, advance(3), def_cfa_register, fp});
  const frame_rule first = entry.at(0);
  EXPECT_EQ(first.kind, rule_kind::usual);
  EXPECT_FALSE(first.from_frame_pointer);
  EXPECT_EQ(first.cfa_offset, 2);
  EXPECT_EQ(first.saved_frame_pointer, 0);
  EXPECT_EQ(first.saved_return, 1);
  for (const unsigned distance : {1U, 3U}) {
    EXPECT_EQ(entry.at(distance).cfa_offset, 4);
    EXPECT_EQ(entry.at(distance).saved_frame_pointer, 2);
    EXPECT_FALSE(entry.at(distance).from_frame_pointer);
  }
  EXPECT_TRUE(entry.at(4).from_frame_pointer);
  EXPECT_TRUE(entry.at(63).from_frame_pointer);
}

TEST(frame_rule, addresses_of_another_function) {
  const one_entry entry({});
  EXPECT_EQ(entry.at(one_entry::code_bytes - 1).kind, rule_kind::usual);
  EXPECT_EQ(entry.at(one_entry::code_bytes).kind, none);
  EXPECT_EQ(entry.at(~std::uintptr_t{0}).kind, none);
}

TEST(frame_rule, restored_states_and_registers) {
  const one_entry entry({remember, offset(fp), 2, def_cfa_offset, 48, advance(4), restore_state, advance(4),
                         offset(fp), 2, advance(4), restore(fp), restore(ra)});
  EXPECT_EQ(entry.at(0).cfa_offset, 6);
  EXPECT_EQ(entry.at(4).cfa_offset, 2);
  EXPECT_EQ(entry.at(4).saved_frame_pointer, 0);
  EXPECT_EQ(entry.at(8).saved_frame_pointer, 2);
  EXPECT_EQ(entry.at(12).saved_frame_pointer, 0);
  EXPECT_EQ(entry.at(12).saved_return, 1);
}

TEST(frame_rule, states_are_remembered_to_a_depth_of_eight) {
  bytes program(8, remember);
  program.insert(program.end(), 8, restore_state);
  EXPECT_EQ(one_entry(program).at(0).kind, rule_kind::usual);
  program.insert(program.begin(), remember);
  EXPECT_EQ(one_entry(program).at(0).kind, none);
  EXPECT_EQ(one_entry({restore_state}).at(0).kind, none);
}

TEST(frame_rule, the_outermost_frame_and_signal_frames_end_a_walk) {
  EXPECT_EQ(one_entry({undefined, ra}).at(0).kind, rule_kind::end);
  EXPECT_EQ(one_entry({}, "zRS").at(0).kind, rule_kind::end);
}

TEST(frame_rule, a_function_that_has_realigned_its_stack) {
  const unsigned char from_fp = 0x70 + fp;  // DW_OP_breg
  const auto rule_of = [](const bytes& expression) {
    bytes program = {def_cfa_expression, static_cast<unsigned char>(expression.size())};
    program.insert(program.end(), expression.begin(), expression.end());
    return one_entry(program).at(0);
  };
  constexpr unsigned char deref = 0x06;
  const frame_rule rule = rule_of({from_fp, 0x78, deref});  // -8
  EXPECT_EQ(rule.kind, rule_kind::realigned);
  EXPECT_EQ(rule.cfa_offset, -1);
  EXPECT_EQ(rule_of({from_fp, 0x7c, deref}).kind, none) << "-4";
  EXPECT_EQ(rule_of({from_fp, 0x78}).kind, none);
  EXPECT_EQ(rule_of({from_fp, 0x78, deref, deref}).kind, none);
  EXPECT_EQ(rule_of({from_fp + 1, 0x78, deref}).kind, none) << "another register";
  EXPECT_EQ(rule_of({from_fp, 0x80, 0x20, deref}).kind, none) << "4096 bytes away";
}

TEST(frame_rule, what_a_rule_cannot_express) {
  EXPECT_EQ(one_entry({def_cfa, 3, 16}).at(0).kind, none) << "another register";
  EXPECT_EQ(one_entry({def_cfa_offset, 12}).at(0).kind, none) << "no multiple of 8";
  EXPECT_EQ(one_entry({def_cfa_offset, 0x80, 0x80, 0x80, 0x02}).at(0).kind, none) << "4 MiB";
  EXPECT_EQ(one_entry({def_cfa_offset, 0xf8, 0xff, 0xff, 0x01}).at(0).cfa_offset, (1 << 19) - 1);
  EXPECT_EQ(one_entry({undefined, fp}).at(0).kind, none);
  EXPECT_EQ(one_entry({undefined, 3}).at(0).kind, rule_kind::usual) << "of no interest";
}

TEST(frame_rule, damaged_entries) {
  EXPECT_EQ(one_entry({0x3f}).at(0).kind, none) << "an unknown instruction";
  EXPECT_EQ(one_entry({def_cfa_offset}).at(0).kind, none) << "cut off";
  EXPECT_EQ(one_entry({def_cfa_offset, 0x80, 0x80}).at(0).kind, none) << "a number cut off";
  EXPECT_EQ(one_entry({def_cfa_expression, 100}).at(0).kind, none) << "longer than the entry";
  EXPECT_EQ(one_entry({}, "q").at(0).kind, none) << "an unknown augmentation";
  EXPECT_EQ(one_entry(bytes(11, 0x80)).at(0).kind, none) << "numbers without an end";
  for (const std::uint32_t at : {one_entry::common_at, one_entry::entry_at}) {
    for (const std::uint32_t length : {0U, 0xffffffffU, 6U}) {
      one_entry entry({nop});
      EXPECT_EQ(entry.at(0).kind, rule_kind::usual);
      entry.put(at, length);
      EXPECT_EQ(entry.at(0).kind, none) << "length " << length << " at " << at;
    }
  }
  one_entry entry({});
  entry.put(one_entry::common_at + 4, 1);
  EXPECT_EQ(entry.at(0).kind, none) << "no common entry";
}

TEST(find_module, distinguishes_code_from_other_memory) {
  const auto code = reinterpret_cast<std::uintptr_t>(&parse_entry);
  loaded_module own;
  ASSERT_TRUE(find_module(code, own));
  EXPECT_STREQ(own.path, "");
  EXPECT_NE(own.unwind_header, nullptr);
  EXPECT_TRUE(own.start <= code && code < own.end);
  EXPECT_FALSE(find_module(1, own));
  EXPECT_FALSE(find_module(reinterpret_cast<std::uintptr_t>(&own), own)) << "the stack";
}

}  // namespace
