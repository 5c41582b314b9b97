// SPDX-License-Identifier: MIT
// forwarded_new: every form of operator new and delete in front of the next ones, for a library that does something at each call.
// One source of the library includes it, behind the definitions of what each call goes through, inlined into the hook:
//   const operators& next_operators()
//   void* get_new(forward, size, alignment)      alignment 0: none was asked for
//   void give_new(forward, block, alignment)     of any block, null too
#pragma once

#include <new>

#include "profiler/record/next_operators.hpp"

#pragma GCC visibility push(default)
// One source includes this. NOLINTBEGIN(misc-definitions-in-headers)

void* operator new(std::size_t size) {
  return get_new([=] { return next_operators().make(size); }, size, 0);
}
void* operator new[](std::size_t size) {
  return get_new([=] { return next_operators().make_array(size); }, size, 0);
}
void* operator new(std::size_t size, const std::nothrow_t& tag) noexcept {
  return get_new([=] { return next_operators().make_nothrow(size, tag); }, size, 0);
}
void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept {
  return get_new([=] { return next_operators().make_array_nothrow(size, tag); }, size, 0);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return get_new([=] { return next_operators().make_aligned(size, alignment); }, size,
                 static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return get_new([=] { return next_operators().make_array_aligned(size, alignment); }, size,
                 static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t& tag) noexcept {
  return get_new([=] { return next_operators().make_aligned_nothrow(size, alignment, tag); }, size,
                 static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t& tag) noexcept {
  return get_new([=] { return next_operators().make_array_aligned_nothrow(size, alignment, tag); }, size,
                 static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept {
  give_new([=] { next_operators().drop(block); }, block, 0);
}
void operator delete[](void* block) noexcept {
  give_new([=] { next_operators().drop_array(block); }, block, 0);
}
void operator delete(void* block, const std::nothrow_t&) noexcept {
  give_new([=] { next_operators().drop(block); }, block, 0);
}
void operator delete[](void* block, const std::nothrow_t&) noexcept {
  give_new([=] { next_operators().drop_array(block); }, block, 0);
}
void operator delete(void* block, std::size_t size) noexcept {
  give_new([=] { next_operators().drop_sized(block, size); }, block, 0);
}
void operator delete[](void* block, std::size_t size) noexcept {
  give_new([=] { next_operators().drop_array_sized(block, size); }, block, 0);
}
void operator delete(void* block, std::align_val_t alignment) noexcept {
  give_new([=] { next_operators().drop_aligned(block, alignment); }, block,
           static_cast<std::size_t>(alignment));
}
void operator delete[](void* block, std::align_val_t alignment) noexcept {
  give_new([=] { next_operators().drop_array_aligned(block, alignment); }, block,
           static_cast<std::size_t>(alignment));
}
void operator delete(void* block, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  give_new([=] { next_operators().drop_aligned(block, alignment); }, block,
           static_cast<std::size_t>(alignment));
}
void operator delete[](void* block, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  give_new([=] { next_operators().drop_array_aligned(block, alignment); }, block,
           static_cast<std::size_t>(alignment));
}
void operator delete(void* block, std::size_t size, std::align_val_t alignment) noexcept {
  give_new([=] { next_operators().drop_sized_aligned(block, size, alignment); }, block,
           static_cast<std::size_t>(alignment));
}
void operator delete[](void* block, std::size_t size, std::align_val_t alignment) noexcept {
  give_new([=] { next_operators().drop_array_sized_aligned(block, size, alignment); }, block,
           static_cast<std::size_t>(alignment));
}

// NOLINTEND(misc-definitions-in-headers)
#pragma GCC visibility pop
