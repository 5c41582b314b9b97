// SPDX-License-Identifier: MIT
// If a request finds no address space, the page heap unmaps free parts of its reservations, next to spans in use.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "../../system_probes.hpp"
#include "../bytes.hpp"
#include "base/compiler.hpp"
#include "os/guarded_memory.hpp"
#include "os/memory.hpp"
#include "own_engine.hpp"
#include "pages/page_heap.hpp"

namespace tarn {
namespace {

using source = page_heap::source;
using use = page_heap::use;

constexpr std::size_t piece_pages = 2 * mib >> page_shift;
constexpr std::size_t piece_count = 48;
constexpr std::size_t longer_than_a_piece = 64 * mib >> page_shift;

std::size_t mapped_bytes() {
  unsigned long pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
  std::fclose(file);
  return pages * os::system_page_size();
}

bool is_mapped(std::uintptr_t at) {
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(at), os::system_page_size(), &resident) == 0;
}

class page_heap_unmapping_test : public testing::Test {
 protected:
  void SetUp() override {
    getrlimit(RLIMIT_AS, &before_);
    if (TARN_ASAN || TARN_TSAN) GTEST_SKIP() << "a sanitizer needs more address space than can be limited";
    if (!system_probes::address_space_is_limited()) GTEST_SKIP() << system_probes::no_limit;
    for (span*& s : pieces_) {
      s = heap_.allocate(piece_pages, 1, span_state::large, source::any, use::dense);
      ASSERT_NE(s, nullptr);
      std::memset(reinterpret_cast<void*>(s->start), 7, s->bytes());
    }
    std::sort(pieces_.begin(), pieces_.end(),
              [](const span* a, const span* b) { return a->start < b->start; });
    if (pieces_.back()->end() - pieces_.front()->start != piece_count * 2 * mib) {
      GTEST_SKIP() << "the address space after the first reservation is taken";
    }
  }
  void TearDown() override { setrlimit(RLIMIT_AS, &before_); }

  // Limits the process's address space to `more` bytes above the present use. Nothing is left that metadata could give back.
  void limit(std::size_t more) {
    engine_->metadata.give_back_unopened();
    limit_as_is(more);
  }
  void limit_as_is(std::size_t more) {
    const std::size_t used = mapped_bytes();
    const rlimit limited{used + more, before_.rlim_max};
    if (used == 0 || setrlimit(RLIMIT_AS, &limited) != 0) GTEST_SKIP() << "no limit of address space";
    if (void* const room = os::reserve(more + mib, os::system_page_size())) {
      os::release(room, more + mib);
      GTEST_SKIP() << "this system does not limit address space";
    }
  }
  // Frees all pieces except those with these numbers.
  void free_all_but(std::initializer_list<std::size_t> kept) {
    for (std::size_t i = 0; i < piece_count; ++i) {
      if (std::find(kept.begin(), kept.end(), i) == kept.end())
        heap_.deallocate(std::exchange(pieces_[i], nullptr));
    }
  }
  void expect_content() {
    for (const span* const s : pieces_) {
      if (s == nullptr) continue;
      const auto* const bytes = reinterpret_cast<const unsigned char*>(s->start);
      EXPECT_TRUE(std::all_of(bytes, bytes + s->bytes(), [](unsigned char byte) { return byte == 7; }));
    }
  }
  span* take_long(std::size_t alignment = 1) {
    return heap_.allocate(longer_than_a_piece, alignment, span_state::large, source::any, use::sparse);
  }
  void check() {
    heap_.validate();
    const page_heap_stats s = heap_.stats();
    ASSERT_EQ(s.reserved, s.in_use + s.free_dirty + s.free_clean);
    expect_content();
  }

  std::unique_ptr<testing_support::own_engine> engine_ = testing_support::make_engine();
  page_heap& heap_ = engine_->heap;
  page_map& map_ = engine_->map;
  std::vector<span*> pieces_ = std::vector<span*>(piece_count);
  rlimit before_{};
};

TEST_F(page_heap_unmapping_test, a_block_longer_than_each_free_piece_is_found) {
  const std::size_t reserved = heap_.stats().reserved;
  free_all_but({16, 33});
  limit(8 * mib);
  span* const s = take_long();
  ASSERT_NE(s, nullptr);
  check();
  EXPECT_LT(heap_.stats().reserved, reserved + 8 * mib);
  std::memset(reinterpret_cast<void*>(s->start), 1, s->bytes());
  check();
  heap_.deallocate(s);
  heap_.age();
  heap_.age();
  check();
}

TEST_F(page_heap_unmapping_test, what_metadata_does_not_use_goes_first) {
  const std::size_t reserved = heap_.stats().reserved;
  free_all_but({16, 33});
  limit_as_is(8 * mib);
  constexpr std::size_t bytes = 40 * mib;  // more than a piece, and less than metadata has reserved
  ASSERT_NE(heap_.allocate(bytes >> page_shift, 1, span_state::large, source::any, use::sparse), nullptr);
  EXPECT_GE(heap_.stats().reserved, reserved + bytes);
  check();
}

TEST_F(page_heap_unmapping_test, an_aligned_one_is_found) {
  free_all_but({16, 33});
  limit(8 * mib);
  span* const s = take_long(16 * mib >> page_shift);
  ASSERT_NE(s, nullptr);
  EXPECT_EQ(s->start % (16 * mib), 0U);
  check();
}

TEST_F(page_heap_unmapping_test, what_was_unmapped_belongs_to_nobody) {
  const std::uintptr_t free = pieces_[17]->start;
  const std::uintptr_t end = pieces_[32]->end();
  free_all_but({16, 33});
  limit(8 * mib);
  ASSERT_NE(take_long(), nullptr);
  // Of the three free ranges this one is the longest or the second longest, so it was unmapped.
  const std::uintptr_t first = align_up(free, huge_page_size);
  const std::uintptr_t last = align_down(end, huge_page_size);
  ASSERT_TRUE(is_mapped(first)) << "there is no guard";
  ASSERT_FALSE(is_mapped(first + os::guard_bytes));
  EXPECT_FALSE(is_mapped(last - os::guard_bytes - os::system_page_size()));
  EXPECT_TRUE(is_mapped(last - os::guard_bytes));
  EXPECT_EQ(map_.span_of(first), nullptr);
  EXPECT_EQ(map_.span_of(last - 1), nullptr);
  EXPECT_EXIT(*reinterpret_cast<volatile char*>(first) = 1, testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(*reinterpret_cast<volatile char*>(last - 1) = 1, testing::KilledBySignal(SIGSEGV), "");

  // Another part of the program maps memory there. The heap must not touch it.
  void* const place = reinterpret_cast<void*>(first + os::guard_bytes);
  auto* const foreign = static_cast<unsigned char*>(
      mmap(place, mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
  ASSERT_EQ(foreign, place);
  std::memset(foreign, 3, mib);
  for (int i = 0; i < 2; ++i) heap_.age();
  heap_.trim(0);
  while (heap_.allocate(piece_pages, 1, span_state::large, source::any, use::dense) != nullptr) {
  }
  check();
  EXPECT_TRUE(std::all_of(foreign, foreign + mib, [](unsigned char byte) { return byte == 3; }));
  munmap(foreign, mib);
}

TEST_F(page_heap_unmapping_test, all_of_a_reservation_goes_with_its_guards) {
  const std::uintptr_t start = pieces_[0]->start;
  const std::size_t reserved = heap_.stats().reserved;
  free_all_but({});
  limit(8 * mib);
  span* const s = heap_.allocate(reserved >> page_shift, 2, span_state::large, source::any, use::sparse);
  ASSERT_NE(s, nullptr);
  EXPECT_EQ(heap_.stats().reserved, reserved);
  EXPECT_FALSE(is_mapped(start - os::guard_bytes));
  EXPECT_FALSE(is_mapped(start));
  EXPECT_FALSE(is_mapped(start + reserved + os::guard_bytes - os::system_page_size()));
  check();
}

TEST_F(page_heap_unmapping_test, the_reservation_becomes_longer_again_and_reads_as_zero) {
  const std::uintptr_t start = pieces_[0]->start;
  free_all_but({2});
  limit(8 * mib);
  for (int round = 0; round < 10; ++round) {
    span* const s = take_long();
    ASSERT_NE(s, nullptr);
    heap_.release_to_system(s);
    std::vector<span*> again;
    while (span* const one = heap_.allocate(piece_pages, 1, span_state::large, source::any, use::dense)) {
      if (one->dirty_pages == 0) {
        ASSERT_TRUE(testing_support::all_bytes_are(reinterpret_cast<void*>(one->start), one->bytes(), 0));
      }
      EXPECT_LT(one->start - start, page_map::leaf_bytes) << "needs another leaf of the page map";
      std::memset(reinterpret_cast<void*>(one->start), 5, one->bytes());
      again.push_back(one);
    }
    EXPECT_GE(again.size(), piece_count - 3) << round;
    check();
    for (span* const one : again) heap_.deallocate(one);
    check();
  }
}

// The guard at the end of the cut reservation was memory with content before; it must read as zero when the reservation
// grows again.
TEST_F(page_heap_unmapping_test, what_was_a_guard_reads_as_zero) {
  const std::uintptr_t free = align_up(pieces_[3]->start, huge_page_size);
  free_all_but({2});
  ASSERT_EQ(*reinterpret_cast<unsigned char*>(free), 7);
  ASSERT_NE(heap_.unmap_free(mib), 0U);
  ASSERT_FALSE(is_mapped(free + os::guard_bytes));
  EXPECT_EXIT(*reinterpret_cast<volatile char*>(free) = 1, testing::KilledBySignal(SIGSEGV), "");
  span* s = nullptr;
  do {
    s = heap_.allocate(piece_pages, 1, span_state::large, source::any, use::dense);
    ASSERT_NE(s, nullptr);
  } while (s->start < free);
  EXPECT_EQ(s->start, free) << "the reservation has not grown at the place where it was cut";
  EXPECT_EQ(s->dirty_pages, 0U);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(s->start);
  EXPECT_TRUE(std::all_of(bytes, bytes + s->bytes(), [](unsigned char byte) { return byte == 0; }));
  check();
}

TEST_F(page_heap_unmapping_test, nothing_goes_for_a_request_that_stays_hopeless) {
  free_all_but({16, 33});
  limit(8 * mib);
  EXPECT_EQ(heap_.allocate(gib >> page_shift, 1, span_state::large, source::any, use::dense), nullptr);
  EXPECT_GE(heap_.stats().reserved, piece_count * 2 * mib);
  check();
}

// The program has lowered the limit below what it has mapped, so only memory that is free already can serve requests.
TEST_F(page_heap_unmapping_test, little_goes_where_nothing_can_be_mapped_for_it) {
  free_all_but({8, 16, 24, 32, 40});
  const rlimit limited{mapped_bytes() - 80 * mib, before_.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limited), 0);
  EXPECT_EQ(take_long(), nullptr);
  EXPECT_EQ(take_long(), nullptr);
  EXPECT_GE(heap_.stats().reserved, (piece_count - 8) * 2 * mib);
  std::size_t found = 0;
  while (heap_.allocate(piece_pages, 1, span_state::large, source::any, use::dense) != nullptr) ++found;
  EXPECT_GE(found, piece_count - 5 - 8);
  check();
}

}  // namespace
}  // namespace tarn
