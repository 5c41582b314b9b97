// SPDX-License-Identifier: MIT
// process_random and the keyed hash behind it: SipHash's test vector, and numbers that differ and stay the same.
#include "os/process_random.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace tarn::os {
namespace {

// SipHash's test vector for a message of eight bytes: key 00 … 0f, message 00 … 07.
TEST(process_random, is_siphash) {
  unsigned char key[16];
  std::iota(key, key + 16, static_cast<unsigned char>(0));
  EXPECT_EQ(keyed_hash(key, 0x0706050403020100U), 0x93f5f5799a932462U);
}

TEST(process_random, numbers_differ_and_stay) {
  std::set<std::uint64_t> numbers;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    for (const random_purpose purpose : {random_purpose::free_mark, random_purpose::address}) {
      const std::uint64_t number = process_random(purpose, i);
      EXPECT_EQ(number, process_random(purpose, i));
      EXPECT_TRUE(numbers.insert(number).second);
    }
  }
}

}  // namespace
}  // namespace tarn::os
