// SPDX-License-Identifier: MIT
// Misuse of buffer pools: each kind ends the process with a line that names the error, the pool and the address.
// Compiled a second time with checked pools, which detect more.
#include <cstdlib>
#include <optional>
#include <thread>

#include "expect_abort.hpp"
#include "tarn/buffer_pool.hpp"
#include "tarn/malloc.h"

namespace tarn {
namespace {

class buffers_death : public testing::Test {
 protected:
  buffer_pool frames_{{.name = "frames"}};
  buffer_pool others_{{.name = "others"}};
};

TEST_F(buffers_death, given_back_twice) {
  std::byte* const data = frames_.get(100000).release();
  frames_.give_back(data);
  EXPECT_TARN_ABORT(frames_.give_back(data), "double give-back of a buffer of the pool frames", data);
  EXPECT_TARN_ABORT(others_.give_back(data), "double give-back of a buffer of the pool frames", data);
  EXPECT_TARN_ABORT(std::thread([&] { frames_.give_back(data); }).join(),
                    "double give-back of a buffer of the pool frames", data);
  frames_.trim();
  EXPECT_TARN_ABORT(frames_.give_back(data), "give-back of a pointer that is not a buffer, or not any more",
                    data);
}

TEST_F(buffers_death, given_back_twice_by_its_owner_and_by_hand) {
  buffer b = frames_.get(100000);
  std::byte* const data = b.data();
  EXPECT_TARN_ABORT(
      {
        frames_.give_back(data);
        b.reset();
      },
      "double give-back of a buffer of the pool frames", data);
}

TEST_F(buffers_death, pointers_of_no_buffer) {
  const char* const text = "give-back of a pointer that is not a buffer, or not any more";
  std::byte on_the_stack{};
  EXPECT_TARN_ABORT(frames_.give_back(&on_the_stack), text, &on_the_stack);
  void* const of_libc = std::malloc(1 << 20);
  EXPECT_TARN_ABORT(frames_.give_back(static_cast<std::byte*>(of_libc)), text, of_libc);
  std::free(of_libc);
  for (const std::size_t size : {std::size_t{100}, std::size_t{1} << 20}) {
    void* const of_tarn = tarn_malloc(size);
    EXPECT_TARN_ABORT(frames_.give_back(static_cast<std::byte*>(of_tarn)), text, of_tarn);
    tarn_free(of_tarn);
  }
  void* const nowhere = reinterpret_cast<void*>(~std::uintptr_t{63});
  EXPECT_TARN_ABORT(frames_.give_back(static_cast<std::byte*>(nowhere)), text, nowhere);
}

TEST_F(buffers_death, pointers_into_a_buffer) {
  const buffer b = frames_.get(100000);
  // The page map has entries for the first and the last page of a span only.
  for (const std::size_t offset : {std::size_t{1}, std::size_t{4096}}) {
    EXPECT_TARN_ABORT(frames_.give_back(b.data() + offset),
                      "give-back of a pointer into a buffer of the pool frames, not to its start",
                      b.data() + offset);
  }
  EXPECT_TARN_ABORT(frames_.give_back(b.data() + 50000),
                    "give-back of a pointer that is not a buffer, or not any more", b.data() + 50000);
}

TEST_F(buffers_death, after_the_pool_has_ended) {
  std::optional<buffer_pool> pool(std::in_place, buffer_pool_options{.name = "short"});
  std::byte* const data = pool->get(100000).release();
  pool.reset();
  EXPECT_TARN_ABORT(
      {
        tarn_buffer_give_back(nullptr, data);
        tarn_buffer_give_back(nullptr, data);
      },
      "give-back of a pointer that is not a buffer, or not any more", data);
  tarn_buffer_give_back(nullptr, data);
}

TEST_F(buffers_death, malloc_and_pools_do_not_mix) {
  const buffer b = frames_.get(100000);
  EXPECT_TARN_ABORT(tarn_free(b.data()), "invalid free of a buffer of a buffer pool", b.data());
}

#if TARN_CHECKED_POOLS

TEST_F(buffers_death, to_another_pool) {
  buffer b = frames_.get(100000);
  EXPECT_TARN_ABORT(others_.give_back(b.data()),
                    "give-back to the pool others, of a buffer of the pool frames", b.data());
}

TEST_F(buffers_death, written_past_the_end) {
  buffer b = frames_.get(100000);
  for (const std::size_t beyond : {0, 1, 4095}) {
    std::byte* volatile const place = b.data() + b.capacity() + beyond;
    EXPECT_TARN_ABORT(
        {
          *place = std::byte{1};
          b.reset();
        },
        "write past the end of a buffer of the pool frames", place);
  }
}

#else

// Without checks the buffer goes to the pool that it came from, whichever pool it is given to.
TEST_F(buffers_death, to_another_pool) {
  std::byte* const data = frames_.get(100000).release();
  others_.give_back(data);
  EXPECT_EQ(frames_.stats().kept, 1U);
  EXPECT_EQ(others_.stats().kept, 0U);
}

#endif

}  // namespace
}  // namespace tarn
