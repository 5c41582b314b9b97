// SPDX-License-Identifier: MIT
// Line 1: one library owns all allocation functions, so that no block of one heap can reach the free of another. Each
// name must resolve to the library that provides malloc, and a block may be freed by any matching function, no matter
// which function of libc or libstdc++ allocated it.
#include <malloc.h>

#include <new>
#include <string>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr const char* c_names[] = {
    "malloc",         "free",
    "calloc",         "realloc",
    "reallocarray",   "cfree",
    "free_sized",     "free_aligned_sized",
    "posix_memalign", "aligned_alloc",
    "memalign",       "valloc",
    "pvalloc",        "malloc_usable_size",
    "malloc_trim",    "mallinfo",
    "mallinfo2",      "malloc_stats",
    "malloc_info",    "mallopt",
};

// All replaceable forms of operator new and delete (size_t is unsigned long on all platforms of tarn).
constexpr const char* operator_names[] = {
    "_Znwm",                                // new(size)
    "_ZnwmRKSt9nothrow_t",                  // new(size, nothrow)
    "_ZnwmSt11align_val_t",                 // new(size, align)
    "_ZnwmSt11align_val_tRKSt9nothrow_t",   // new(size, align, nothrow)
    "_Znam",                                // new[](size)
    "_ZnamRKSt9nothrow_t",                  // new[](size, nothrow)
    "_ZnamSt11align_val_t",                 // new[](size, align)
    "_ZnamSt11align_val_tRKSt9nothrow_t",   // new[](size, align, nothrow)
    "_ZdlPv",                               // delete(p)
    "_ZdlPvm",                              // delete(p, size)
    "_ZdlPvRKSt9nothrow_t",                 // delete(p, nothrow)
    "_ZdlPvSt11align_val_t",                // delete(p, align)
    "_ZdlPvmSt11align_val_t",               // delete(p, size, align)
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",  // delete(p, align, nothrow)
    "_ZdaPv",                               // delete[](p)
    "_ZdaPvm",                              // delete[](p, size)
    "_ZdaPvRKSt9nothrow_t",                 // delete[](p, nothrow)
    "_ZdaPvSt11align_val_t",                // delete[](p, align)
    "_ZdaPvmSt11align_val_t",               // delete[](p, size, align)
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",  // delete[](p, align, nothrow)
};

size_t check_owner(const char* name, const char* owner) {
  const char* provider = provider_of(name);
  TARN_CHECK(provider != nullptr, "%s is provided by no library", name);
  TARN_CHECK(same_file(provider, owner), "%s is provided by %s, malloc by %s", name, provider, owner);
  return 1;
}

// For a block of another heap, malloc_usable_size has no right answer and realloc or free crash.
void check_and_free(void* block, size_t size, const char* source) {
  TARN_CHECK(block != nullptr, "%s: no block", source);
  TARN_CHECK(malloc_usable_size(block) >= size, "%s: usable size %zu of a block of %zu", source,
             malloc_usable_size(block), size);
  memset(block, 0x5a, size);
  void* const moved = realloc(hide(block), size * 3);
  TARN_CHECK(moved != nullptr, "%s: its block cannot be reallocated", source);
  free(moved);
}

void check_c_blocks(size_t size) {
  check_and_free(malloc(size), size, "malloc");
  check_and_free(calloc(1, size), size, "calloc");
  check_and_free(reallocarray(nullptr, 1, size), size, "reallocarray");
  void* aligned = nullptr;
  TARN_CHECK(posix_memalign(&aligned, 64, size) == 0, "posix_memalign fails");
  check_and_free(aligned, size, "posix_memalign");
  check_and_free(aligned_alloc(64, (size + 63) / 64 * 64), size, "aligned_alloc");
  check_and_free(memalign(64, size), size, "memalign");
  check_and_free(valloc(size), size, "valloc");
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const whole_pages = pvalloc(size);
  TARN_CHECK(malloc_usable_size(whole_pages) >= (size + page - 1) / page * page, "pvalloc: not whole pages");
  check_and_free(whole_pages, size, "pvalloc");

  // Not every libc declares the C23 functions and cfree.
  const auto free_sized = reinterpret_cast<void (*)(void*, size_t)>(dlsym(RTLD_DEFAULT, "free_sized"));
  const auto free_aligned_sized =
      reinterpret_cast<void (*)(void*, size_t, size_t)>(dlsym(RTLD_DEFAULT, "free_aligned_sized"));
  const auto cfree = reinterpret_cast<void (*)(void*)>(dlsym(RTLD_DEFAULT, "cfree"));
  free_sized(malloc(size), size);
  free_sized(nullptr, 0);
  free_aligned_sized(aligned_alloc(64, size), 64, size);
  free_aligned_sized(nullptr, 64, 0);
  cfree(malloc(size));
  cfree(nullptr);
}

void check_operators(size_t size) {
  constexpr auto wide = static_cast<std::align_val_t>(64);
  check_and_free(::operator new(size), size, "operator new");
  check_and_free(::operator new[](size), size, "operator new[]");
  check_and_free(::operator new(size, std::nothrow), size, "operator new, nothrow");
  check_and_free(::operator new[](size, std::nothrow), size, "operator new[], nothrow");
  check_and_free(::operator new(size, wide), size, "operator new, aligned");
  check_and_free(::operator new[](size, wide), size, "operator new[], aligned");
  check_and_free(::operator new(size, wide, std::nothrow), size, "operator new, aligned, nothrow");
  check_and_free(::operator new[](size, wide, std::nothrow), size, "operator new[], aligned, nothrow");
  ::operator delete(hide(malloc(size)));
  ::operator delete[](hide(malloc(size)));
  ::operator delete(hide(malloc(size)), size);
  ::operator delete[](hide(malloc(size)), size);
  ::operator delete(hide(malloc(size)), std::nothrow);
  ::operator delete[](hide(malloc(size)), std::nothrow);
  ::operator delete(hide(memalign(64, size)), wide);
  ::operator delete[](hide(memalign(64, size)), wide);
  ::operator delete(hide(memalign(64, size)), size, wide);
  ::operator delete[](hide(memalign(64, size)), size, wide);
  ::operator delete(hide(memalign(64, size)), wide, std::nothrow);
  ::operator delete[](hide(memalign(64, size)), wide, std::nothrow);
}

// Frees each block without writing to it, so the next one may reuse its memory with what the free has left there: no
// content may make the library take the block for a freed one.
void check_unwritten_blocks(size_t size) {
  constexpr auto wide = static_cast<std::align_val_t>(64);
  for (int i = 0; i < 3; ++i) {
    free(hide(malloc(size)));
    free(hide(memalign(64, size)));
    ::operator delete(hide(::operator new(size)));
    ::operator delete[](hide(::operator new[](size)));
    ::operator delete(hide(::operator new(size, std::nothrow)), std::nothrow);
    ::operator delete[](hide(::operator new[](size, std::nothrow)), std::nothrow);
    ::operator delete(hide(::operator new(size, wide)), wide);
    ::operator delete[](hide(::operator new[](size, wide)), wide);
    ::operator delete(hide(::operator new(size, wide, std::nothrow)), wide, std::nothrow);
    ::operator delete[](hide(::operator new[](size, wide, std::nothrow)), wide, std::nothrow);
  }
}

// Blocks that libc and libstdc++ allocate for the program to free.
void check_library_blocks() {
  check_and_free(strdup("a string that libc copies"), 20, "strdup");
  char* line = nullptr;
  size_t capacity = 0;
  char text[] = "one line\n";
  FILE* const stream = fmemopen(text, sizeof text - 1, "r");
  TARN_CHECK(stream != nullptr && getline(&line, &capacity, stream) > 0, "getline fails");
  fclose(stream);
  check_and_free(line, capacity, "getline");
  char* printed = nullptr;
  TARN_CHECK(asprintf(&printed, "%01000d", 7) == 1000, "asprintf fails");
  check_and_free(printed, 1001, "asprintf");
  check_and_free(realpath("/proc/self", nullptr), 5, "realpath");
  std::string* const text_object = new std::string(1000, 'x');
  text_object->append(5000, 'y');
  delete text_object;
}

}  // namespace

int main() {
  start();
  const char* owner = provider_of("malloc");
  TARN_CHECK(owner != nullptr, "malloc is provided by no library");
  size_t names = 0;
  for (const char* name : c_names) names += check_owner(name, owner);
  for (const char* name : operator_names) names += check_owner(name, owner);
  for (const size_t size : {size_t{1}, size_t{24}, size_t{1000}, 40 * kib, 3 * mib}) {
    check_c_blocks(size);
    check_operators(size);
    check_unwritten_blocks(size);
  }
  check_library_blocks();
  measured("%zu names, all from %s", names, owner);
  return holds;
}
