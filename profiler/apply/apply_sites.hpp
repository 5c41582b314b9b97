// SPDX-License-Identifier: MIT
// apply_sites: which calls of malloc are those of a plan's sites. Read once, when the library is loaded; looked up by the
// return address of each call, which one load and one test exclude in most cases.
//
// Where a site is told by more than its innermost frame, the caller's return address is looked for at the distance on
// the stack at which the unwinder has found it before; only while that is not known, or varies, the stack is unwound.
// Thread safety: find() by any thread; load() once, before there are others.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "profiler/apply/apply_format.hpp"

namespace tarn::profiler {

struct apply_group {
  bool used = false;
  bool buffers = false;
  std::size_t size = 0;  // pool: of a slot
};

class apply_sites {
 public:
  static constexpr int none = -1;

  // Reads the plan and finds its modules among those loaded. False where there is no plan that can be read.
  bool load(const char* path);

  // The group of the call that returns to `address`; `slot` is where that address lies on the stack.
  int find(std::uintptr_t address, const std::uintptr_t* slot) noexcept {
    const std::size_t bit = hash(address);
    if ((filter_[bit / 64] & (std::uint64_t{1} << (bit % 64))) == 0) [[likely]]
      return none;
    return find_path(address, slot);
  }

  const apply_group& group(std::size_t number) const noexcept { return groups_[number]; }
  std::size_t sites() const noexcept { return sites_; }
  std::size_t found() const noexcept { return found_; }

 private:
  static constexpr std::size_t filter_bits = 8192;

  // Distances to the next return address on the stack, by frame; what the unwinder found again and again is trusted.
  struct path {
    std::uintptr_t addresses[most_apply_frames] = {};
    std::atomic<std::int32_t> distances[most_apply_frames] = {};  // in bytes; 0: not known
    std::atomic<std::uint8_t> agreed[most_apply_frames] = {};     // how often; varies: never trusted again
    std::uint16_t next = 0;                                       // of the same innermost address, + 1
    std::uint8_t depth = 0;
    std::uint8_t group = 0;
  };
  static constexpr std::uint8_t trusted = 8;
  static constexpr std::uint8_t varies = 255;

  static std::size_t hash(std::uintptr_t address) noexcept {
    return static_cast<std::size_t>((address * 0x9e3779b97f4a7c15U) >> (64 - 13));
  }
  int find_path(std::uintptr_t address, const std::uintptr_t* slot) noexcept;
  bool matches(path& candidate, const std::uintptr_t* slot) noexcept;
  bool unwind(path& candidate, const std::uintptr_t* slot) noexcept;
  bool read_line(const char* begin, const char* end);

  std::uint64_t filter_[filter_bits / 64] = {};
  std::uint16_t first_[filter_bits] = {};  // path + 1, by the hash of its innermost address
  path paths_[most_apply_sites] = {};
  apply_group groups_[most_apply_groups] = {};
  std::size_t sites_ = 0;  // in the plan
  std::size_t found_ = 0;  // of them, those whose modules are loaded
};

}  // namespace tarn::profiler
