// SPDX-License-Identifier: MIT
// script_address: the number that represents a line of a script in a call path, in the place of a native frame's
// return address. It is a hash of the line's place, so each process gives a line the same number. No code has such
// an address (neither x86-64 nor aarch64 lets a program use it). Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/fnv.hpp"

namespace tarn::profiler {

inline constexpr unsigned script_tag_shift = 56;
inline constexpr std::uint64_t script_tag = 0xfe;

constexpr bool is_script_address(std::uint64_t address) { return address >> script_tag_shift == script_tag; }

constexpr std::uint64_t script_address(std::string_view function, std::string_view file, std::uint32_t line) {
  std::uint64_t hash = fnv().add(function).add(std::uint64_t{0x100}).add(file).add(std::uint64_t{line}).sum;
  hash ^= hash >> 29;
  hash *= 0x9e3779b97f4a7c15U;
  return hash >> 8 | script_tag << script_tag_shift;
}

}  // namespace tarn::profiler
