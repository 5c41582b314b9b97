// SPDX-License-Identifier: MIT
// conf: the table of options. What is made of MALLOC_CONF is tested in programs of their own (tests/jemalloc/conf_test.py).
#include "malloc/jemalloc/conf.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tarn::jemalloc {
namespace {

TEST(conf, each_option_is_listed_once_and_has_a_value) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < conf_options.count; ++i) {
    const conf_option& option = conf_options.options[i];
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_NE(option.value, nullptr);
    ASSERT_NE(option.text, nullptr);
    EXPECT_NE(option.text(), nullptr);
    EXPECT_TRUE(is_jemalloc_option(option.name)) << option.name;
    if (option.type == conf_type::flag) {
      EXPECT_TRUE(option.value() == 0 || option.value() == 1) << option.name;
    }
  }
}

TEST(conf, knows_the_options_without_effect) {
  for (const char* name : {"prof", "retain", "hpa", "abort_conf", "zero_realloc", "xmalloc"})
    EXPECT_TRUE(is_jemalloc_option(name)) << name;
  for (const char* name : {"", "nonsense", "retain hpa", "zero_reallo", " "})
    EXPECT_FALSE(is_jemalloc_option(name)) << name;
  EXPECT_NE(advice_for("prof"), nullptr);
  EXPECT_EQ(advice_for("retain"), nullptr);
}

}  // namespace
}  // namespace tarn::jemalloc
