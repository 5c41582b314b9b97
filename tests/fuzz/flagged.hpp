// SPDX-License-Identifier: MIT
// flagged_blocks: jemalloc's functions with all flags: alignment, zeroes, past the cache, in an arena of the program.
//
// Thread safety: none; any thread may call, one at a time.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "arenas.hpp"
#include "model.hpp"
#include "tarn/compat/jemalloc/jemalloc.h"
#include "tarn/malloc.h"

namespace tarn::fuzz {

class flagged_blocks {
 public:
  explicit flagged_blocks(range_map& ranges) : blocks_(ranges) {}

  void take(input& in, std::uint64_t number) {
    const std::size_t size = some_size(in);
    const int flags = some_flags(in);
    if (blocks_.size() == most_blocks) return;
    void* const block = mallocx(size, flags);
    require(block != nullptr, "mallocx fails");
    const std::size_t usable = sallocx(block, 0);
    require(usable >= size, "sallocx is less than what was asked for", block);
    if ((flags & MALLOCX_ZERO) != 0) require_zero(block, 0, usable);
    blocks_.add(block, size, promised(size, flags), number);
  }
  void resize(input& in) {
    if (blocks_.empty()) return;
    held one = blocks_.take(in.below(static_cast<std::uint32_t>(blocks_.size())));
    const std::size_t size = in.byte() % 2 == 0 ? some_size(in) : std::max<std::size_t>(one.size / 9, 1);
    const int flags = some_flags(in);
    const std::size_t before = sallocx(one.bytes, 0);
    void* const moved = rallocx(one.bytes, size, flags);
    require(moved != nullptr, "rallocx fails", one.bytes);
    one.bytes = static_cast<unsigned char*>(moved);
    one.check(std::min(one.size, size));
    const std::size_t usable = sallocx(moved, 0);
    require(usable >= size, "sallocx is less than what was asked for", moved);
    if ((flags & MALLOCX_ZERO) != 0) require_zero(moved, before, usable);
    blocks_.add(moved, size, promised(size, flags), one.number);
  }
  void stretch(input& in) {
    if (blocks_.empty()) return;
    held one = blocks_.take(in.below(static_cast<std::uint32_t>(blocks_.size())));
    const std::size_t size = some_size(in);
    const int zero = in.byte() % 2 == 0 ? MALLOCX_ZERO : 0;
    const std::size_t before = sallocx(one.bytes, 0);
    const std::size_t now = xallocx(one.bytes, size, in.below(65536), zero);
    require(now == sallocx(one.bytes, 0), "xallocx returns another size than sallocx", one.bytes);
    one.check(std::min(one.size, now));
    if (zero != 0) require_zero(one.bytes, before, now);
    blocks_.add(one.bytes, std::min(one.size, now), one.alignment, one.number);
  }
  void give(input& in) {
    if (blocks_.empty()) return;
    const held one = blocks_.take(in.below(static_cast<std::uint32_t>(blocks_.size())));
    const int flags = in.byte() % 3 == 0 ? MALLOCX_TCACHE_NONE : 0;
    in.byte() % 2 == 0 ? dallocx(one.bytes, flags) : sdallocx(one.bytes, one.size, flags);
  }
  // A block that is much larger than what is free: its zeroes are the system's, and none is written.
  static void take_zeroes(input& in) {
    constexpr std::size_t bytes = std::size_t{48} << 20;
    const int flags = some_flags(in) | MALLOCX_ZERO;
    tarn_trim(0);
    void* const block = mallocx(bytes, flags);
    require(block != nullptr, "mallocx fails");
    require(resident_bytes(block, bytes) < bytes / 2, "zeroes were written to fresh memory", block);
    dallocx(block, 0);
  }
  [[nodiscard]] bool empty() const { return blocks_.empty(); }
  void check() const { blocks_.check(); }

 private:
  static constexpr std::size_t most_blocks = 200;

  static std::size_t some_size(input& in) {
    const std::size_t size = in.bytes();
    return std::max<std::size_t>(in.byte() % 2 == 0 ? size % 1000000 : size % 24, 1);
  }
  static int some_flags(input& in) {
    const unsigned alignment = in.byte() % 32;
    int flags = MALLOCX_LG_ALIGN(alignment < 17 ? alignment : alignment < 24 ? 4 : 0);
    if (in.byte() % 2 == 0) flags |= MALLOCX_ZERO;
    if (in.byte() % 4 == 0) flags |= MALLOCX_TCACHE_NONE;
    if (in.byte() % 4 == 0) flags |= MALLOCX_ARENA(own_arena());
    return flags;
  }
  static std::size_t promised(std::size_t size, int flags) {
    return std::max(std::size_t{1} << (flags & 63), size >= 16 ? std::size_t{16} : std::size_t{8});
  }
  static unsigned own_arena() {
    static const unsigned index = [] {
      unsigned made = 0;
      std::size_t length = sizeof made;
      require(mallctl("arenas.create", &made, &length, nullptr, 0) == 0, "arenas.create");
      return made;
    }();
    return index;
  }
  static void require_zero(const void* block, std::size_t from, std::size_t to) {
    const auto* const bytes = static_cast<const unsigned char*>(block);
    for (std::size_t i = from; i < to; ++i) require(bytes[i] == 0, "a byte that is not zero", bytes + i);
  }
  static std::size_t resident_bytes(void* block, std::size_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> pages(bytes / page);
    const auto first = reinterpret_cast<std::uintptr_t>(block) / page * page;
    require(mincore(reinterpret_cast<void*>(first), bytes, pages.data()) == 0, "mincore");
    return page * static_cast<std::size_t>(std::count_if(pages.begin(), pages.end(),
                                                         [](unsigned char p) { return (p & 1) != 0; }));
  }

  live_set blocks_;
};

}  // namespace tarn::fuzz
