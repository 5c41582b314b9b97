// SPDX-License-Identifier: MIT
// Options: the table, valid and invalid values, and the environment.
#include "engine/options.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <iostream>
#include <map>
#include <string>

#include "../../system_probes.hpp"
#include "engine/engine.hpp"
#include "engine/restore.hpp"
#include "self.hpp"

namespace tarn {
namespace {

using testing_support::restore_options;
using testing_support::run_test;

std::map<std::string, tarn_option> all_options() {
  std::map<std::string, tarn_option> out;
  tarn_option option;
  for (std::size_t i = 0; tarn_option_at(i, &option) == 0; ++i) out[option.name] = option;
  return out;
}

std::string value_of(const std::string& name) {
  tarn_option option;
  for (std::size_t i = 0; tarn_option_at(i, &option) == 0; ++i) {
    if (name == option.name) return std::string(option.value) + " (" + option.source + ")";
  }
  return "no such option";
}

TEST(options, the_table_is_complete_and_ends) {
  const auto options = all_options();
  EXPECT_EQ(options.size(), 16U);
  for (const char* name : {"decay_ms", "cache_budget", "large_cache", "limit", "huge_pages", "background",
                           "cpu_caches", "deep_binding", "guarded", "profile", "profile_file", "black_box",
                           "scopes", "slow_calls", "stats", "control"}) {
    ASSERT_EQ(options.count(name), 1U) << name;
    EXPECT_NE(std::string(options.at(name).meaning), "");
    EXPECT_NE(std::string(options.at(name).accepts), "");
  }
  tarn_option option;
  EXPECT_EQ(tarn_option_at(options.size(), &option), ENOENT);
  EXPECT_EQ(tarn_option_at(SIZE_MAX, &option), ENOENT);
}

TEST(options, every_default_is_a_valid_value) {
  restore_options restore;
  for (const auto& [name, option] : all_options()) {
    EXPECT_EQ(tarn_set_option(name.c_str(), option.standard), 0) << name;
  }
}

TEST(options, good_values) {
  restore_options restore;
  const std::pair<const char*, const char*> good[] = {
      {"decay_ms", "0"},       {"decay_ms", "-1"},         {"decay_ms", "86400000"},
      {"cache_budget", "0"},   {"cache_budget", "512K"},   {"cache_budget", "1048576"},
      {"cache_budget", "3g"},  {"large_cache", "64m"},     {"large_cache", "1k"},
      {"large_cache", "auto"}, {"huge_pages", "always"},   {"huge_pages", "never"},
      {"huge_pages", "auto"},  {"background", "off"},      {"background", "on"},
      {"background", "auto"},  {"cpu_caches", "off"},      {"cpu_caches", "on"},
      {"cpu_caches", "auto"},  {"deep_binding", "on"},     {"deep_binding", "off"},
      {"stats", "stderr"},     {"stats", "/tmp/file.txt"}, {"stats", "off"},
      {"limit", "none"},       {"limit", "90%"},           {"limit", "512m,1G"},
      {"limit", "auto,95%"},   {"limit", "none,100%"},     {"limit", "1G,90%"},
      {"limit", "auto,none"},
  };
  for (const auto& [name, value] : good) {
    EXPECT_EQ(tarn_set_option(name, value), 0) << name << "=" << value;
    EXPECT_EQ(value_of(name), std::string(value) + " (program)");
  }
}

TEST(options, bad_values_change_nothing) {
  restore_options restore;
  const std::string long_text(300, 'x');
  const std::pair<const char*, const char*> bad[] = {
      {"decay_ms", ""},
      {"decay_ms", "-"},
      {"decay_ms", "-2"},
      {"decay_ms", "1.5"},
      {"decay_ms", "10s"},
      {"decay_ms", " 1"},
      {"decay_ms", "86400001"},
      {"decay_ms", "99999999999999999999999"},
      {"cache_budget", ""},
      {"cache_budget", "K"},
      {"cache_budget", "-1"},
      {"cache_budget", "1KB"},
      {"cache_budget", "1T"},
      {"cache_budget", "9999999999G"},
      {"cache_budget", "9223372036854775807K"},
      {"cache_budget", "00000000000000000000000000000000001"},
      {"large_cache", "many"},
      {"huge_pages", "on"},
      {"huge_pages", ""},
      {"background", "yes"},
      {"cpu_caches", "yes"},
      {"deep_binding", "keep"},
      {"cpu_caches", ""},
      {"background", "ON"},
      {"stats", ""},
      {"guarded", ""},
      {"guarded", "0"},
      {"guarded", "65536,"},
      {"guarded", ",16"},
      {"guarded", "65536,0"},
      {"guarded", "65536,1001"},
      {"guarded", "65536,16,1"},
      {"guarded", "off,16"},
      {"guarded", "11111111111111111111111111"},
      {"limit", ""},
      {"limit", "0"},
      {"limit", "101%"},
      {"limit", "0%"},
      {"limit", "%"},
      {"limit", "1.5G"},
      {"limit", "2G,1G"},
      {"limit", "95%,90%"},
      {"limit", "1G,auto"},
      {"limit", "1G,"},
      {"limit", ",1G"},
      {"limit", "1G,2G,3G"},
      {"limit", "11111111111111111111111111111111111111"},
      {"stats", long_text.c_str()},
  };
  for (const auto& [name, value] : bad) {
    const std::string before = value_of(name);
    EXPECT_EQ(tarn_set_option(name, value), EINVAL) << name << "=" << value;
    EXPECT_EQ(value_of(name), before) << name << "=" << value;
  }
}

TEST(options, unknown_names_and_null) {
  EXPECT_EQ(tarn_set_option("decay", "1"), ENOENT);
  EXPECT_EQ(tarn_set_option("", "1"), ENOENT);
  EXPECT_EQ(tarn_set_option("TARN_DECAY_MS", "1"), ENOENT);
  EXPECT_EQ(tarn_set_option(nullptr, "1"), EINVAL);
  EXPECT_EQ(tarn_set_option("decay_ms", nullptr), EINVAL);
}

TEST(options, a_value_takes_effect) {
  restore_options restore;
  ASSERT_EQ(tarn_set_option("decay_ms", "123"), 0);
  EXPECT_EQ(options::decay_ms(), 123);
  ASSERT_EQ(tarn_set_option("background", "off"), 0);
  EXPECT_EQ(options::background_choice(), options::background::off);
  ASSERT_EQ(tarn_set_option("cache_budget", "5M"), 0);
  EXPECT_EQ(engine::budget.limit.load(), 5 * mib);
  ASSERT_EQ(tarn_set_option("stats", "/some/where"), 0);
  EXPECT_STREQ(options::statistics_at_exit(), "/some/where");
  ASSERT_EQ(tarn_set_option("stats", "off"), 0);
  EXPECT_EQ(options::statistics_at_exit(), nullptr);
}

// ---- options from the environment: the engine reads it once, so each case runs in a process of its own ----

TEST(options_child, prints_all) {
  if (!testing_support::is_child()) return;
  for (const auto& [name, option] : all_options()) {
    std::cout << name << "=" << value_of(name) << "\n";
  }
}

std::string in_environment(const std::string& environment) {
  const testing_support::outcome result = run_test(environment, "options_child.prints_all");
  EXPECT_EQ(result.status, 0) << result.output;
  return result.output;
}

TEST(options, the_environment_is_read) {
  if (!system_probes::own_program_can_be_executed()) GTEST_SKIP() << system_probes::no_execution;
  const std::string text = in_environment("TARN_DECAY_MS=77 TARN_LARGE_CACHE=1M TARN_HUGE_PAGES=never");
  EXPECT_NE(text.find("decay_ms=77 (environment)"), std::string::npos) << text;
  EXPECT_NE(text.find("large_cache=1M (environment)"), std::string::npos) << text;
  EXPECT_NE(text.find("huge_pages=never (environment)"), std::string::npos) << text;
  EXPECT_NE(text.find("cache_budget=64M (default)"), std::string::npos) << text;
  EXPECT_EQ(text.find("tarn:"), std::string::npos) << "a message about valid values:\n" << text;
}

TEST(options, a_bad_value_in_the_environment_is_reported_and_ignored) {
  if (!system_probes::own_program_can_be_executed()) GTEST_SKIP() << system_probes::no_execution;
  const std::string text = in_environment("TARN_DECAY_MS=soon");
  EXPECT_NE(text.find("tarn: TARN_DECAY_MS=soon is not valid and is ignored; decay_ms takes "
                      "milliseconds; 0: within 20 ms, -1: never, default 1000\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("decay_ms=1000 (default)"), std::string::npos) << text;
}

TEST(options, an_unknown_name_in_the_environment_is_reported_with_those_there_are) {
  if (!system_probes::own_program_can_be_executed()) GTEST_SKIP() << system_probes::no_execution;
  const std::string text = in_environment("TARN_DECAY=5 TARN_A_NAME_LONGER_THAN_ANY_OPTION_COULD_EVER_BE=1");
  EXPECT_NE(
      text.find(
          "tarn: TARN_DECAY is not an option and is ignored; the options are TARN_DECAY_MS, "
          "TARN_CACHE_BUDGET, TARN_LARGE_CACHE, TARN_LIMIT, TARN_HUGE_PAGES, TARN_BACKGROUND, TARN_CPU_CACHES, TARN_DEEP_BINDING, TARN_GUARDED, "
          "TARN_PROFILE, TARN_PROFILE_FILE, TARN_BLACK_BOX, TARN_SCOPES, TARN_SLOW_CALLS, TARN_STATS, TARN_CONTROL\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("tarn: TARN_A_NAME_LONGER_THAN_ANY_OPTION_COULD_EVER_BE is not an option"),
            std::string::npos)
      << text;
}

TEST(options, a_value_too_long_for_any_option_is_reported) {
  if (!system_probes::own_program_can_be_executed()) GTEST_SKIP() << system_probes::no_execution;
  const std::string text = in_environment("TARN_STATS=/" + std::string(400, 'y'));
  EXPECT_NE(text.find("is not valid and is ignored"), std::string::npos) << text;
  EXPECT_NE(text.find("stats=off (default)"), std::string::npos) << text;
}

}  // namespace
}  // namespace tarn
