// SPDX-License-Identifier: MIT
// Line 53: in a program with a malloc of its own (malloc, free, calloc, realloc, memalign), the functions of the family that
// it does not define take and give blocks of that malloc, as in a program with a static jemalloc.
#include <malloc.h>

#include "inject.hpp"

using namespace guarantee;

namespace {

// Blocks one behind the other, never used again. The size is kept before each.
alignas(4096) char store[16 * mib];
size_t end = 0;
size_t freed = 0;

template <class Function>
Function* named(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

bool is_own(const void* block) { return block >= store && block < store + sizeof store; }

size_t& size_of(void* block) { return static_cast<size_t*>(block)[-2]; }

void* make(size_t alignment, size_t size) {
  const size_t start = (end + 16 + alignment - 1) / alignment * alignment;
  if (start + size > sizeof store) return nullptr;
  end = (start + size + 15) / 16 * 16;
  size_of(store + start) = size;
  return store + start;
}

}  // namespace

extern "C" {
void* malloc(size_t size) noexcept { return make(16, size); }
void* calloc(size_t count, size_t size) noexcept { return make(16, count * size); }
void* memalign(size_t alignment, size_t size) noexcept { return make(alignment < 16 ? 16 : alignment, size); }
void free(void* block) noexcept {
  TARN_CHECK(block == nullptr || is_own(block), "a block of another heap reached the program's free");
  ++freed;
}
void* realloc(void* block, size_t size) noexcept {
  TARN_CHECK(block == nullptr || is_own(block), "a block of another heap reached the program's realloc");
  void* const fresh = make(16, size);
  if (block != nullptr && fresh != nullptr)
    memcpy(fresh, block, size_of(block) < size ? size_of(block) : size);
  return fresh;
}
}

int main() {
  void* (*volatile resize)(void*, size_t, size_t) = reallocarray;
  void* (*volatile page)(size_t) = valloc;
  void* (*volatile pages)(size_t) = pvalloc;
  char* const text = static_cast<char*>(resize(nullptr, 10, 10));
  strcpy(text, "kept");
  char* const grown = static_cast<char*>(resize(text, 100, 10));
  TARN_CHECK(is_own(grown) && strcmp(grown, "kept") == 0, "reallocarray lost the content");
  TARN_CHECK(resize(grown, SIZE_MAX / 2, 3) == nullptr && errno == ENOMEM, "reallocarray of too much");
  free(grown);
  // glibc's give blocks of its own heap here.
  if (provider_of("tarn_version") != nullptr) {
    for (void* const block : {page(100), pages(100)}) {
      TARN_CHECK(is_own(block) && aligned_to(block, 4096), "valloc or pvalloc gave a block of another heap");
      free(block);
    }
    const size_t before = freed;
    named<void(void*)>("cfree")(malloc(10));
    named<void(void*, size_t)>("free_sized")(malloc(10), 10);
    named<void(void*, size_t, size_t)>("free_aligned_sized")(memalign(64, 64), 64, 64);
    TARN_CHECK(freed == before + 3, "%zu of 3 blocks reached the program's free", freed - before);
  }
  char* const copy = strdup("x");
  free(copy);
  measured(
      "reallocarray, valloc, pvalloc, cfree, free_sized and free_aligned_sized meet the program's malloc");
  return holds;
}
