// SPDX-License-Identifier: MIT
// stack_walk: call paths of known functions, and where a path ends. Paths on stacks of all kinds: guarantee 48.
#include "unwind/stack_walk.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "base/compiler.hpp"

namespace {

using namespace tarn;

struct taken_path {
  std::uintptr_t frames[32] = {};
  std::size_t count = 0;
  std::uintptr_t returns[2] = {};  // of inner() and outer()
};

TARN_NOINLINE void inner(taken_path& out) {
  out.returns[0] = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  out.count = unwind::walk(unwind::here(), out.frames, std::size(out.frames));
  asm volatile("" ::: "memory");  // no tail call
}

TARN_NOINLINE void outer(taken_path& out) {
  out.returns[1] = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  inner(out);
  asm volatile("" ::: "memory");
}

TEST(stack_walk, leads_from_a_function_to_its_callers) {
  unwind::loaded_module module;
  if (!unwind::find_module_lock_free(reinterpret_cast<std::uintptr_t>(&outer), module))
    GTEST_SKIP() << "glibc cannot find a module without its lock";
  taken_path path;
  errno = 7;
  outer(path);
  EXPECT_EQ(errno, 7);
  ASSERT_GE(path.count, 4U);
  EXPECT_EQ(path.frames[1], path.returns[0]);
  EXPECT_EQ(path.frames[2], path.returns[1]);
  EXPECT_EQ(std::count(path.frames, path.frames + path.count, 0U), 0);
}

TEST(stack_walk, has_no_more_frames_than_there_is_room_for) {
  std::uintptr_t frames[3] = {1, 1, 1};
  const unwind::frame_origin origin = unwind::here();
  EXPECT_EQ(unwind::walk(origin, frames, 0), 0U);
  EXPECT_EQ(frames[0], 1U);
  EXPECT_EQ(unwind::walk(origin, frames, 1), 1U);
  EXPECT_EQ(frames[0], origin.return_address);
  EXPECT_EQ(frames[1], 1U);
}

TEST(stack_walk, ends_where_no_code_of_a_module_is) {
  std::uintptr_t frames[3] = {};
  unwind::frame_origin origin = unwind::here();
  alignas(16) static char data[64];
  for (const std::uintptr_t pc :
       {std::uintptr_t{1}, ~std::uintptr_t{0}, reinterpret_cast<std::uintptr_t>(frames)}) {
    origin.return_address = pc;
    EXPECT_EQ(unwind::walk(origin, frames, 3), 1U);
  }
  origin = unwind::here();
  origin.return_address = reinterpret_cast<std::uintptr_t>(data) + 32;
  EXPECT_EQ(unwind::walk(origin, frames, 3), 1U) << "data of this program";
}

}  // namespace
