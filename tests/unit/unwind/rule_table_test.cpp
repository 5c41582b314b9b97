// SPDX-License-Identifier: MIT
// The table of unwind rules that were found before: a rule must not be used after its address has come to belong to
// another module or function.
#include "unwind/rule_table.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace {

using namespace tarn::unwind;

constexpr std::uint32_t function_bytes = 64;
constexpr unsigned char stack_pointer_register =
#if defined(__x86_64__)
    7;
#else
    31;
#endif

// The unwind sections of a module whose functions are 64 bytes long and adjacent, and room for their code.
class module_tables {
 public:
  // `frames`: for each function, the distance from the stack pointer to the CFA (canonical frame address), below 128.
  explicit module_tables(const std::vector<unsigned char>& frames, unsigned char data_step = 0x78) {
    build(frames, data_step);
  }
  void build(const std::vector<unsigned char>& frames, unsigned char data_step = 0x78) {
    std::memset(bytes_, 0, sizeof bytes_);
    const auto count = static_cast<std::uint32_t>(frames.size());
    put(0, 0x3b031b01);
    put(8, count);
    const unsigned char common[] = {
        20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, data_step, 30, 1, 0x1b, 0x0c, stack_pointer_register, 8};
    std::memcpy(bytes_ + common_at, common, sizeof common);
    for (std::uint32_t index = 0; index < count; ++index) {
      const std::uint32_t entry = common_at + 24 + 24 * index;
      const std::uint32_t function = code_at + function_bytes * index;
      put(12 + 8 * index, function);
      put(16 + 8 * index, entry);
      put(entry, 20);
      put(entry + 4, entry + 4 - common_at);
      put(entry + 8, function - (entry + 8));
      put(entry + 12, function_bytes);
      bytes_[entry + 17] = 0x0e;
      bytes_[entry + 18] = frames[index];
    }
  }
  [[nodiscard]] const unsigned char* header() const { return bytes_; }
  [[nodiscard]] std::uintptr_t function(std::uint32_t index) const {
    return reinterpret_cast<std::uintptr_t>(bytes_) + code_at + function_bytes * index;
  }

 private:
  static constexpr std::uint32_t common_at = 256;
  static constexpr std::uint32_t code_at = 1024;
  void put(std::uint32_t offset, std::uint32_t value) { std::memcpy(bytes_ + offset, &value, sizeof value); }

  alignas(8) unsigned char bytes_[2048];
};

TEST(rule_table, a_kept_rule_is_the_same) {
  const module_tables tables({16, 32, 64});
  static checked_rules rules;
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(rules.rule_for(tables.function(0) + 5, tables.header()).cfa_offset, 2);
    EXPECT_EQ(rules.rule_for(tables.function(1), tables.header()).cfa_offset, 4);
    EXPECT_EQ(rules.rule_for(tables.function(2) + 63, tables.header()).cfa_offset, 8);
    EXPECT_EQ(rules.rule_for(tables.function(2) + 64, tables.header()).kind, rule_kind::frame_pointer);
    EXPECT_EQ(rules.rule_for(tables.function(0) - 1, tables.header()).kind, rule_kind::frame_pointer);
  }
}

TEST(rule_table, another_frame_in_the_same_place_gives_another_rule) {
  module_tables tables({16, 32, 64});
  static checked_rules rules;
  const std::uintptr_t pc = tables.function(1) + 7;
  EXPECT_EQ(rules.rule_for(pc, tables.header()).cfa_offset, 4);
  tables.build({16, 112, 64});
  EXPECT_EQ(rules.rule_for(pc, tables.header()).cfa_offset, 14);
  tables.build({16, 32, 64});
  EXPECT_EQ(rules.rule_for(pc, tables.header()).cfa_offset, 4);
}

TEST(rule_table, a_module_with_fewer_functions_or_no_table_gives_none) {
  module_tables tables({16, 32, 64});
  static checked_rules rules;
  const std::uintptr_t pc = tables.function(2) + 7;
  EXPECT_EQ(rules.rule_for(pc, tables.header()).cfa_offset, 8);
  tables.build({16});
  EXPECT_EQ(rules.rule_for(pc, tables.header()).kind, rule_kind::frame_pointer);
  tables.build({});
  EXPECT_EQ(rules.rule_for(pc, tables.header()).kind, rule_kind::frame_pointer);
  EXPECT_EQ(rules.rule_for(pc, nullptr).kind, rule_kind::frame_pointer);
}

TEST(rule_table, another_common_entry_gives_another_rule) {
  module_tables tables({16});
  static checked_rules rules;
  const std::uintptr_t pc = tables.function(0) + 7;
  EXPECT_EQ(rules.rule_for(pc, tables.header()).kind, rule_kind::usual);
  const_cast<unsigned char*>(tables.header())[256 + 8] = 9;  // an unknown version
  EXPECT_EQ(rules.rule_for(pc, tables.header()).kind, rule_kind::frame_pointer);
}

TEST(rule_table, a_rule_is_found_with_its_source) {
  static rule_table rules;
  const frame_rule rule{rule_kind::usual, true, -3, 7, 1};
  EXPECT_EQ(rules.find(0x1234).rule.kind, rule_kind::unknown);
  rules.insert(0x1234, {rule, 9});
  const kept_rule kept = rules.find(0x1234);
  EXPECT_EQ(kept.source, 9U);
  EXPECT_EQ(kept.rule.kind, rule_kind::usual);
  EXPECT_TRUE(kept.rule.from_frame_pointer);
  EXPECT_EQ(kept.rule.cfa_offset, -3);
  EXPECT_EQ(kept.rule.saved_frame_pointer, 7);
  EXPECT_EQ(kept.rule.saved_return, 1);
}

}  // namespace
