// SPDX-License-Identifier: MIT
// The malloc family under libc's own names; in a linked or preloaded library they take precedence over libc's. Every
// function of the family must be here: one left to libc would return blocks that free() does not know.
// Those that take or give the blocks of another function are in override_by_name.cpp.
#include <malloc.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "engine/options.hpp"
#include "malloc/entry_points.hpp"
#include "observe/statistics.hpp"
#include "os/report.hpp"
#include "tarn/malloc.h"

using namespace tarn;

// Tells scopes that malloc is tarn's (fronts/scopes/scope_abi.cpp).
extern "C" {
[[gnu::visibility("hidden")]] extern const char tarn_malloc_is_replaced;
const char tarn_malloc_is_replaced = 1;
}

namespace {

// What is live and what is free, exact if no other thread allocates meanwhile.
struct heap_figures : tarn_stats {
  std::uint64_t free_objects;  // in caches, and in spans that are partly in use
  std::uint64_t live_small;    // bytes of live objects, without large blocks
  heap_figures() {
    statistics::collect(*this);
    const std::uint64_t small = in_use - large;
    free_objects = std::min(small, cached + statistics::free_in_spans());
    live_small = small - free_objects;
  }
};

// Brings override_by_name.cpp from an archive, too: libc's valloc would bring libc's malloc.
[[gnu::used]] void* (*const member_by_name)(size_t) = &pvalloc;

}  // namespace

// The parameters' names differ from those in libc's headers, which are reserved.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
extern "C" {

TARN_API void* malloc(size_t size) noexcept { return entry::malloc(size); }
TARN_API void free(void* block) noexcept { deallocate(block); }
// For who wants to know whether the name leads here.
[[gnu::alias("free"), gnu::visibility("hidden")]] void tarn_own_free(void* block) noexcept;
TARN_API void* calloc(size_t count, size_t size) noexcept { return entry::calloc(count, size); }
TARN_API void* realloc(void* block, size_t size) noexcept { return entry::realloc(block, size); }
TARN_API int posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  return entry::posix_memalign(out, alignment, size);
}
TARN_API void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return entry::aligned_alloc(alignment, size);
}
TARN_API void* memalign(size_t alignment, size_t size) noexcept {
  return entry::aligned_alloc(alignment, size);
}
TARN_API size_t malloc_usable_size(void* block) noexcept { return entry::usable_size(block); }

TARN_API int malloc_trim(size_t keep) noexcept { return entry::trim(keep) != 0 ? 1 : 0; }

// Large blocks take the place of glibc's mmapped blocks.
TARN_API struct mallinfo2 mallinfo2() noexcept {
  const heap_figures stats;
  struct mallinfo2 info {};
  info.arena = stats.reserved - stats.large;
  info.hblkhd = stats.large;
  info.uordblks = stats.live_small;
  info.fordblks = stats.free_objects + stats.free_dirty + stats.free_clean;
  info.keepcost = stats.free_dirty;
  return info;
}

TARN_API struct mallinfo mallinfo() noexcept {
  const struct mallinfo2 wide = mallinfo2();
  struct mallinfo info {};
  info.arena = static_cast<int>(wide.arena);
  info.hblkhd = static_cast<int>(wide.hblkhd);
  info.uordblks = static_cast<int>(wide.uordblks);
  info.fordblks = static_cast<int>(wide.fordblks);
  info.keepcost = static_cast<int>(wide.keepcost);
  return info;
}

TARN_API void malloc_stats() noexcept {
  text_buffer<2048> line;
  line.put("tarn: ");
  statistics::write_json(line, false);
  line.put('\n');
  os::write_line(line);
}

TARN_API int malloc_info(int flags, FILE* stream) noexcept {
  if (flags != 0) {
    errno = EINVAL;
    return -1;
  }
  const heap_figures stats;
  const int written =
      fprintf(stream,
              "<malloc version=\"tarn-1\">\n<system type=\"current\" size=\"%" PRIu64
              "\"/>\n"
              "<total type=\"in_use\" size=\"%" PRIu64 "\"/>\n<total type=\"live_objects\" size=\"%" PRIu64
              "\"/>\n<total type=\"cached\" size=\"%" PRIu64
              "\"/>\n"
              "<total type=\"large\" size=\"%" PRIu64 "\"/>\n<total type=\"free_dirty\" size=\"%" PRIu64
              "\"/>\n"
              "<total type=\"free_clean\" size=\"%" PRIu64 "\"/>\n</malloc>\n",
              stats.reserved, stats.in_use, stats.live_small, stats.cached, stats.large, stats.free_dirty,
              stats.free_clean);
  return written < 0 ? -1 : 0;
}

// glibc's parameters (M_…) have no counterpart here. Returns success, so that programs that set them continue.
TARN_API int mallopt(int /*parameter*/, int /*value*/) noexcept { return 1; }

}  // extern "C"
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
