// SPDX-License-Identifier: MIT
// scope_names: one row per name, cut names, more names than rows, and the invariants.
#include "fronts/scopes/scope_names.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "broken_invariant.hpp"

namespace tarn {

class scope_names_test_access {
 public:
  static scope_name* rows(scope_names& n) { return n.rows_; }
};

namespace {

TEST(scope_names, one_row_for_each_name) {
  const auto names = std::make_unique<scope_names>();
  scope_name& query = names->row("query");
  EXPECT_STREQ(query.text, "query");
  EXPECT_NE(&names->row("tenant"), &query);
  EXPECT_EQ(&names->row("query"), &query);
  const std::string longest(100, 'x');
  EXPECT_EQ(std::string(names->row(longest).text), longest.substr(0, scope_name::longest - 1));
}

TEST(scope_names, more_names_than_rows_share_the_last_one) {
  const auto names = std::make_unique<scope_names>();
  for (std::size_t i = 0; i < scope_names::most + 10; ++i) names->row("n" + std::to_string(i));
  EXPECT_STREQ(names->row("one more").text, "(other names)");
  EXPECT_EQ(&names->row("one more"), &names->row("another"));
  EXPECT_STREQ(names->row("n3").text, "n3");
  std::size_t count = 0;
  names->for_each([&count](const scope_name&) { ++count; });
  EXPECT_EQ(count, scope_names::most);
}

TEST(scope_names, finds_a_broken_invariant) {
  const auto names = std::make_unique<scope_names>();
  names->row("a");
  names->row("b");
  scope_names_test_access::rows(*names)[1].text[0] = 'a';
  // Without the lock: fork, which the child of a death test is made by, does not know this table.
  const auto validate = [&]() TARN_NOT_ANALYZED { names->validate_locked(); };
  EXPECT_BROKEN(validate(), "scope_names", "std::strcmp(rows_[i].text, rows_[k].text) != 0", names.get());
}

}  // namespace
}  // namespace tarn
