// SPDX-License-Identifier: MIT
// scope_bin: objects that pass through a thread's bin of a scope, and its invariants.
#include "scope/scope_bin.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "broken_invariant.hpp"
#include "tarn/scope.hpp"

namespace tarn {

class scope_bin_test_access {
 public:
  static std::uint8_t& most(scope_bin& b, unsigned c) { return b.most_[c]; }
};

namespace {

TEST(scope_bin, serves_and_takes_back_without_its_scope) {
  scope s("bin");
  {
    const scope_entry in = s.enter();
    scope_bin& bin = *current_scope_bin;
    std::set<void*> blocks;
    for (int i = 0; i < 500; ++i) EXPECT_TRUE(blocks.insert(tarn_malloc(64)).second);
    bin.validate();
    for (void* const block : blocks) tarn_free(block);
    bin.validate();
    EXPECT_GT(bin.count(), 0U);
    // The last one freed is the next one.
    void* const block = tarn_malloc(64);
    tarn_free(block);
    EXPECT_EQ(tarn_malloc(64), block);
    tarn_free(block);
    // In a scope, 8 bytes take 16.
    void* const least = tarn_malloc(8);
    EXPECT_EQ(tarn_usable_size(least), hardened_build ? 8U : 16U);
    tarn_free(least);
    bin.validate();
  }
  EXPECT_EQ(s.end().blocks, 0U);
}

TEST(scope_bin, finds_a_broken_invariant) {
  scope s("bin");
  const scope_entry in = s.enter();
  tarn_free(tarn_malloc(64));
  scope_bin& bin = *current_scope_bin;
  const unsigned c = class_of_size(64);
  const std::uint8_t most = scope_bin_test_access::most(bin, c);
  scope_bin_test_access::most(bin, c) = 0;
  EXPECT_BROKEN(bin.validate(), "scope_bin", "(most_[c] != 0) == (loaded_[c] != no_magazine())", &bin);
  scope_bin_test_access::most(bin, c) = most;
}

}  // namespace
}  // namespace tarn
