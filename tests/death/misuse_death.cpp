// SPDX-License-Identifier: MIT
// free, realloc and usable_size of a wrong pointer end the process at once with a line that names the pointer.
//
// Each statement runs in a forked child with a copy of the parent's heap, so the parent knows the pointer to expect.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "base/units.hpp"
#include "engine/engine.hpp"
#include "expect_abort.hpp"
#include "slots/size_class.hpp"
#include "tarn/malloc.h"

namespace tarn {
namespace {

using testing_support::hidden;

const char* const double_free = "double free";
const char* const late_double_free = "double free, detected when the block returned to its span";
const char* const interior = "invalid free of a pointer into a block";
const char* const no_block = "invalid free of a pointer that is not a block";
const char* const foreign = "invalid free of a pointer that tarn did not allocate";
const char* const freed_memory = "double free, or a pointer into memory that is free";
const char* const size_of_none = "size asked of a pointer that is not a block";
const char* const realloc_of_none = "realloc of a pointer that is not a block";

void release(void* p) { tarn_free(hidden(p)); }

class misuse_death : public testing::Test {
 protected:
  static char* block_of(std::size_t size) { return static_cast<char*>(tarn_malloc(size)); }
};

TEST_F(misuse_death, freed_twice_in_a_row) {
  for (const std::size_t size : {0U, 8U, 64U, 1000U, 20000U, 262144U}) {
    char* const block = block_of(size);
    release(block);
    EXPECT_TARN_ABORT(release(block), double_free, block) << size;
  }
}

// An aarch64 processor ignores the top byte of an address, so a tagged pointer works for loads and stores; but tarn
// never returned it.
TEST_F(misuse_death, a_tag_in_the_top_byte) {
#if defined(__aarch64__)
  for (const std::size_t size : {0U, 8U, 64U, 1000U, 20000U, 262144U, 8U << 20}) {
    char* const block = block_of(size);
    block[0] = 1;
    for (const std::uintptr_t tag : {std::uintptr_t{1}, std::uintptr_t{0x80}, std::uintptr_t{0xff}}) {
      char* const tagged = hidden(reinterpret_cast<char*>(address_of(block) | tag << 56));
      EXPECT_EQ(*tagged, 1) << "the processor does not ignore the tag";
      EXPECT_TARN_ABORT(tarn_free(tagged), "invalid free of a pointer with a tag in its top byte", tagged)
          << size;
      EXPECT_TARN_ABORT(tarn_usable_size(tagged), size_of_none, tagged) << size;
      EXPECT_TARN_ABORT(tarn_realloc(tagged, 100), realloc_of_none, tagged) << size;
    }
    tarn_free(block);
  }
#else
  GTEST_SKIP() << "only aarch64 ignores the top byte of an address";
#endif
}

TEST_F(misuse_death, freed_twice_with_others_between) {
  char* const block = block_of(64);
  char* const others[4] = {block_of(64), block_of(64), block_of(64), block_of(64)};
  release(block);
  for (char* other : others) release(other);
  EXPECT_TARN_ABORT(release(block), double_free, block);
}

TEST_F(misuse_death, freed_again_after_it_went_back_to_its_span) {
  char* const keep = block_of(48);  // keeps the span in use
  char* const block = block_of(48);
  release(block);
  tarn_trim(0);
  EXPECT_TARN_ABORT(release(block), double_free, block);
  release(keep);
}

TEST_F(misuse_death, freed_again_after_its_span_was_given_back) {
  std::vector<char*> blocks(4000);
  for (char*& block : blocks) block = block_of(64);
  for (char* block : blocks) release(block);
  tarn_trim(0);
  // The line depends on what the pages are used for now.
  EXPECT_EXIT(release(blocks[2000]), testing::KilledBySignal(SIGABRT),
              "^tarn: .*free.*: 0x[0-9a-f]+\n" TARN_END_OF_OUTPUT);
}

TEST_F(misuse_death, freed_by_two_threads) {
  char* const keep = block_of(48);
  char* const block = block_of(48);
  // The block may get into the magazines of both threads; then the span detects the second return.
  EXPECT_EXIT(
      {
        release(block);
        std::thread([block] { release(block); }).join();
        tarn_trim(0);
      },
      testing::KilledBySignal(SIGABRT),
      "^tarn: double free(, detected when the block returned to its span)?: 0x[0-9a-f]+\n" TARN_END_OF_OUTPUT);
  release(block);
  release(keep);
}

TEST_F(misuse_death, put_into_its_span_twice) {
  void* const block = block_of(48);
  const unsigned c = class_of_size(48);
  void* twice[2] = {block, block};
  EXPECT_TARN_ABORT(engine::central_tier.flush(c, twice, 2), late_double_free, block);
}

TEST_F(misuse_death, pointers_into_a_block) {
  for (const std::size_t size : {16U, 64U, 96U, 1000U, 5000U, 100000U}) {
    char* const block = block_of(size);
    for (const std::size_t offset : {std::size_t{1}, std::size_t{8}, size / 2, size - 1}) {
      EXPECT_TARN_ABORT(release(block + offset), interior, block + offset) << size << " + " << offset;
    }
    release(block);
  }
}

// A span whose length is no multiple of the object size has unused bytes before its first object.
TEST_F(misuse_death, what_is_left_over_of_a_span) {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    const auto& info = class_info(c);
    if (std::size_t{info.objects} * info.size == std::size_t{info.span_pages} << page_shift) continue;
    char* const block = block_of(info.size);
    char* const start = reinterpret_cast<char*>(engine::map.span_of(address_of(block))->start);
    EXPECT_TARN_ABORT(release(start), no_block, start) << info.size;
    release(block);
    return;
  }
  FAIL() << "every class fills its spans";
}

TEST_F(misuse_death, pointers_that_tarn_never_gave_out) {
  int local = 0;
  static int global = 0;
  tarn_free(tarn_malloc(1));
  EXPECT_TARN_ABORT(release(&local), foreign, &local);
  EXPECT_TARN_ABORT(release(&global), foreign, &global);
  for (const std::uintptr_t address : {std::uintptr_t{1}, std::uintptr_t{0x123456789}, ~std::uintptr_t{0},
                                       std::uintptr_t{1} << 47, std::uintptr_t{1} << 63}) {
    void* const pointer = reinterpret_cast<void*>(address);
    EXPECT_TARN_ABORT(release(pointer), foreign, pointer);
  }
}

TEST_F(misuse_death, pointers_into_a_large_block) {
  char* const block = block_of(mib);
  for (const std::size_t offset : {1U, 16U, 4096U, 1048575U}) {
    EXPECT_TARN_ABORT(release(block + offset), interior, block + offset) << offset;
  }
  release(block);
}

TEST_F(misuse_death, a_large_block_freed_twice) {
  char* const block = block_of(mib);
  release(block);
  EXPECT_TARN_ABORT(release(block), freed_memory, block);
}

TEST_F(misuse_death, a_large_block_freed_twice_that_waits_for_the_next_request) {
  char* block = nullptr;
  for (int i = 0; i < 4; ++i) release(block = block_of(mib));
  EXPECT_TARN_ABORT(release(block), freed_memory, block);
  EXPECT_TARN_ABORT(release(block + 16), freed_memory, block + 16);
}

TEST_F(misuse_death, realloc_of_a_freed_block) {
  char* const block = block_of(100);
  release(block);
  EXPECT_TARN_ABORT(tarn_realloc(hidden(block), 50000), double_free, block);
  char* const large = block_of(mib);
  release(large);
  EXPECT_TARN_ABORT(tarn_realloc(hidden(large), 2 * mib), realloc_of_none, large);
}

TEST_F(misuse_death, realloc_of_no_block) {
  int local = 0;
  EXPECT_TARN_ABORT(tarn_realloc(hidden(&local), 100), realloc_of_none, &local);
  char* const block = block_of(100);
  EXPECT_TARN_ABORT(tarn_realloc(hidden(block + 1), 50000), interior, block + 1);
  release(block);
}

TEST_F(misuse_death, size_of_no_block) {
  int local = 0;
  EXPECT_TARN_ABORT(tarn_usable_size(hidden(&local)), size_of_none, &local);
  char* const large = block_of(mib);
  EXPECT_TARN_ABORT(tarn_usable_size(hidden(large + 16)), size_of_none, large + 16);
  release(large);
  EXPECT_TARN_ABORT(tarn_usable_size(hidden(large)), size_of_none, large);
}

TEST_F(misuse_death, sized_frees_check_too) {
  char* const block = block_of(64);
  release(block);
  EXPECT_TARN_ABORT(tarn_free_sized(hidden(block), 64), double_free, block);
  EXPECT_TARN_ABORT(tarn_free_aligned_sized(hidden(block), 16, 64), double_free, block);
}

}  // namespace
}  // namespace tarn
