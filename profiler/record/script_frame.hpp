// SPDX-License-Identifier: MIT
// script_frame: the frames of interpreted functions that a thread is in, as a call path takes them in.
#pragma once

#include <cstdint>

namespace tarn::profiler {

struct script_frame {
  std::uintptr_t code = 0;         // what identifies the function: an object of the interpreter
  std::uintptr_t instruction = 0;  // where it stands
  std::uintptr_t check = 0;        // differs where another function has come to lie at the same address
  std::uintptr_t anchor = 0;       // an address within the native frame that runs it; 0: not known
};

// Tells which interpreted functions the calling thread is in.
class script_source {
 public:
  // Innermost first; returns how many. More than `most` are cut off at the outer end.
  virtual std::uint32_t frames(script_frame* out, std::uint32_t most) = 0;
  // Its line as a script_address.
  virtual std::uint64_t address_of(const script_frame& frame) = 0;
  // Makes the line known to the collector.
  virtual void tell(const script_frame& frame, std::uint64_t address) = 0;

 protected:
  ~script_source() = default;
};

}  // namespace tarn::profiler
