// SPDX-License-Identifier: MIT
// Every replaceable form of operator new and delete. Failure follows the standard: the new-handler is called until an
// allocation succeeds or there is no handler; then std::bad_alloc, or null from the nothrow forms.
//
// A program may replace some forms only, and the standard defines the others by them: new[] by new, delete with a size and
// delete[] by delete, the nothrow forms by those that throw. So each form that is defined by another one jumps to it by its
// name, which leads to the program's if there is one: in shared libraries by cmake/replaceable.list, in archives because
// the definitions here are weak.
//
// This library does not link the C++ library; in a C++ program weak references find it.
#include <dlfcn.h>

#include <new>

#include "malloc/allocate.hpp"
#include "malloc/entry_points.hpp"
#include "os/report.hpp"
#include "tarn/malloc.h"

namespace std {
[[gnu::weak, gnu::noreturn]] void __throw_bad_alloc();
}

// The functions that the compiler calls for catch and noexcept below, as weak references. They are called only in a
// process with a C++ library.
__asm__(
    ".weak __cxa_begin_catch\n"
    ".weak __cxa_end_catch\n"
    ".weak __gxx_personality_v0");
#ifdef __clang__
__asm__(".weak _ZSt9terminatev");
#endif

extern "C" [[gnu::weak]] void (*tarn_get_new_handler() noexcept)() __asm__("_ZSt15get_new_handlerv");

// In tarn, so that it is known as tarn's on call paths.
namespace tarn {
namespace {

using handler_getter = std::new_handler (*)();
using thrower = void (*)();

// The weak names are resolved when the program is linked or loaded. If a C program loads a C++ library later, they stay
// null, and dlsym finds the functions.
std::new_handler current_handler() {
  handler_getter get = tarn_get_new_handler;
  if (get == nullptr) get = reinterpret_cast<handler_getter>(dlsym(RTLD_DEFAULT, "_ZSt15get_new_handlerv"));
  return get != nullptr ? get() : nullptr;
}

[[noreturn]] void throw_bad_alloc() {
  thrower fail = &std::__throw_bad_alloc;
  if (fail == nullptr) fail = reinterpret_cast<thrower>(dlsym(RTLD_DEFAULT, "_ZSt17__throw_bad_allocv"));
  if (fail != nullptr) fail();
  os::fatal("out of memory in operator new, and no C++ library to throw std::bad_alloc", nullptr);
}

bool too_large(std::size_t size) { return size > entry::largest_request; }

// `throws`: if there is no memory and no new-handler; else null.
TARN_COLD void* new_slow(std::size_t size, std::size_t alignment, bool throws) {
  for (;;) {
    if (!too_large(size)) {
      if (void* block = alignment == 0 ? allocate(size) : allocate_aligned(alignment, size)) return block;
    }
    const std::new_handler handler = current_handler();
    if (handler == nullptr) {
      if (!throws) return nullptr;
      throw_bad_alloc();
    }
    handler();
  }
}

// What a form that throws returns; null if it throws.
template <class... Arguments>
TARN_COLD void* null_if_thrown(void* (*form)(Arguments...), Arguments... arguments) noexcept {
  try {
    return form(arguments...);
  } catch (...) {
    return nullptr;
  }
}

// The nothrow forms return null if a new-handler throws, as the standard's default versions do.
void* new_nothrow_slow(std::size_t size, std::size_t alignment) noexcept {
  return null_if_thrown(new_slow, size, alignment, false);
}

TARN_ALWAYS_INLINE void* new_object(std::size_t size) {
  if (TARN_LIKELY(is_fine(size))) {
    void* const object = pop_fine(size);
    if (TARN_LIKELY(object != nullptr)) return object;
  }
  return new_slow(size, 0, true);
}

TARN_ALWAYS_INLINE void* new_aligned(std::size_t size, std::align_val_t alignment) {
  void* const object = pop_aligned(static_cast<std::size_t>(alignment), size);
  return TARN_LIKELY(object != nullptr) ? object : new_slow(size, static_cast<std::size_t>(alignment), true);
}

// Whether the name leads to tarn's definition, which the linker also knows by a hidden name.
template <class Form>
bool is_own(Form* by_name, Form* own) {
  __asm__("" : "+r"(by_name));  // a compiler takes two names of one function for equal
  return TARN_LIKELY(by_name == own);
}

using plain_form = void*(std::size_t);
using aligned_form = void*(std::size_t, std::align_val_t);
constexpr plain_form* plain_new = &::operator new;
constexpr plain_form* plain_new_array = &::operator new[];
constexpr aligned_form* aligned_new = &::operator new;
constexpr aligned_form* aligned_new_array = &::operator new[];
using plain_delete_form = void(void*) noexcept;
using aligned_delete_form = void(void*, std::align_val_t) noexcept;
constexpr plain_delete_form* plain_delete = &::operator delete;
constexpr plain_delete_form* plain_delete_array = &::operator delete[];
constexpr aligned_delete_form* aligned_delete = &::operator delete;
constexpr aligned_delete_form* aligned_delete_array = &::operator delete[];

}  // namespace
}  // namespace tarn

using namespace tarn;

#define TARN_FORM [[gnu::weak]] TARN_API
// GCC wants a name to have the attributes of the function that it names.
#define TARN_OWN(symbol) [[gnu::alias(symbol), gnu::visibility("hidden"), gnu::malloc, gnu::alloc_size(1)]]
#define TARN_OWN_DELETE(symbol) [[gnu::alias(symbol), gnu::visibility("hidden")]]

extern "C" {
TARN_OWN("_Znwm") void* tarn_own_new(std::size_t);
TARN_OWN("_Znam") void* tarn_own_new_array(std::size_t);
TARN_OWN("_ZnwmSt11align_val_t") void* tarn_own_new_aligned(std::size_t, std::align_val_t);
TARN_OWN("_ZnamSt11align_val_t") void* tarn_own_new_array_aligned(std::size_t, std::align_val_t);
TARN_OWN_DELETE("_ZdlPv") void tarn_own_delete(void*) noexcept;
TARN_OWN_DELETE("_ZdaPv") void tarn_own_delete_array(void*) noexcept;
TARN_OWN_DELETE("_ZdlPvSt11align_val_t") void tarn_own_delete_aligned(void*, std::align_val_t) noexcept;
TARN_OWN_DELETE("_ZdaPvSt11align_val_t") void tarn_own_delete_array_aligned(void*, std::align_val_t) noexcept;
}

namespace {

// The sizes that the program names in delete are checked by the hardened build only, and only where all four forms are
// tarn's: another operator new may ask for more than it is asked for.
TARN_ALWAYS_INLINE void check_size(void* block, std::size_t size) {
  if (hardened_build && is_own(plain_new, tarn_own_new) && is_own(plain_new_array, tarn_own_new_array) &&
      is_own(plain_delete, tarn_own_delete) && is_own(plain_delete_array, tarn_own_delete_array))
    hardened_size::check(block, size, 1, hardened_size::how_named::exact);
}
TARN_ALWAYS_INLINE void check_size(void* block, std::size_t size, std::align_val_t alignment) {
  if (hardened_build && is_own(aligned_new, tarn_own_new_aligned) &&
      is_own(aligned_new_array, tarn_own_new_array_aligned) &&
      is_own(aligned_delete, tarn_own_delete_aligned) &&
      is_own(aligned_delete_array, tarn_own_delete_array_aligned))
    hardened_size::check(block, size, static_cast<std::size_t>(alignment), hardened_size::how_named::exact);
}

}  // namespace

TARN_FORM void* operator new(std::size_t size) { return new_object(size); }
TARN_FORM void* operator new(std::size_t size, std::align_val_t a) { return new_aligned(size, a); }
TARN_FORM void* operator new[](std::size_t size) { return ::operator new(size); }
TARN_FORM void* operator new[](std::size_t size, std::align_val_t a) { return ::operator new(size, a); }

TARN_FORM void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return is_own(plain_new, tarn_own_new) ? new_nothrow_slow(size, 0) : null_if_thrown(plain_new, size);
}
TARN_FORM void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return is_own(plain_new_array, tarn_own_new_array) && is_own(plain_new, tarn_own_new)
             ? new_nothrow_slow(size, 0)
             : null_if_thrown(plain_new_array, size);
}
TARN_FORM void* operator new(std::size_t size, std::align_val_t a, const std::nothrow_t&) noexcept {
  return is_own(aligned_new, tarn_own_new_aligned) ? new_nothrow_slow(size, static_cast<std::size_t>(a))
                                                   : null_if_thrown(aligned_new, size, a);
}
TARN_FORM void* operator new[](std::size_t size, std::align_val_t a, const std::nothrow_t&) noexcept {
  return is_own(aligned_new_array, tarn_own_new_array_aligned) && is_own(aligned_new, tarn_own_new_aligned)
             ? new_nothrow_slow(size, static_cast<std::size_t>(a))
             : null_if_thrown(aligned_new_array, size, a);
}

TARN_FORM void operator delete(void* p) noexcept { deallocate(p); }
TARN_FORM void operator delete(void* p, std::size_t size) noexcept {
  check_size(p, size);
  ::operator delete(p);
}
TARN_FORM void operator delete(void* p, const std::nothrow_t&) noexcept { ::operator delete(p); }
TARN_FORM void operator delete[](void* p) noexcept { ::operator delete(p); }
TARN_FORM void operator delete[](void* p, std::size_t size) noexcept {
  check_size(p, size);
  ::operator delete[](p);
}
TARN_FORM void operator delete[](void* p, const std::nothrow_t&) noexcept { ::operator delete[](p); }

TARN_FORM void operator delete(void* p, std::align_val_t) noexcept { deallocate(p); }
TARN_FORM void operator delete(void* p, std::size_t size, std::align_val_t a) noexcept {
  check_size(p, size, a);
  ::operator delete(p, a);
}
TARN_FORM void operator delete(void* p, std::align_val_t a, const std::nothrow_t&) noexcept {
  ::operator delete(p, a);
}
TARN_FORM void operator delete[](void* p, std::align_val_t a) noexcept { ::operator delete(p, a); }
TARN_FORM void operator delete[](void* p, std::size_t size, std::align_val_t a) noexcept {
  check_size(p, size, a);
  ::operator delete[](p, a);
}
TARN_FORM void operator delete[](void* p, std::align_val_t a, const std::nothrow_t&) noexcept {
  ::operator delete[](p, a);
}
