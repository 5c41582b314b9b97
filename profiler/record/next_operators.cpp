// SPDX-License-Identifier: MIT
#include "profiler/record/next_operators.hpp"

#include <cstdlib>

#include "profiler/record/early_store.hpp"
#include "profiler/record/next_functions.hpp"
#include "profiler/record/symbol_search.hpp"

namespace tarn::profiler::recorder {

namespace {

using nothrow = const std::nothrow_t&;

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
void look_up_or(function& into, const char* name, function otherwise) {
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

}  // namespace

operators look_up_operators() {
  operators found = {};
  look_up_or(found.make, "_Znwm", plain_new);
  look_up_or(found.make_array, "_Znam", found.make);
  look_up_or(found.make_nothrow, "_ZnwmRKSt9nothrow_t", plain_new_nothrow);
  look_up_or(found.make_array_nothrow, "_ZnamRKSt9nothrow_t", found.make_nothrow);
  look_up_or(found.make_aligned, "_ZnwmSt11align_val_t", plain_new_aligned);
  look_up_or(found.make_array_aligned, "_ZnamSt11align_val_t", found.make_aligned);
  look_up_or(found.make_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t", plain_new_aligned_nothrow);
  look_up_or(found.make_array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t",
             found.make_aligned_nothrow);
  look_up_or(found.drop, "_ZdlPv", plain_delete);
  look_up_or(found.drop_array, "_ZdaPv", found.drop);
  look_up_or(found.drop_sized, "_ZdlPvm", plain_delete_sized);
  look_up_or(found.drop_array_sized, "_ZdaPvm", found.drop_sized);
  look_up_or(found.drop_aligned, "_ZdlPvSt11align_val_t", plain_delete_aligned);
  look_up_or(found.drop_array_aligned, "_ZdaPvSt11align_val_t", found.drop_aligned);
  look_up_or(found.drop_sized_aligned, "_ZdlPvmSt11align_val_t", plain_delete_sized_aligned);
  look_up_or(found.drop_array_sized_aligned, "_ZdaPvmSt11align_val_t", found.drop_sized_aligned);
  found.library = reinterpret_cast<std::uintptr_t>(found.make);
  found.are_there = found.make != plain_new;
  found.are_short = shorten(found);
  return found;
}

}  // namespace tarn::profiler::recorder
