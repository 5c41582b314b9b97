// SPDX-License-Identifier: MIT
// tarn::arena: memory, objects, destructors, failure.
#include "tarn/arena.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "fronts/pools/arena_support.hpp"

namespace tarn {
namespace {

using namespace testing_support;

TEST(arena_test, a_new_one_has_no_memory) {
  const std::size_t before = pages_in_use();
  const arena a;
  EXPECT_EQ(a.bytes_used(), 0U);
  EXPECT_EQ(a.bytes_reserved(), 0U);
  EXPECT_LE(pages_in_use(), before);
}

TEST(arena_test, may_be_a_constant_initialised_global) {
  static constinit arena a;
  auto* const number = a.create<int>(42);
  EXPECT_EQ(*number, 42);
}

TEST(arena_test, pieces_of_all_sizes_and_alignments_do_not_overlap) {
  arena a;
  std::mt19937 random(1);
  std::vector<stamped_piece> pieces;
  for (std::size_t i = 0; i < 20'000; ++i) {
    const std::size_t bytes = random() % 16 == 0 ? random() % 5000 : random() % 200;
    const std::size_t alignment = std::size_t{1} << random() % 9;
    void* const memory = a.allocate(bytes, alignment);
    ASSERT_TRUE(is_aligned(memory, alignment)) << bytes << " at " << alignment;
    pieces.emplace_back(memory, bytes, i);
  }
  for (const stamped_piece& piece : pieces) ASSERT_TRUE(piece.intact());
}

TEST(arena_test, alignments_up_to_far_beyond_a_page) {
  for (std::size_t alignment = 1; alignment <= 4 * mib; alignment *= 2) {
    arena a;
    for (const std::size_t bytes : {std::size_t{1}, alignment, alignment + 1, 3 * alignment}) {
      void* const memory = a.allocate(bytes, alignment);
      ASSERT_TRUE(is_aligned(memory, alignment)) << alignment;
      std::memset(memory, 0x5a, bytes);
    }
  }
}

TEST(arena_test, the_default_alignment_is_that_of_any_standard_type) {
  arena a;
  for (std::size_t bytes = 0; bytes < 100; ++bytes) {
    EXPECT_TRUE(is_aligned(a.allocate(bytes), alignof(std::max_align_t)));
  }
}

TEST(arena_test, zero_bytes_give_a_pointer) {
  arena a;
  EXPECT_NE(a.allocate(0, 1), nullptr);
  EXPECT_NE(a.try_allocate(0, 64), nullptr);
  (void)a.allocate(1, 1);
  EXPECT_NE(a.allocate(0, 1), nullptr);
  EXPECT_NE(a.allocate_array<int>(0), nullptr);
  EXPECT_TRUE(a.create_array<std::string>(0).empty());
}

TEST(arena_test, packs_what_needs_no_alignment) {
  if (TARN_DETAIL_ASAN != 0) GTEST_SKIP() << "under AddressSanitizer, redzones lie between the pieces";
  arena a;
  for (int i = 0; i < 1000; ++i) std::memset(a.allocate(7, 1), i, 7);
  EXPECT_EQ(a.bytes_used(), 7000U);
}

TEST(arena_test, takes_few_blocks_and_at_most_twice_what_is_used) {
  arena a;
  std::size_t blocks = 0;
  std::size_t reserved = 0;
  for (std::size_t bytes = 0; bytes < 16 * mib; bytes += 64) {
    std::memset(a.allocate(64 - detail::redzone), 1, 64 - detail::redzone);
    if (a.bytes_reserved() == reserved) continue;
    EXPECT_LE(a.bytes_reserved() - reserved, detail::largest_block);
    reserved = a.bytes_reserved();
    ++blocks;
    EXPECT_LE(reserved, 2 * a.bytes_used() + detail::first_block);
  }
  // 8 KiB twice, then doubled up to 1 MiB in all; then 1 MiB each; one more for the blocks' headers.
  EXPECT_EQ(blocks, 24U);
  EXPECT_GE(a.bytes_used(), 16 * mib);
}

TEST(arena_test, large_requests_do_not_end_the_current_block) {
  arena a;
  (void)a.allocate(16);
  const std::size_t before = a.bytes_used();
  const stamped_piece large(a.allocate(3 * mib), 3 * mib, 1);
  const stamped_piece small(a.allocate(16), 16, 2);
  EXPECT_GE(a.bytes_used(), before + 3 * mib);
  EXPECT_LE(a.bytes_reserved(), detail::first_block + 3 * mib + 16 * kib);
  EXPECT_TRUE(large.intact());
  EXPECT_TRUE(small.intact());
}

TEST(arena_test, what_no_machine_has) {
  arena a;
  const stamped_piece piece(a.allocate(100), 100, 7);
  const std::size_t reserved = a.bytes_reserved();
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {most, most - 15, most - 16, most / 2, most / 2 + 1, most / 8, most / 8 + 1,
                                  std::size_t{1} << 50, std::size_t{1} << 45}) {
    for (const std::size_t alignment : {std::size_t{1}, std::size_t{16}, std::size_t{4096}}) {
      EXPECT_EQ(a.try_allocate(bytes, alignment), nullptr) << bytes;
      EXPECT_THROW((void)a.allocate(bytes, alignment), std::bad_alloc) << bytes;
    }
  }
  EXPECT_EQ(a.try_allocate(1, std::size_t{1} << 63), nullptr);
  EXPECT_THROW((void)a.allocate_array<std::uint64_t>(most / 8 + 2), std::bad_alloc);
  EXPECT_THROW((void)a.create_array<std::string>(most / sizeof(std::string) + 2), std::bad_alloc);
  EXPECT_THROW(a.reserve(most), std::bad_alloc);
  EXPECT_EQ(a.bytes_reserved(), reserved);
  EXPECT_TRUE(piece.intact());
}

TEST(arena_test, objects_for_overwrite_are_not_cleared) {
  tarn::arena a;
  void* const before = std::memset(a.allocate(4096), 0x5a, 4096);
  asm volatile("" : : "r"(before) : "memory");  // the bytes are written although the memory is freed
  a.reset();
  unsigned char* const one = a.create_for_overwrite<unsigned char>();
  const std::span<unsigned char> many = a.create_array_for_overwrite<unsigned char>(1000);
  asm volatile("" : : "r"(one) : "memory");  // for the compiler the bytes have no value
  EXPECT_NE(*one, 0);
  EXPECT_NE(many[999], 0);
  EXPECT_TRUE(a.create_for_overwrite<std::string>()->empty());
  EXPECT_TRUE(a.create_array_for_overwrite<std::string>(3)[2].empty());
}

TEST(arena_test, objects_and_arrays) {
  arena a;
  struct point {
    int x;
    double y;
  };
  const point* const p = a.create<point>(1, 2.5);
  EXPECT_EQ(p->x, 1);
  EXPECT_EQ(p->y, 2.5);
  const auto* const text = a.create<std::string>(std::size_t{100}, 'x');
  EXPECT_EQ(*text, std::string(100, 'x'));
  const std::span<int> numbers = a.create_array<int>(1000);
  for (const int number : numbers) EXPECT_EQ(number, 0);
  const std::span<std::string> texts = a.create_array<std::string>(100);
  for (std::string& t : texts) t.assign(50, 'y');
  auto* const raw = a.allocate_array<std::uint64_t>(10);
  EXPECT_TRUE(is_aligned(raw, alignof(std::uint64_t)));
  struct alignas(128) wide {
    ~wide() { EXPECT_TRUE(is_aligned(this, 128)); }
    char bytes[3] = {};
  };
  EXPECT_TRUE(is_aligned(a.create<wide>(), 128));
  EXPECT_TRUE(is_aligned(a.create_array<wide>(3).data(), 128));
}

TEST(arena_test, copies_of_text) {
  arena a;
  std::string original = "of the moment";
  const std::string_view copy = a.copy(original);
  original.assign("something else");
  EXPECT_EQ(copy, "of the moment");
  EXPECT_EQ(a.copy(""), "");
}

TEST(arena_test, destructors_run_newest_first) {
  std::vector<int> ends;
  {
    arena a;
    for (int i = 0; i < 5; ++i) (void)a.create<noted>(ends, i);
    (void)a.create_without_destructor<noted>(ends, 99);
    EXPECT_TRUE(ends.empty());
  }
  EXPECT_EQ(ends, (std::vector<int>{4, 3, 2, 1, 0}));

  ends.clear();
  arena a;
  for (int i = 0; i < 3; ++i) (void)a.create<noted>(ends, i);
  a.reset();
  EXPECT_EQ(ends, (std::vector<int>{2, 1, 0}));
  for (int i = 3; i < 5; ++i) (void)a.create<noted>(ends, i);
  a.release();
  EXPECT_EQ(ends, (std::vector<int>{2, 1, 0, 4, 3}));
  a.release();
  EXPECT_EQ(ends.size(), 5U);
}

TEST(arena_test, destructors_of_arrays_run_last_element_first) {
  static std::vector<int> ends;
  static int made;
  struct counted {
    int id = made++;
    ~counted() { ends.push_back(id); }
  };
  arena a;
  (void)a.create_array<counted>(3);
  a.reset();
  EXPECT_EQ(ends, (std::vector<int>{2, 1, 0}));
}

TEST(arena_test, destructors_see_older_objects_and_large_ones_alive) {
  struct watcher {
    const unsigned char* watched;
    bool* seen;
    watcher(const unsigned char* w, bool* s) : watched(w), seen(s) {}
    ~watcher() { *seen = watched[0] == 17 && watched[mib - 1] == 17; }
  };
  bool seen = false;
  arena a;
  auto* const large = a.allocate_array<unsigned char>(mib);
  std::memset(large, 17, mib);
  (void)a.create<watcher>(large, &seen);
  a.reset();
  EXPECT_TRUE(seen);
}

TEST(arena_test, a_destructor_may_use_the_arena) {
  struct user {
    arena* memory;
    explicit user(arena* m) : memory(m) {}
    ~user() {
      std::memset(memory->allocate(20 * kib), 1, 20 * kib);
      (void)memory->create<std::string>(1000, 'x');
    }
  };
  arena a;
  (void)a.create<user>(&a);
  a.reset();
  EXPECT_EQ(a.bytes_used(), 0U);
}

TEST(arena_test, a_constructor_that_throws_leaves_nothing_to_run) {
  std::vector<int> ends;
  struct thrower {
    noted member;
    explicit thrower(std::vector<int>& list) : member(list, 7) { throw std::runtime_error("no"); }
    ~thrower() { ADD_FAILURE() << "the object was never complete"; }
  };
  static int made = 0;
  struct third_throws {
    std::string text = std::string(100, 'x');
    third_throws() {
      if (++made == 3) throw std::runtime_error("no");
    }
  };
  arena a;
  (void)a.create<noted>(ends, 1);
  EXPECT_THROW((void)a.create<thrower>(ends), std::runtime_error);
  EXPECT_THROW((void)a.create_array<third_throws>(5), std::runtime_error);
  EXPECT_EQ(ends, (std::vector<int>{7}));
  (void)a.create<noted>(ends, 2);
  a.reset();
  EXPECT_EQ(ends, (std::vector<int>{7, 2, 1}));
}

#if TARN_DETAIL_ASAN
extern "C" int __asan_address_is_poisoned(void const volatile* address);
bool poisoned(const void* p) { return __asan_address_is_poisoned(p) != 0; }

TEST(arena_test, asan_knows_what_is_handed_out) {
  alignas(16) char buffer[512];
  {
    arena a(buffer, sizeof buffer);
    for (const std::size_t bytes : {24U, 33U, 400U, 9000U, 700'000U}) {
      const arena::marker mark = a.mark();
      char* const memory = static_cast<char*>(a.allocate(bytes));
      EXPECT_FALSE(poisoned(memory));
      EXPECT_FALSE(poisoned(memory + bytes - 1));
      EXPECT_TRUE(poisoned(memory + bytes)) << bytes;
      char* const next = static_cast<char*>(a.allocate(bytes));
      EXPECT_TRUE(poisoned(next + bytes)) << bytes;
      a.rewind(mark);
      EXPECT_TRUE(bytes > 600'000 || poisoned(memory)) << bytes;  // the pages of the largest are returned
      char* const again = static_cast<char*>(a.allocate(24));
      a.reset();
      EXPECT_TRUE(poisoned(again));
    }
    char* const last = static_cast<char*>(a.allocate(24));
    a.deallocate(last, 24);
    EXPECT_TRUE(poisoned(last));
  }
  for (char& c : buffer) EXPECT_FALSE(poisoned(&c));
}
#endif

}  // namespace
}  // namespace tarn
