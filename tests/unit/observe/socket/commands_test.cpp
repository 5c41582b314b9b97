// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/hardened.hpp"
#include "engine/engine.hpp"
#include "engine/options.hpp"
#include "observe/socket/command.hpp"
#include "os/memory.hpp"
#include "slots/size_class.hpp"
#include "tarn/malloc.h"

namespace tarn::control_socket {
namespace {

struct result {
  bool refused;
  std::string text;
};

result asked(const std::string& line) {
  std::vector<char> memory(1 << 20);
  answer out(memory.data(), memory.size());
  run(line, out);
  return {out.is_refused(), std::string(out.data(), out.stored())};
}

TEST(commands, have_different_names_and_a_meaning) {
  const std::string all = asked("help").text;
  for (const command& c : commands()) {
    EXPECT_NE(all.find(std::string(c.name)), std::string::npos);
    EXPECT_NE(*c.meaning, '\0');
    int same = 0;
    for (const command& other : commands()) same += other.name == c.name;
    EXPECT_EQ(same, 1) << c.name;
  }
}

TEST(commands, names_what_it_knows_when_it_does_not_know_a_command) {
  for (const char* const line : {"", " ", "bogus", "metrics2", "METRICS", "\xff\n\r"}) {
    const result r = asked(line);
    EXPECT_TRUE(r.refused) << line;
    EXPECT_NE(r.text.find("metrics"), std::string::npos) << r.text;
  }
}

TEST(commands, refuses_words_that_a_command_does_not_take) { EXPECT_TRUE(asked("metrics all").refused); }

TEST(commands, sets_an_option_that_may_change_and_says_by_whom) {
  EXPECT_EQ(asked("set decay_ms=1234").text, "decay_ms=1234\n");
  EXPECT_EQ(options::decay_ms(), 1234);
  EXPECT_EQ(asked("set TARN_DECAY_MS=1000").text, "decay_ms=1000\n");
  EXPECT_NE(asked("options").text.find("decay_ms\t1000\tcontrol\tyes\t"), std::string::npos);
}

TEST(commands, names_the_options_that_may_change) {
  for (const char* const line :
       {"set", "set decay_ms", "set bogus=1", "set control=off", "set stats=stderr"}) {
    const result r = asked(line);
    EXPECT_TRUE(r.refused) << line;
    EXPECT_NE(r.text.find("cache_budget"), std::string::npos) << r.text;
  }
  EXPECT_TRUE(asked("set " + std::string(450, 'x') + "=1").refused);
}

TEST(commands, keeps_the_value_when_a_new_one_is_not_valid) {
  ASSERT_FALSE(asked("set decay_ms=1000").refused);
  for (const std::string value : {"", "x", "-2", "99999999999999999999"}) {
    const result r = asked("set decay_ms=" + value);
    EXPECT_TRUE(r.refused) << value;
    EXPECT_NE(r.text.find("it stays 1000"), std::string::npos) << r.text;
  }
}

TEST(commands, set_takes_no_null_bytes) {
  ASSERT_FALSE(asked("set decay_ms=1000").refused);
  using namespace std::string_literals;
  for (const std::string& line :
       {"set decay_ms=2\0"s, "set decay_ms=2\0000"s, "set decay_ms\0x=2"s, "set \0"s}) {
    const result r = asked(line);
    EXPECT_TRUE(r.refused) << r.text;
    EXPECT_NE(r.text.find("null byte"), std::string::npos) << r.text;
  }
  EXPECT_EQ(options::decay_ms(), 1000);
}

TEST(commands, trims) {
  constexpr std::size_t bytes = 4 << 20;
  void* const block = tarn_malloc(bytes);
  std::memset(block, 1, bytes);
  tarn_free(block);
  EXPECT_GE(std::stoull(asked("trim").text), bytes);
  EXPECT_TRUE(asked("trim x").refused);
  EXPECT_TRUE(asked("trim -1").refused);
  EXPECT_TRUE(asked("trim 999999999999999999999999").refused);
}

TEST(commands, a_trim_drops_idle_pages_between_blocks) {
  if constexpr (hardened_build) GTEST_SKIP() << "it drops no pages between blocks";
  std::vector<void*> blocks(4000);
  for (void*& block : blocks) block = tarn_malloc(700);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i % 10 != 0) tarn_free(blocks[i]);
  }
  const std::size_t between = engine::central_tier.depots().figures_of(class_of_size(700)).objects;
  ASSERT_FALSE(asked("trim 1").refused);
  const std::size_t returned = std::stoull(asked("trim").text);
  if (span_bytes(class_of_size(700)) >= 2 * os::system_page_size()) {
    EXPECT_GE(returned, between * 700 / 4);
  }
  for (std::size_t i = 0; i < blocks.size(); i += 10) tarn_free(blocks[i]);
}

TEST(commands, refuses_a_profile_that_is_not_on) {
  const result r = asked("profile");
  EXPECT_TRUE(r.refused);
  EXPECT_NE(r.text.find("profile"), std::string::npos);
}

TEST(commands, mark_an_answer_that_is_too_long) {
  char memory[100];
  answer out(memory, sizeof memory);
  run("metrics", out);
  EXPECT_GT(out.size(), out.stored());
}

}  // namespace
}  // namespace tarn::control_socket
