// SPDX-License-Identifier: MIT
// The hooks of malloc, which replace this program's own: at the sites of a plan they serve blocks from pools, which every
// function that frees or resizes takes; at other places malloc's blocks. Bad requests are refused as malloc refuses them.
#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <type_traits>

#include "profiler/apply/apply_format.hpp"
#include "tarn/malloc.h"
#include "tarn/pool.h"
#include "tests/profiler/apply/plan.hpp"

extern "C" {
void cfree(void* block) noexcept;
void free_sized(void* block, std::size_t size) noexcept;
void free_aligned_sized(void* block, std::size_t alignment, std::size_t size) noexcept;
}

namespace tarn::profiler {
namespace {

enum place { slots, buffers, elsewhere };  // the first two are sites of the plan
constexpr std::size_t slot_bytes = 64;
constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t too_much = std::size_t{1} << 62;

std::uintptr_t returns_to;

// Calls the function, so that the compiler does not see which it is. One place has one return address for all functions of a type.
template <place where, class... Args>
[[gnu::noinline]] void* call(void* (*function)(Args...), std::type_identity_t<Args>... args) {
  void* const block = function(args...);
  asm volatile("" ::"i"(where) : "memory");  // not a tail call, and not one function with another place's
  return block;
}

template <class... Args>
[[gnu::noinline]] void* note_return(Args...) {
  returns_to = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  return nullptr;
}

// Runs before the constructor that reads the plan.
[[gnu::constructor(101)]] void make_plan() {
  static const scratch_file file;
  std::string text;
  const auto add = [&text](const char* use) { text += use + frame_at(returns_to) + "\n"; };
  call<slots>(&note_return<std::size_t>, 0);
  add("pool 0 64 ");
  call<slots>(&note_return<std::size_t, const std::nothrow_t&>, 0, std::nothrow);
  add("pool 0 64 ");
  call<slots>(&note_return<std::size_t, std::size_t>, 0, 0);
  add("pool 0 64 ");
  call<slots>(&note_return<void*, std::size_t>, nullptr, 0);
  add("pool 0 64 ");
  call<buffers>(&note_return<std::size_t>, 0);
  add("buffers 1 0 ");
  const_cast<scratch_file&>(file).set(
      std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  setenv(apply_variable, file.path().c_str(), 1);
}

bool is_slot(const void* block) { return tarn_pool_of(block) != nullptr; }
bool is_buffer(const void* block) {
  std::size_t bytes = 0;
  return tarn_buffer_pool_of(block, &bytes) != nullptr;
}

void* take_slot() { return call<slots>(&malloc, slot_bytes); }

// The last slot freed is the first given.
void expect_freed(const void* block) {
  void* const next = take_slot();
  EXPECT_EQ(next, block) << "the slot has not come back";
  free(next);
}

bool holds(const void* block, int value, std::size_t bytes) {
  const std::string expected(bytes, static_cast<char>(value));
  return std::memcmp(block, expected.data(), bytes) == 0;
}

TEST(apply_hooks, every_function_that_allocates_is_served_at_a_site) {
  void* const blocks[] = {
      take_slot(),
      call<slots>(&calloc, 4, 16),
      call<slots>(&realloc, nullptr, slot_bytes),
      call<slots>(static_cast<void* (*)(std::size_t)>(&::operator new), 1),
      call<slots>(static_cast<void* (*)(std::size_t)>(&::operator new[]), 0),
      call<slots>(static_cast<void* (*)(std::size_t, const std::nothrow_t&)>(&::operator new), 1,
                  std::nothrow),
      call<slots>(static_cast<void* (*)(std::size_t, const std::nothrow_t&)>(&::operator new[]), 1,
                  std::nothrow),
  };
  for (void* const block : blocks) {
    EXPECT_TRUE(is_slot(block));
    EXPECT_EQ(malloc_usable_size(block), slot_bytes);
    free(block);
  }
}

TEST(apply_hooks, everything_else_is_mallocs) {
  void* const blocks[] = {call<elsewhere>(&malloc, slot_bytes), call<slots>(&malloc, slot_bytes + 1),
                          call<buffers>(&malloc, 1000), call<slots>(&calloc, 5, 16)};
  for (void* const block : blocks) {
    ASSERT_NE(block, nullptr);
    EXPECT_FALSE(is_slot(block) || is_buffer(block));
    free(block);
  }
  EXPECT_EQ(malloc_usable_size(nullptr), 0U);
  free(nullptr);
}

TEST(apply_hooks, every_function_that_frees_takes_a_slot_back) {
  constexpr std::align_val_t alignment{16};
  void (*const functions[])(void*) = {
      [](void* p) { free(p); },
      [](void* p) { cfree(p); },
      [](void* p) { free_sized(p, slot_bytes); },
      [](void* p) { free_aligned_sized(p, 16, slot_bytes); },
      [](void* p) { ::operator delete(p); },
      [](void* p) { ::operator delete[](p); },
      [](void* p) { ::operator delete(p, slot_bytes); },
      [](void* p) { ::operator delete[](p, slot_bytes); },
      [](void* p) { ::operator delete(p, std::nothrow); },
      [](void* p) { ::operator delete[](p, std::nothrow); },
      [](void* p) { ::operator delete(p, alignment); },
      [](void* p) { ::operator delete[](p, alignment); },
      [](void* p) { ::operator delete(p, slot_bytes, alignment); },
      [](void* p) { ::operator delete[](p, slot_bytes, alignment); },
      [](void* p) { ::operator delete(p, alignment, std::nothrow); },
      [](void* p) { ::operator delete[](p, alignment, std::nothrow); },
      [](void* p) { tarn_free(p); },
      [](void* p) { tarn_free_sized(p, slot_bytes); },
      [](void* p) { tarn_free_aligned_sized(p, 16, slot_bytes); },
      [](void* p) { EXPECT_EQ(tarn_realloc(p, 0), nullptr); },
      [](void* p) { EXPECT_EQ(tarn_reallocarray(p, 0, 8), nullptr); },
      [](void* p) { EXPECT_EQ(call<elsewhere>(&realloc, p, 0), nullptr); },
      [](void* p) { EXPECT_EQ(call<elsewhere>(&reallocarray, p, 8, 0), nullptr); },
  };
  for (const auto function : functions) {
    void* const block = take_slot();
    ASSERT_TRUE(is_slot(block));
    errno = EXDEV;
    function(block);
    EXPECT_EQ(errno, EXDEV);
    expect_freed(block);
  }
}

TEST(apply_hooks, calloc_clears_a_used_slot) {
  void* const used = take_slot();
  std::memset(used, 0xff, slot_bytes);
  free(used);
  void* const cleared = call<slots>(&calloc, 1, slot_bytes);
  EXPECT_EQ(cleared, used);
  EXPECT_TRUE(holds(cleared, 0, slot_bytes));
  free(cleared);
}

TEST(apply_hooks, a_product_that_overflows_is_refused) {
  errno = 0;
  EXPECT_EQ(call<slots>(&calloc, std::size_t{1} << 63, 2), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  void* const block = take_slot();
  errno = 0;
  EXPECT_EQ(call<elsewhere>(&reallocarray, block, std::size_t{1} << 63, 2), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(malloc_usable_size(block), slot_bytes) << "it must not have been freed";
  free(block);
}

TEST(apply_hooks, a_slot_that_becomes_too_short_is_moved_with_its_content) {
  void* const block = take_slot();
  std::memset(block, 7, slot_bytes);
  EXPECT_EQ(call<elsewhere>(&realloc, block, slot_bytes), block);
  EXPECT_EQ(call<elsewhere>(&realloc, block, 1), block);
  EXPECT_EQ(call<elsewhere>(&reallocarray, block, 4, 16), block);
  errno = 0;
  EXPECT_EQ(call<elsewhere>(&realloc, block, too_much), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_TRUE(holds(block, 7, slot_bytes));
  void* const longer = call<elsewhere>(&realloc, block, slot_bytes + 1);
  ASSERT_NE(longer, nullptr);
  EXPECT_FALSE(is_slot(longer));
  EXPECT_TRUE(holds(longer, 7, slot_bytes));
  expect_freed(block);
  free(longer);
}

TEST(apply_hooks, tarns_own_names_know_the_slots) {
  void* const block = take_slot();
  std::memset(block, 7, slot_bytes);
  EXPECT_EQ(tarn_usable_size(block), slot_bytes);
  EXPECT_EQ(tarn_realloc(block, slot_bytes), block);
  void* const longer = tarn_reallocarray(block, slot_bytes, 2);
  ASSERT_NE(longer, nullptr);
  EXPECT_FALSE(is_slot(longer));
  EXPECT_TRUE(holds(longer, 7, slot_bytes));
  EXPECT_GE(tarn_usable_size(longer), 2 * slot_bytes);
  expect_freed(block);
  tarn_free(tarn_realloc(longer, 10));
  tarn_free(tarn_realloc(nullptr, 10));
  EXPECT_EQ(tarn_usable_size(nullptr), 0U);
  tarn_free(nullptr);
}

TEST(apply_hooks, a_long_block_is_a_buffer_until_it_grows) {
  void* const block = call<buffers>(&malloc, mib);
  ASSERT_TRUE(is_buffer(block));
  const std::size_t bytes = malloc_usable_size(block);
  EXPECT_GE(bytes, mib);
  std::memset(block, 7, bytes);
  EXPECT_EQ(call<elsewhere>(&realloc, block, bytes), block);
  void* const longer = call<elsewhere>(&realloc, block, bytes + 1);
  ASSERT_NE(longer, nullptr);
  EXPECT_FALSE(is_buffer(longer) || is_buffer(block));
  EXPECT_TRUE(holds(longer, 7, bytes));
  EXPECT_EQ(call<buffers>(&malloc, mib), block) << "the buffer was not kept";
  free(block);
  free(longer);
}

TEST(apply_hooks, aligned_blocks_are_mallocs) {
  void* block = nullptr;
  EXPECT_EQ(posix_memalign(&block, 3, slot_bytes), EINVAL);
  ASSERT_EQ(posix_memalign(&block, 4096, slot_bytes), 0);
  void* const blocks[] = {block,
                          aligned_alloc(4096, 4096),
                          memalign(4096, 1),
                          valloc(1),
                          pvalloc(1),
                          ::operator new(1, std::align_val_t{4096}),
                          ::operator new[](1, std::align_val_t{4096}),
                          ::operator new(1, std::align_val_t{4096}, std::nothrow),
                          ::operator new[](1, std::align_val_t{4096}, std::nothrow)};
  for (void* const one : blocks) {
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one) % 4096, 0U);
    EXPECT_FALSE(is_slot(one));
    free(one);
  }
}

int handled;

TEST(apply_hooks, operator_new_without_memory_asks_the_handler_and_throws) {
  std::set_new_handler([] {
    ++handled;
    std::set_new_handler(nullptr);
  });
  using plain = void* (*)(std::size_t);
  EXPECT_THROW(call<slots>(static_cast<plain>(&::operator new), too_much), std::bad_alloc);
  EXPECT_EQ(handled, 1);
  EXPECT_THROW(call<elsewhere>(static_cast<plain>(&::operator new[]), too_much), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(::operator new(too_much, std::align_val_t{64})), std::bad_alloc);
  EXPECT_THROW(static_cast<void>(::operator new[](too_much, std::align_val_t{64})), std::bad_alloc);
  EXPECT_EQ(::operator new(too_much, std::nothrow), nullptr);
  EXPECT_EQ(::operator new[](too_much, std::align_val_t{64}, std::nothrow), nullptr);
}

}  // namespace
}  // namespace tarn::profiler
