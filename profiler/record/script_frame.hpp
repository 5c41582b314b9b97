// SPDX-License-Identifier: MIT
// script_frame: a frame of an interpreted function, to be inserted into the native call path.
#pragma once

#include <cstdint>

namespace tarn::profiler {

struct script_frame {
  std::uintptr_t code = 0;         // address of the interpreter's object that identifies the function
  std::uintptr_t instruction = 0;  // the instruction that it executes
  std::uintptr_t check = 0;        // differs if the object's memory now holds another function
  // An address within the interpreter's native frame that runs the function; 0: not known.
  std::uintptr_t anchor = 0;
};

// Finds the interpreted functions that are on the calling thread's stack.
class script_source {
 public:
  // Writes the frames, innermost first, and returns their number. Beyond `most`, the outermost are left out.
  virtual std::uint32_t frames(script_frame* out, std::uint32_t most) = 0;
  // The frame's source line as a script_address.
  virtual std::uint64_t address_of(const script_frame& frame) = 0;
  // Makes the line known to the collector.
  virtual void tell(const script_frame& frame, std::uint64_t address) = 0;

 protected:
  ~script_source() = default;
};

}  // namespace tarn::profiler
