// SPDX-License-Identifier: MIT
// Call paths of several profiles are equal where the names of their functions are.
#include "profiler/export/path_identity.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tarn::profiler {
namespace {

// A path through functions at addresses from `base` on, outermost first.
profile path_of(std::uint64_t base, const std::vector<std::string>& functions) {
  profile p;
  p.stacks.emplace_back();
  for (const std::string& each : functions) {
    const std::uint64_t address = base + p.stacks.size();
    p.symbols[address] = {{each, "a.cpp", static_cast<std::uint32_t>(base), false}};
    p.stacks.push_back({static_cast<std::uint32_t>(p.stacks.size() - 1), address});
  }
  return p;
}

TEST(path_identity, lines_and_addresses_do_not_count) {
  name_numbers names;
  EXPECT_EQ(identities_of(path_of(100, {"main", "f"}), names),
            identities_of(path_of(200, {"main", "f"}), names));
}

TEST(path_identity, names_and_their_order_count) {
  name_numbers names;
  std::set<path_identity> different;
  for (const profile& p : {path_of(1, {"f", "g"}), path_of(1, {"g", "f"}), path_of(1, {"f", "f"}),
                           path_of(1, {"f"}), path_of(1, {"g"}), path_of(1, {"f", "g", "f"})})
    EXPECT_TRUE(different.insert(identities_of(p, names).back()).second);
  EXPECT_EQ(identities_of(path_of(1, {}), names), std::vector<path_identity>{{}});
  EXPECT_FALSE(different.contains(path_identity()));
}

TEST(path_identity, an_inlined_function_is_a_function) {
  profile inlined = path_of(1, {"main", ""});
  inlined.symbols[3] = {{"g", "", 0, true}, {"f", "", 0, false}};
  name_numbers names;
  EXPECT_EQ(identities_of(inlined, names).back(),
            identities_of(path_of(1, {"main", "f", "g"}), names).back());
}

TEST(path_identity, a_name_has_one_number) {
  name_numbers names;
  EXPECT_EQ(names.of("a"), 0U);
  EXPECT_EQ(names.of("b"), 1U);
  EXPECT_EQ(names.of("a"), 0U);
  EXPECT_EQ(extend({}, 0), extend({}, 0));
  EXPECT_NE(extend({}, 0), extend({}, 1));
}

}  // namespace
}  // namespace tarn::profiler
