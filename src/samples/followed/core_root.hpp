// SPDX-License-Identifier: MIT
// core_root: says where a process's call sites lie, to a reader of its core file (profiler/model/core_profile). The sites are private
// memory of the process, which is in a core file by default; so is the data of libtarn, or of the program that is linked with
// the archive. There the reader looks for the magic, and believes a root that has its own address.
//
// The process itself reads none of this. The engine has one; it never changes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "samples/followed/call_site.hpp"

namespace tarn {

inline constexpr std::array core_magic = std::to_array("tarn core root\1");

struct core_root {
  struct places {
    call_site* const* const* in_order;  // the variable that points to the table
    const std::size_t* count;
    const call_site* other;
  };

  // At an address that is a multiple of `unit`.
  static constexpr std::size_t unit = 16;

  alignas(unit) std::array<char, 16> magic;
  const core_root* self;
  std::uint32_t root_bytes;  // sizeof(core_root), and of call_site: another layout has other sizes
  std::uint32_t site_bytes;
  char version[16];                      // of tarn
  const std::atomic<std::size_t>* mean;  // bytes between two samples; 0: nothing is sampled
  places sites;
};
// The reader tells layouts apart by these. Who changes one and keeps its size changes the magic's last character.
static_assert(sizeof(core_root) == 80 && sizeof(call_site) == 304);

}  // namespace tarn
