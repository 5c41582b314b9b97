// SPDX-License-Identifier: MIT
// Hooks of every form of operator new and delete, in front of those of the program's C++ library or allocator. A
// call is recorded under its own kind; its inner call of malloc or of another form is not recorded a second time.
//
// A C program may load C++ libraries later, whose calls then find this library's operators. libstdc++'s own are not
// looked up then, since dlsym takes the dynamic linker's lock: malloc and free serve, as they serve libstdc++'s.
#include <atomic>
#include <cstdlib>
#include <new>

#include "profiler/record/origin.hpp"
#include "profiler/record/real_functions.hpp"
#include "profiler/record/recorder.hpp"

using namespace tarn::profiler;
using namespace tarn::profiler::recorder;

namespace {

using nothrow = const std::nothrow_t&;

struct operators {
  void* (*make)(std::size_t);
  void* (*make_array)(std::size_t);
  void* (*make_nothrow)(std::size_t, nothrow);
  void* (*make_array_nothrow)(std::size_t, nothrow);
  void* (*make_aligned)(std::size_t, std::align_val_t);
  void* (*make_array_aligned)(std::size_t, std::align_val_t);
  void* (*make_aligned_nothrow)(std::size_t, std::align_val_t, nothrow);
  void* (*make_array_aligned_nothrow)(std::size_t, std::align_val_t, nothrow);
  void (*drop)(void*);
  void (*drop_array)(void*);
  void (*drop_sized)(void*, std::size_t);
  void (*drop_array_sized)(void*, std::size_t);
  void (*drop_aligned)(void*, std::align_val_t);
  void (*drop_array_aligned)(void*, std::align_val_t);
  void (*drop_sized_aligned)(void*, std::size_t, std::align_val_t);
  void (*drop_array_sized_aligned)(void*, std::size_t, std::align_val_t);
  bool are_there;  // false: the program has no C++ library
};
operators known;
std::atomic<bool> looked{false};
// All operators without an alignment go to the program's malloc, past this library's hooks (shorten).
std::atomic<bool> are_short{false};

// Without memory: what the C++ library that has been loaded since does then. A program without one cannot throw.
template <class... Arguments>
void* new_without_memory(const char* name, Arguments... arguments) {
  auto* const later = reinterpret_cast<void* (*)(Arguments...)>(find_next(name));
  if (later == nullptr) std::abort();
  return later(arguments...);
}
void* plain_new(std::size_t size) {
  void* const block = real.malloc(size != 0 ? size : 1);
  return block != nullptr ? block : new_without_memory("_Znwm", size);
}
void* plain_new_aligned(std::size_t size, std::align_val_t alignment) {
  void* const block = real.aligned_alloc(static_cast<std::size_t>(alignment), size != 0 ? size : 1);
  return block != nullptr ? block : new_without_memory("_ZnwmSt11align_val_t", size, alignment);
}
void* plain_new_nothrow(std::size_t size, nothrow) { return real.malloc(size != 0 ? size : 1); }
void* plain_new_aligned_nothrow(std::size_t size, std::align_val_t alignment, nothrow) {
  return real.aligned_alloc(static_cast<std::size_t>(alignment), size != 0 ? size : 1);
}
void plain_delete(void* block) {
  if (__builtin_expect(is_early(block), 0) == 0) real.free(block);
}
void plain_delete_sized(void* block, std::size_t) { plain_delete(block); }
void plain_delete_aligned(void* block, std::align_val_t) { real.free(block); }
void plain_delete_sized_aligned(void* block, std::size_t, std::align_val_t) { real.free(block); }

template <class function>
void look_up(function& into, const char* name, function otherwise) {
  into = reinterpret_cast<function>(find_next(name));
  if (into == nullptr) into = otherwise;
}

bool leads_here(const char* name, std::uintptr_t real_function) {
  const std::uintptr_t found = find_first(name);
  return is_recorders(found) || found == real_function;
}

// libstdc++'s operators call each other, and malloc and free. Where all these calls would come back to the recorder and lead to
// libstdc++ again, the program's malloc serves in their place: a call then passes one hook, not three. Returns whether that is
// so for all without an alignment.
bool shorten(operators& all) {
  const auto make = reinterpret_cast<std::uintptr_t>(all.make);
  const auto drop = reinterpret_cast<std::uintptr_t>(all.drop);
  if (!is_of_libstdcxx(make) || !is_of_libstdcxx(drop) || !leads_here("_Znwm", make) ||
      !leads_here("_ZdlPv", drop) || !leads_here("malloc", reinterpret_cast<std::uintptr_t>(real.malloc)) ||
      !leads_here("free", reinterpret_cast<std::uintptr_t>(real.free))) {
    return false;
  }
  bool all_are = true;
  const auto replace = [&all_are](auto& each, auto by) {
    const bool is_libstdcxx = is_of_libstdcxx(reinterpret_cast<std::uintptr_t>(each));
    if (is_libstdcxx) each = by;
    all_are = all_are && is_libstdcxx;
  };
  replace(all.make, plain_new);
  replace(all.make_array, plain_new);
  replace(all.make_nothrow, plain_new_nothrow);
  replace(all.make_array_nothrow, plain_new_nothrow);
  replace(all.drop, plain_delete);
  replace(all.drop_array, plain_delete);
  replace(all.drop_sized, plain_delete_sized);
  replace(all.drop_array_sized, plain_delete_sized);
  return all_are;
}

// What the dynamic linker allocates in it, where there is no operator new, is not the program's.
void look_up_all() {
  if (real.malloc == nullptr) find_real_functions();
  const std::uint8_t before = self.busy;
  self.busy = 2;  // calling
  operators found;
  look_up(found.make, "_Znwm", plain_new);
  look_up(found.make_array, "_Znam", found.make);
  look_up(found.make_nothrow, "_ZnwmRKSt9nothrow_t", plain_new_nothrow);
  look_up(found.make_array_nothrow, "_ZnamRKSt9nothrow_t", found.make_nothrow);
  look_up(found.make_aligned, "_ZnwmSt11align_val_t", plain_new_aligned);
  look_up(found.make_array_aligned, "_ZnamSt11align_val_t", found.make_aligned);
  look_up(found.make_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t", plain_new_aligned_nothrow);
  look_up(found.make_array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t", found.make_aligned_nothrow);
  look_up(found.drop, "_ZdlPv", plain_delete);
  look_up(found.drop_array, "_ZdaPv", found.drop);
  look_up(found.drop_sized, "_ZdlPvm", plain_delete_sized);
  look_up(found.drop_array_sized, "_ZdaPvm", found.drop_sized);
  look_up(found.drop_aligned, "_ZdlPvSt11align_val_t", plain_delete_aligned);
  look_up(found.drop_array_aligned, "_ZdaPvSt11align_val_t", found.drop_aligned);
  look_up(found.drop_sized_aligned, "_ZdlPvmSt11align_val_t", plain_delete_sized_aligned);
  look_up(found.drop_array_sized_aligned, "_ZdaPvmSt11align_val_t", found.drop_sized_aligned);
  set_new_module(reinterpret_cast<std::uintptr_t>(found.make));
  found.are_there = found.make != plain_new;
  const bool are_now_short = shorten(found);
  known = found;
  self.busy = before;
  looked.store(true, std::memory_order_release);              // partner of all()'s acquire
  are_short.store(are_now_short, std::memory_order_release);  // partner of is_direct()'s acquire
}

const operators& all() {
  // acquire: partner of the release above: known is filled; two threads may both fill it, with the same
  if (__builtin_expect(!looked.load(std::memory_order_acquire), 0) != 0) look_up_all();
  return known;
}

// Sets in_new during `forward`, so that an inner call of malloc or operator new is not recorded a second time.
template <class call>
[[gnu::always_inline]] inline void* inside_new(call forward) {
  self.in_new = 1;
  void* const block = forward();
  self.in_new = 0;
  return block;
}

// Whether an operator without an alignment may be called as it is, without inside_new().
// acquire: partner of the release in look_up_all: `known` is filled
bool is_direct(std::size_t alignment) {
  return alignment == 0 && __builtin_expect(are_short.load(std::memory_order_acquire), 1) != 0;
}

// `wanted`: wants_allocation() was asked, and said so.
template <class call>
[[gnu::noinline]] void* recorded_new_slowly(call forward, std::size_t size, std::size_t alignment,
                                            bool wanted, const call_origin& origin) {
  if (self.in_new != 0 && is_inner_call(origin.return_address, false)) return forward();
  if (!wanted && !wants_allocation(size)) return inside_new(forward);
  call_time time;
  void* const block = run_timed(wants_time(size), time, [&] { return inside_new(forward); });
  allocated(word_kind::operator_new, block, size, alignment, origin, time);
  return block;
}

template <class call>
[[gnu::always_inline]] inline void* recorded_new(call forward, std::size_t size, std::size_t alignment) {
  if (__builtin_expect(self.in_new != 0, 0) != 0 || !is_direct(alignment))
    return recorded_new_slowly(forward, size, alignment, false, caller());
  if (wants_allocation(size)) return recorded_new_slowly(forward, size, alignment, true, caller());
  return forward();
}

template <class call>
[[gnu::noinline]] void recorded_delete_slowly(call forward, void* block, std::uintptr_t return_address) {
  if (self.in_new != 0 && is_inner_call(return_address, false)) return forward();
  const auto inside_delete = [=] {
    self.in_new = 1;
    forward();
    self.in_new = 0;
  };
  if (is_free_of_no_interest(block)) return inside_delete();
  record_free(word_kind::operator_delete, inside_delete, block);
}

template <class call>
[[gnu::always_inline]] inline void recorded_delete(call forward, void* block, std::size_t alignment = 0) {
  if (block == nullptr) return forward();
  if (__builtin_expect(self.in_new != 0, 0) != 0 || !is_direct(alignment) || !is_free_of_no_interest(block))
    return recorded_delete_slowly(forward, block, return_address());
  forward();
}

}  // namespace

namespace tarn::profiler::recorder {

void look_for_operators() {
  if (!looked.load(std::memory_order_acquire) || !known.are_there) look_up_all();
}

}  // namespace tarn::profiler::recorder

#pragma GCC visibility push(default)

void* operator new(std::size_t size) {
  return recorded_new([=] { return all().make(size); }, size, 0);
}
void* operator new[](std::size_t size) {
  return recorded_new([=] { return all().make_array(size); }, size, 0);
}
void* operator new(std::size_t size, nothrow tag) noexcept {
  return recorded_new([=] { return all().make_nothrow(size, tag); }, size, 0);
}
void* operator new[](std::size_t size, nothrow tag) noexcept {
  return recorded_new([=] { return all().make_array_nothrow(size, tag); }, size, 0);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return recorded_new([=] { return all().make_aligned(size, alignment); }, size,
                      static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return recorded_new([=] { return all().make_array_aligned(size, alignment); }, size,
                      static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, std::align_val_t alignment, nothrow tag) noexcept {
  return recorded_new([=] { return all().make_aligned_nothrow(size, alignment, tag); }, size,
                      static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, nothrow tag) noexcept {
  return recorded_new([=] { return all().make_array_aligned_nothrow(size, alignment, tag); }, size,
                      static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept {
  recorded_delete([=] { all().drop(block); }, block);
}
void operator delete[](void* block) noexcept {
  recorded_delete([=] { all().drop_array(block); }, block);
}
void operator delete(void* block, nothrow) noexcept {
  recorded_delete([=] { all().drop(block); }, block);
}
void operator delete[](void* block, nothrow) noexcept {
  recorded_delete([=] { all().drop_array(block); }, block);
}
void operator delete(void* block, std::size_t size) noexcept {
  recorded_delete([=] { all().drop_sized(block, size); }, block);
}
void operator delete[](void* block, std::size_t size) noexcept {
  recorded_delete([=] { all().drop_array_sized(block, size); }, block);
}
void operator delete(void* block, std::align_val_t alignment) noexcept {
  recorded_delete([=] { all().drop_aligned(block, alignment); }, block, static_cast<std::size_t>(alignment));
}
void operator delete[](void* block, std::align_val_t alignment) noexcept {
  recorded_delete([=] { all().drop_array_aligned(block, alignment); }, block,
                  static_cast<std::size_t>(alignment));
}
void operator delete(void* block, std::align_val_t alignment, nothrow) noexcept {
  recorded_delete([=] { all().drop_aligned(block, alignment); }, block, static_cast<std::size_t>(alignment));
}
void operator delete[](void* block, std::align_val_t alignment, nothrow) noexcept {
  recorded_delete([=] { all().drop_array_aligned(block, alignment); }, block,
                  static_cast<std::size_t>(alignment));
}
void operator delete(void* block, std::size_t size, std::align_val_t alignment) noexcept {
  recorded_delete([=] { all().drop_sized_aligned(block, size, alignment); }, block,
                  static_cast<std::size_t>(alignment));
}
void operator delete[](void* block, std::size_t size, std::align_val_t alignment) noexcept {
  recorded_delete([=] { all().drop_array_sized_aligned(block, size, alignment); }, block,
                  static_cast<std::size_t>(alignment));
}

#pragma GCC visibility pop
