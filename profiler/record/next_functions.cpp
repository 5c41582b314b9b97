// SPDX-License-Identifier: MIT
#include "profiler/record/next_functions.hpp"

#include "profiler/record/symbol_search.hpp"

namespace tarn::profiler::recorder {

namespace {

template <class function>
void look_up_next(function& into, const char* name) {
  into = reinterpret_cast<function>(find_next(name));
}

}  // namespace

void look_up_malloc(real_functions& into) {
  look_up_next(into.malloc, "malloc");
  look_up_next(into.calloc, "calloc");
  look_up_next(into.realloc, "realloc");
  look_up_next(into.reallocarray, "reallocarray");
  look_up_next(into.free, "free");
  look_up_next(into.free_sized, "free_sized");
  look_up_next(into.free_aligned_sized, "free_aligned_sized");
  look_up_next(into.posix_memalign, "posix_memalign");
  look_up_next(into.aligned_alloc, "aligned_alloc");
  look_up_next(into.memalign, "memalign");
  look_up_next(into.valloc, "valloc");
  look_up_next(into.pvalloc, "pvalloc");
  look_up_next(into.malloc_usable_size, "malloc_usable_size");
}

}  // namespace tarn::profiler::recorder
