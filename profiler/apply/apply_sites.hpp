// SPDX-License-Identifier: MIT
// apply_sites: finds the calls of malloc that belong to a plan's sites. The plan is read once, when the library is
// loaded; calls are looked up by their return address, which a filter of one load and one test excludes in most
// cases.
//
// For a site identified by more than its innermost frame, the caller's return address is expected at the stack
// distance where a stack walk has found it before. The stack is walked only while that distance is not known, or
// if it varies. Both read only what is known to be readable: the same code may run on a smaller frame later, near the end
// of a stack. Thread safety: find() by any thread; load() once, before there are other threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "profiler/apply/apply_format.hpp"
#include "unwind/frame_step.hpp"

namespace tarn::profiler {

struct apply_group {
  bool used = false;
  bool buffers = false;
  std::size_t size = 0;  // pool: bytes of a slot
};

class apply_sites {
 public:
  static constexpr int none = -1;

  // Reads the plan and finds its modules among the loaded ones. False: the plan cannot be read.
  bool load(const char* path_of_plan);

  // The group of the call that comes from there.
  int find(const unwind::frame_origin& origin) noexcept {
    const std::size_t bit = hash(origin.return_address);
    if ((filter_[bit / 64] & (std::uint64_t{1} << (bit % 64))) == 0) [[likely]]
      return none;
    return find_path(origin);
  }

  const apply_group& group(std::size_t number) const noexcept { return groups_[number]; }
  std::size_t sites() const noexcept { return sites_; }
  std::size_t found() const noexcept { return found_; }

 private:
  static constexpr std::size_t filter_bits = 8192;

  // Distances to the next return address on the stack, by frame; used once walks have found the same distance
  // repeatedly.
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
  int find_path(const unwind::frame_origin& origin) noexcept;
  static bool matches(path& candidate, const unwind::frame_origin& origin) noexcept;
  static bool walk(path& candidate, const unwind::frame_origin& origin, unwind::stack_memory& stack) noexcept;
  static void note_distance(path& candidate, std::size_t frame, std::int32_t distance) noexcept;
  bool read_line(const char* begin, const char* end);

  std::uint64_t filter_[filter_bits / 64] = {};
  std::uint16_t first_[filter_bits] = {};  // path + 1, by the hash of its innermost address
  path paths_[most_apply_sites] = {};
  apply_group groups_[most_apply_groups] = {};
  std::size_t sites_ = 0;  // in the plan
  std::size_t found_ = 0;  // of them, those whose modules are loaded
};

}  // namespace tarn::profiler
