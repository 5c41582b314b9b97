// SPDX-License-Identifier: MIT
// The functions of the malloc family under libc's names that take or give the blocks of another one of the family. A program
// with a malloc of its own, or a library before this one, may define that one and not these. So they call it by its name
// (cmake/replaceable.list), as libc's reallocarray does. In a file of their own, where the compiler does not see a definition.
#include <malloc.h>

#include <cstdlib>

#include "malloc/entry_points.hpp"
#include "os/memory.hpp"
#include "tarn/malloc.h"

using namespace tarn;

extern "C" [[gnu::visibility("hidden")]] void tarn_own_free(void* block) noexcept;  // override.cpp

// The hardened build checks the sizes of blocks that tarn's own free gets: another one may have a header before each.
static void check_size(const void* block, std::size_t alignment, std::size_t size) {
  if constexpr (hardened_build) {
    void (*by_name)(void*) = &::free;
    __asm__("" : "+r"(by_name));  // a compiler takes two names for two functions
    if (by_name == &tarn_own_free) entry::check_size(block, alignment, size);
  }
}

// The parameters' names differ from those in libc's headers, which are reserved.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
extern "C" {

TARN_API void cfree(void* block) noexcept { ::free(block); }
TARN_API void free_sized(void* block, size_t size) noexcept {
  check_size(block, 1, size);
  ::free(block);
}
TARN_API void free_aligned_sized(void* block, size_t alignment, size_t size) noexcept {
  check_size(block, alignment, size);
  ::free(block);
}
TARN_API void* reallocarray(void* block, size_t count, size_t size) noexcept {
  size_t bytes = 0;
  return product_overflows(count, size, bytes) ? out_of_memory() : ::realloc(block, bytes);
}
TARN_API void* valloc(size_t size) noexcept { return ::memalign(os::system_page_size(), size); }
TARN_API void* pvalloc(size_t size) noexcept {
  const size_t bytes = entry::whole_pages(size);
  return bytes == 0 ? out_of_memory() : ::memalign(os::system_page_size(), bytes);
}

}  // extern "C"
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
