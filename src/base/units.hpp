// SPDX-License-Identifier: MIT
// Units of memory, and arithmetic on addresses.
//
// A page is tarn's unit of memory, not the system's. Where the system's page is larger, spans still start at tarn's
// pages, and only purging rounds to the system's pages (pages/page_heap_purge.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/architecture.hpp"

namespace tarn {

// Tunable.
inline constexpr unsigned page_shift = 13;

// Derived, or given by the hardware.
inline constexpr std::size_t page_size = std::size_t{1} << page_shift;
inline constexpr std::size_t huge_page_size = std::size_t{2} << 20;
inline constexpr std::size_t pages_per_huge_page = huge_page_size / page_size;
inline constexpr std::size_t largest_system_page = arch::largest_system_page;
inline constexpr std::size_t cache_line = 64;
// Processors fetch cache lines in pairs, so data written by different threads is kept this far apart.
inline constexpr std::size_t separation = 128;
inline constexpr std::size_t kib = 1024;
inline constexpr std::size_t mib = 1024 * kib;
inline constexpr std::size_t gib = 1024 * mib;

constexpr bool is_power_of_two(std::size_t n) { return n != 0 && (n & (n - 1)) == 0; }
constexpr std::size_t align_down(std::size_t n, std::size_t alignment) { return n & ~(alignment - 1); }
// Overflows if n is within `alignment` of the largest value; callers bound n first.
constexpr std::size_t align_up(std::size_t n, std::size_t alignment) {
  return align_down(n + alignment - 1, alignment);
}
constexpr std::size_t pages_for(std::size_t bytes) { return align_up(bytes, page_size) >> page_shift; }

inline std::uintptr_t address_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

}  // namespace tarn
