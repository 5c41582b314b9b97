// SPDX-License-Identifier: MIT
// Hooks of every form of operator new and delete, in front of the next ones. libstdc++'s, which call malloc, are passed over
// (look_up_operators): there the call of malloc is timed.
#include <new>

#include "profiler/tail/tail_hooks.hpp"

using namespace tarn::profiler::tail;

using nothrow = const std::nothrow_t&;

#pragma GCC visibility push(default)

void* operator new(std::size_t size) {
  return timed_get([=] { return next_operators().make(size); }, size);
}
void* operator new[](std::size_t size) {
  return timed_get([=] { return next_operators().make_array(size); }, size);
}
void* operator new(std::size_t size, nothrow tag) noexcept {
  return timed_get([&] { return next_operators().make_nothrow(size, tag); }, size);
}
void* operator new[](std::size_t size, nothrow tag) noexcept {
  return timed_get([&] { return next_operators().make_array_nothrow(size, tag); }, size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return timed_get([=] { return next_operators().make_aligned(size, alignment); }, size);
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return timed_get([=] { return next_operators().make_array_aligned(size, alignment); }, size);
}
void* operator new(std::size_t size, std::align_val_t alignment, nothrow tag) noexcept {
  return timed_get([&] { return next_operators().make_aligned_nothrow(size, alignment, tag); }, size);
}
void* operator new[](std::size_t size, std::align_val_t alignment, nothrow tag) noexcept {
  return timed_get([&] { return next_operators().make_array_aligned_nothrow(size, alignment, tag); }, size);
}
void operator delete(void* block) noexcept {
  timed_give([=] { next_operators().drop(block); }, block);
}
void operator delete[](void* block) noexcept {
  timed_give([=] { next_operators().drop_array(block); }, block);
}
void operator delete(void* block, nothrow) noexcept {
  timed_give([=] { next_operators().drop(block); }, block);
}
void operator delete[](void* block, nothrow) noexcept {
  timed_give([=] { next_operators().drop_array(block); }, block);
}
void operator delete(void* block, std::size_t size) noexcept {
  timed_give([=] { next_operators().drop_sized(block, size); }, block);
}
void operator delete[](void* block, std::size_t size) noexcept {
  timed_give([=] { next_operators().drop_array_sized(block, size); }, block);
}
void operator delete(void* block, std::align_val_t alignment) noexcept {
  timed_give([=] { next_operators().drop_aligned(block, alignment); }, block);
}
void operator delete[](void* block, std::align_val_t alignment) noexcept {
  timed_give([=] { next_operators().drop_array_aligned(block, alignment); }, block);
}
void operator delete(void* block, std::align_val_t alignment, nothrow) noexcept {
  timed_give([=] { next_operators().drop_aligned(block, alignment); }, block);
}
void operator delete[](void* block, std::align_val_t alignment, nothrow) noexcept {
  timed_give([=] { next_operators().drop_array_aligned(block, alignment); }, block);
}
void operator delete(void* block, std::size_t size, std::align_val_t alignment) noexcept {
  timed_give([=] { next_operators().drop_sized_aligned(block, size, alignment); }, block);
}
void operator delete[](void* block, std::size_t size, std::align_val_t alignment) noexcept {
  timed_give([=] { next_operators().drop_array_sized_aligned(block, size, alignment); }, block);
}

#pragma GCC visibility pop
