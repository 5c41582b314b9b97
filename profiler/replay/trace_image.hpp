// SPDX-License-Identifier: MIT
// trace_image: a trace in one block of shared memory, which a child finds by an inherited descriptor. The child
// reads it in place, so that none of the replay's own data is in the heap under test.
//
// Written once, before any child is started; children only read it.
#pragma once

#include <cstdint>

#include "profiler/replay/trace.hpp"

namespace tarn::profiler {

inline constexpr std::uint64_t image_magic = 0x31796c7065726174;  // "tareply1"

// Offsets are in bytes from the image's start.
struct image_lane {
  std::uint64_t first = 0;  // offset of its operations
  std::uint64_t count = 0;
};

struct image_header {
  std::uint64_t magic = image_magic;
  std::uint64_t bytes = 0;  // of the whole image
  std::uint64_t lanes = 0;
  std::uint64_t lanes_offset = 0;  // image_lane[lanes]
  std::uint64_t places = 0;
  std::uint64_t routes = 0;
  std::uint64_t page_bytes = 0;  // as trace::page_bytes
  replay_route route[most_routes];
};

// A memfd that children inherit. Throws profile_error if there is no memory for it.
class trace_image {
 public:
  explicit trace_image(const trace& from);
  ~trace_image();
  trace_image(const trace_image&) = delete;
  trace_image& operator=(const trace_image&) = delete;

  int descriptor() const noexcept { return descriptor_; }

 private:
  int descriptor_ = -1;
};

}  // namespace tarn::profiler
