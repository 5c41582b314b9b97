// SPDX-License-Identifier: MIT
// Variables for a program, and which paths LD_PRELOAD can hold.
#include "cli/launch/environment.hpp"

#include <gtest/gtest.h>

namespace tarn::cli {
namespace {

TEST(environment, set_get_unset) {
  environment variables;
  variables.set("A", "1");
  variables.set("AB", "2");
  variables.set("A", "3");
  EXPECT_EQ(variables.get("A"), "3");
  EXPECT_EQ(variables.get("AB"), "2");
  EXPECT_EQ(variables.pointers().size(), 3U);
  variables.unset("A");
  EXPECT_FALSE(variables.get("A").has_value());
  EXPECT_EQ(variables.get("AB"), "2");
  EXPECT_EQ(variables.pointers().back(), nullptr);
}

TEST(environment, the_library_goes_before_other_preloads) {
  environment variables;
  variables.prepend_preload("/t.so");
  EXPECT_EQ(variables.get("LD_PRELOAD"), "/t.so");
  variables.set("LD_PRELOAD", "/a.so  /b.so:/t.so");
  variables.prepend_preload("/t.so");
  EXPECT_EQ(variables.get("LD_PRELOAD"), "/t.so:/a.so:/b.so");
  variables.set_preloads({});
  EXPECT_FALSE(variables.get("LD_PRELOAD").has_value());
}

TEST(environment, paths_that_the_loader_would_split) {
  EXPECT_TRUE(is_preloadable_path("/opt/tarn-1.0/lib/libtarn.so.1"));
  EXPECT_FALSE(is_preloadable_path("/my files/libtarn.so.1"));
  EXPECT_FALSE(is_preloadable_path("/a:b/libtarn.so.1"));
  EXPECT_FALSE(is_preloadable_path("/$ORIGIN/libtarn.so.1"));
}

}  // namespace
}  // namespace tarn::cli
