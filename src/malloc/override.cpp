// SPDX-License-Identifier: MIT
// The malloc family under libc's own names; in a linked or preloaded library they take precedence over libc's. Every
// function of the family must be here: one left to libc would return blocks that free() does not know.
#include <malloc.h>

#include <cinttypes>
#include <cstdio>

#include "malloc/entry_points.hpp"
#include "os/report.hpp"
#include "runtime/options.hpp"
#include "runtime/statistics.hpp"
#include "tarn/malloc.h"

using namespace tarn;

// The parameters' names differ from those in libc's headers, which are reserved.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
extern "C" {

TARN_API void* malloc(size_t size) noexcept { return entry::malloc(size); }
TARN_API void free(void* block) noexcept { deallocate(block); }
TARN_API void cfree(void* block) noexcept { deallocate(block); }
TARN_API void free_sized(void* block, size_t /*size*/) noexcept { deallocate(block); }
TARN_API void free_aligned_sized(void* block, size_t /*alignment*/, size_t /*size*/) noexcept {
  deallocate(block);
}
TARN_API void* calloc(size_t count, size_t size) noexcept { return entry::calloc(count, size); }
TARN_API void* realloc(void* block, size_t size) noexcept { return entry::realloc(block, size); }
TARN_API void* reallocarray(void* block, size_t count, size_t size) noexcept {
  return entry::reallocarray(block, count, size);
}
TARN_API int posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  return entry::posix_memalign(out, alignment, size);
}
TARN_API void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return entry::aligned_alloc(alignment, size);
}
TARN_API void* memalign(size_t alignment, size_t size) noexcept {
  return entry::aligned_alloc(alignment, size);
}
TARN_API void* valloc(size_t size) noexcept { return entry::valloc(size); }
TARN_API void* pvalloc(size_t size) noexcept { return entry::pvalloc(size); }
TARN_API size_t malloc_usable_size(void* block) noexcept { return entry::usable_size(block); }

TARN_API int malloc_trim(size_t keep) noexcept { return entry::trim(keep) != 0 ? 1 : 0; }

// Large blocks take the place of glibc's mmapped blocks. uordblks includes free objects in spans that are in use.
TARN_API struct mallinfo2 mallinfo2() noexcept {
  tarn_stats stats;
  statistics::collect(stats);
  struct mallinfo2 info {};
  info.arena = stats.reserved - stats.large;
  info.hblkhd = stats.large;
  info.uordblks = stats.in_use - stats.large - stats.cached;
  info.fordblks = stats.cached + stats.free_dirty + stats.free_clean;
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
  tarn_stats stats;
  statistics::collect(stats);
  const int written =
      fprintf(stream,
              "<malloc version=\"tarn-1\">\n<system type=\"current\" size=\"%" PRIu64
              "\"/>\n"
              "<total type=\"in_use\" size=\"%" PRIu64 "\"/>\n<total type=\"cached\" size=\"%" PRIu64
              "\"/>\n"
              "<total type=\"large\" size=\"%" PRIu64 "\"/>\n<total type=\"free_dirty\" size=\"%" PRIu64
              "\"/>\n"
              "<total type=\"free_clean\" size=\"%" PRIu64 "\"/>\n</malloc>\n",
              stats.reserved, stats.in_use, stats.cached, stats.large, stats.free_dirty, stats.free_clean);
  return written < 0 ? -1 : 0;
}

// glibc's parameters (M_…) have no counterpart here. Returns success, so that programs that set them continue.
TARN_API int mallopt(int parameter, int /*value*/) noexcept {
  static std::atomic<bool> told{false};
  if (!told.exchange(true, std::memory_order_relaxed)) {
    text_buffer<160> line;
    line.put("tarn: mallopt(")
        .signed_number(parameter)
        .put(", …) has no effect; tarn's options are in TARN_…\n");
    os::write_line(line);
  }
  return 1;
}

}  // extern "C"
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
