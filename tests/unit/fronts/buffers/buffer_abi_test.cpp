// SPDX-License-Identifier: MIT
// tarn_buffer_pool_of: a live buffer's pool and length by its address; nothing for all other addresses.
#include <gtest/gtest.h>

#include <cstdint>

#include "base/units.hpp"
#include "tarn/malloc.h"
#include "tarn/pool.h"

namespace {

using tarn::mib;

tarn_buffer_pool* make_pool(bool checked) {
  tarn_buffer_options request = TARN_BUFFER_OPTIONS;
  request.name = "of";
  request.name_length = 2;
  request.alignment = 1;
  request.checked = checked;
  return tarn_buffer_pool_create(&request);
}

TEST(buffer_abi, the_pool_and_length_of_a_live_buffer_are_found) {
  for (const bool checked : {false, true}) {
    tarn_buffer_pool* const pool = make_pool(checked);
    tarn_buffer_pool* const other = make_pool(checked);
    std::size_t length = 0;
    void* const buffer = tarn_buffer_get(pool, 3 * mib + 1, &length);
    ASSERT_NE(buffer, nullptr);
    std::size_t found = 0;
    EXPECT_EQ(tarn_buffer_pool_of(buffer, &found), pool);
    EXPECT_EQ(found, length);
    tarn_buffer_pool_destroy(pool);
    EXPECT_EQ(tarn_buffer_pool_of(buffer, &found), pool) << "live buffers outlive their pool";
    tarn_buffer_give_back(nullptr, buffer);
    EXPECT_EQ(tarn_buffer_pool_of(buffer, &found), nullptr);
    tarn_buffer_pool_destroy(other);
  }
}

TEST(buffer_abi, an_address_that_begins_no_live_buffer_has_no_pool) {
  tarn_buffer_pool* const pool = make_pool(false);
  std::size_t length = 0;
  auto* const buffer = static_cast<char*>(tarn_buffer_get(pool, mib, &length));
  ASSERT_NE(buffer, nullptr);
  void* const block = tarn_malloc(mib);
  int local = 0;
  void* const addresses[] = {nullptr,
                             &local,
                             block,
                             buffer + 1,
                             buffer + 8192,
                             buffer + length,
                             reinterpret_cast<void*>(~std::uintptr_t{0})};
  for (void* const address : addresses) {
    std::size_t found = 1;
    EXPECT_EQ(tarn_buffer_pool_of(address, &found), nullptr) << address;
    EXPECT_EQ(found, 1U);
  }
  tarn_free(block);
  tarn_buffer_give_back(pool, buffer);
  std::size_t found = 1;
  EXPECT_EQ(tarn_buffer_pool_of(buffer, &found), nullptr) << "it is kept, and not live";
  tarn_buffer_pool_destroy(pool);
}

}  // namespace
