// SPDX-License-Identifier: MIT
// symbol: exported functions of libc, and addresses in no exported function.
#include "samples/guarded/symbol.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace tarn {
namespace {

// An address in a function that this program does not export.
void hidden_function() {}

class symbol_test : public testing::Test {
 protected:
  void SetUp() override {
    exported_ = reinterpret_cast<std::uintptr_t>(dlsym(RTLD_DEFAULT, "lfind"));
    if (!unwind::find_module(exported_, libc_) || libc_.map == nullptr)
      GTEST_SKIP() << "this glibc does not tell the module of an address";
  }
  std::uintptr_t exported_ = 0;
  unwind::loaded_module libc_;
};

TEST_F(symbol_test, from_the_first_byte_of_a_function_to_its_last) {
  symbol found;
  for (const std::uintptr_t distance : {0U, 1U}) {
    found = {};
    ASSERT_TRUE(find_symbol(libc_, exported_ + distance, found));
    EXPECT_STREQ(found.name, "lfind");
    EXPECT_EQ(found.start, exported_);
  }
  EXPECT_TRUE(!find_symbol(libc_, exported_ - 1, found) || found.start != exported_);
}

TEST_F(symbol_test, what_is_in_no_exported_function) {
  symbol found{"before", 1};
  EXPECT_FALSE(find_symbol(libc_, libc_.start, found)) << "the file's header";
  EXPECT_FALSE(find_symbol(libc_, reinterpret_cast<std::uintptr_t>(&hidden_function), found))
      << "another module";
  unwind::loaded_module own;
  ASSERT_TRUE(unwind::find_module(reinterpret_cast<std::uintptr_t>(&hidden_function), own));
  EXPECT_FALSE(find_symbol(own, reinterpret_cast<std::uintptr_t>(&hidden_function), found)) << "not exported";
  EXPECT_FALSE(find_symbol({}, exported_, found)) << "no module";
  EXPECT_STREQ(found.name, "before");
}

}  // namespace
}  // namespace tarn
