// SPDX-License-Identifier: MIT
// Hooks of the malloc family: a plan's sites are served from pools, everything else by libtarn. Preloaded before
// libtarn.so. Until the plan is read, or without one, everything is served by libtarn. tarn's own names that take a block
// are hooked, too: its heap is the same.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "profiler/apply/apply_format.hpp"
#include "profiler/apply/apply_pools.hpp"
#include "profiler/apply/apply_sites.hpp"
#include "profiler/record/origin.hpp"
#include "tarn/malloc.h"

using namespace tarn::profiler;

namespace {

constinit apply_sites sites;
constinit bool ready = false;  // set once, before the program's first thread

// Text for the report, cut where it would not fit.
class line {
 public:
  line& put(const char* text) {
    while (*text != 0 && length_ < sizeof text_) text_[length_++] = *text++;
    return *this;
  }
  line& put(unsigned long value) {
    char digits[24];
    std::size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    while (count > 0 && length_ < sizeof text_) text_[length_++] = digits[--count];
    return *this;
  }
  void write_to(int file) const {
    const ssize_t written = write(file, text_, length_);
    (void)written;  // if the report cannot be written, tarn prove notices that it is missing
  }

 private:
  char text_[2048];
  std::size_t length_ = 0;
};

[[gnu::constructor]] void begin() {
  const char* const path = getenv(apply_variable);
  if (path == nullptr || *path == 0) return;
  if (!sites.load(path)) {
    line().put("tarn: libtarn_apply.so cannot read the plan ").put(path).put("\n").write_to(STDERR_FILENO);
  }
  apply_pools::open(sites);
  ready = true;
}

[[gnu::destructor]] void end() {
  const char* const path = getenv(apply_report_variable);
  if (!ready || path == nullptr || *path == 0) return;
  line text;
  text.put("sites ").put(sites.found()).put(" ").put(sites.sites()).put("\n");
  for (std::size_t number = 0; number < most_apply_groups; ++number) {
    if (!sites.group(number).used) continue;
    text.put("group ").put(number).put(" ").put(apply_pools::taken(number)).put("\n");
  }
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;
  text.write_to(file);
  close(file);
}

// libtarn's functions of names that are defined here.
struct behind {
  void (*free)(void*) = nullptr;
  void* (*realloc)(void*, std::size_t) = nullptr;
  std::size_t (*usable_size)(const void*) = nullptr;
};
constinit behind known;
constinit bool looking = false;

template <class Function>
void look_up(Function& into, const char* name) {
  into = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
  if (into == nullptr) abort();
}

// At load, before there are threads: dlsym takes the dynamic linker's lock. Another library's constructor may come first.
[[gnu::constructor(101)]] void look_behind() {
  if (known.usable_size != nullptr) return;
  looking = true;
  look_up(known.free, "tarn_free");
  look_up(known.realloc, "tarn_realloc");
  look_up(known.usable_size, "tarn_usable_size");
  looking = false;
}

const behind& libtarn() {
  if (known.usable_size == nullptr) [[unlikely]]
    look_behind();
  return known;
}

// A block from a pool, if the call comes from a site of the plan; otherwise null.
[[gnu::always_inline]] inline void* from_pool(std::size_t size) {
  if (!ready) return nullptr;
  const int group = sites.find(recorder::caller());
  if (group == apply_sites::none) [[likely]]
    return nullptr;
  return apply_pools::take(static_cast<std::size_t>(group), size);
}

void release(void* block) {
  if (block == nullptr || (ready && apply_pools::give(block))) return;
  // dlsym frees the text of an earlier error while tarn's functions are looked up. These few bytes stay.
  if (!looking) libtarn().free(block);
}

std::size_t usable_size(const void* block) {
  const std::size_t capacity = block != nullptr && ready ? apply_pools::capacity_of(block) : 0;
  return capacity != 0 ? capacity : libtarn().usable_size(block);
}

// A pool's block cannot grow; it is moved to a block of malloc.
void* resize(void* block, std::size_t size) {
  const std::size_t capacity = block != nullptr && ready ? apply_pools::capacity_of(block) : 0;
  if (capacity == 0) return libtarn().realloc(block, size);
  if (size == 0) {
    release(block);
    return nullptr;
  }
  if (size <= capacity) return block;
  void* const next = tarn_malloc(size);
  if (next == nullptr) return nullptr;
  std::memcpy(next, block, capacity);
  release(block);
  return next;
}

void* resize(void* block, std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (!__builtin_mul_overflow(count, size, &bytes)) return resize(block, bytes);
  errno = ENOMEM;
  return nullptr;
}

// Out of memory: libtarn's own operator new handles that (new handler, bad_alloc).
template <class Function, class... Args>
void* new_by_libtarn(const char* name, Args... args) {
  Function function = nullptr;
  look_up(function, name);
  return function(args...);
}

}  // namespace

#define TARN_HOOK extern "C" __attribute__((visibility("default"), noinline))

// libc's headers name the parameters with reserved names.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
TARN_HOOK void* malloc(size_t size) noexcept {
  void* const block = from_pool(size);
  return block != nullptr ? block : tarn_malloc(size);
}
TARN_HOOK void* calloc(size_t count, size_t size) noexcept {
  size_t bytes = 0;
  void* const block = __builtin_mul_overflow(count, size, &bytes) ? nullptr : from_pool(bytes);
  return block != nullptr ? std::memset(block, 0, bytes) : tarn_calloc(count, size);
}
TARN_HOOK void* realloc(void* block, size_t size) noexcept {
  if (block == nullptr) {
    void* const fresh = from_pool(size);
    return fresh != nullptr ? fresh : tarn_malloc(size);
  }
  return resize(block, size);
}
TARN_HOOK void* reallocarray(void* block, size_t count, size_t size) noexcept {
  return resize(block, count, size);
}
TARN_HOOK void free(void* block) noexcept { release(block); }
TARN_HOOK void cfree(void* block) noexcept { release(block); }
TARN_HOOK void free_sized(void* block, size_t) noexcept { release(block); }
TARN_HOOK void free_aligned_sized(void* block, size_t, size_t) noexcept { release(block); }
TARN_HOOK int posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  return tarn_posix_memalign(out, alignment, size);
}
TARN_HOOK void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return tarn_aligned_alloc(alignment, size);
}
TARN_HOOK void* memalign(size_t alignment, size_t size) noexcept { return tarn_memalign(alignment, size); }
TARN_HOOK void* valloc(size_t size) noexcept { return tarn_valloc(size); }
TARN_HOOK void* pvalloc(size_t size) noexcept { return tarn_pvalloc(size); }
TARN_HOOK size_t malloc_usable_size(void* block) noexcept { return usable_size(block); }

TARN_HOOK void tarn_free(void* block) noexcept { release(block); }
TARN_HOOK void tarn_free_sized(void* block, size_t) noexcept { release(block); }
TARN_HOOK void tarn_free_aligned_sized(void* block, size_t, size_t) noexcept { release(block); }
TARN_HOOK void* tarn_realloc(void* block, size_t size) noexcept { return resize(block, size); }
TARN_HOOK void* tarn_reallocarray(void* block, size_t count, size_t size) noexcept {
  return resize(block, count, size);
}
TARN_HOOK size_t tarn_usable_size(const void* block) noexcept { return usable_size(block); }
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

#define TARN_NEW __attribute__((visibility("default"), noinline))

TARN_NEW void* operator new(std::size_t size) {
  void* block = from_pool(size);
  if (block == nullptr) block = tarn_malloc(size);
  return block != nullptr ? block : new_by_libtarn<void* (*)(std::size_t)>("_Znwm", size);
}
TARN_NEW void* operator new[](std::size_t size) {
  void* block = from_pool(size);
  if (block == nullptr) block = tarn_malloc(size);
  return block != nullptr ? block : new_by_libtarn<void* (*)(std::size_t)>("_Znam", size);
}
TARN_NEW void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  void* const block = from_pool(size);
  return block != nullptr ? block : tarn_malloc(size);
}
TARN_NEW void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  void* const block = from_pool(size);
  return block != nullptr ? block : tarn_malloc(size);
}
using aligned_new = void* (*)(std::size_t, std::align_val_t);
TARN_NEW void* operator new(std::size_t size, std::align_val_t a) {
  void* const block = tarn_memalign(static_cast<std::size_t>(a), size);
  return block != nullptr ? block : new_by_libtarn<aligned_new>("_ZnwmSt11align_val_t", size, a);
}
TARN_NEW void* operator new[](std::size_t size, std::align_val_t a) {
  void* const block = tarn_memalign(static_cast<std::size_t>(a), size);
  return block != nullptr ? block : new_by_libtarn<aligned_new>("_ZnamSt11align_val_t", size, a);
}
TARN_NEW void* operator new(std::size_t size, std::align_val_t a, const std::nothrow_t&) noexcept {
  return tarn_memalign(static_cast<std::size_t>(a), size);
}
TARN_NEW void* operator new[](std::size_t size, std::align_val_t a, const std::nothrow_t&) noexcept {
  return tarn_memalign(static_cast<std::size_t>(a), size);
}

TARN_NEW void operator delete(void* p) noexcept { release(p); }
TARN_NEW void operator delete[](void* p) noexcept { release(p); }
TARN_NEW void operator delete(void* p, std::size_t) noexcept { release(p); }
TARN_NEW void operator delete[](void* p, std::size_t) noexcept { release(p); }
TARN_NEW void operator delete(void* p, const std::nothrow_t&) noexcept { release(p); }
TARN_NEW void operator delete[](void* p, const std::nothrow_t&) noexcept { release(p); }
TARN_NEW void operator delete(void* p, std::align_val_t) noexcept { release(p); }
TARN_NEW void operator delete[](void* p, std::align_val_t) noexcept { release(p); }
TARN_NEW void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }
TARN_NEW void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { release(p); }
TARN_NEW void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { release(p); }
TARN_NEW void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { release(p); }
