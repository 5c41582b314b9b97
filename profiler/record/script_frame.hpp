// SPDX-License-Identifier: MIT
// script_frame: a frame of an interpreted function, to be inserted into the native call path; and the native frames, as an
// interpreter's reader sees them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn::profiler {

struct script_frame {
  std::uintptr_t code = 0;         // address of the interpreter's object that identifies the function
  std::uintptr_t instruction = 0;  // the instruction that it executes
  std::uintptr_t check = 0;        // differs if the object's memory now holds another function
  // An address within the interpreter's native frame that runs the function; 0: not known.
  std::uintptr_t anchor = 0;
  // Where functions have no names: the function whose instruction calls it, and the next one; 0: not known.
  std::uintptr_t caller = 0;
  std::uintptr_t caller_instruction = 0;
};

// Function, file and line of a source line, as UTF-8.
struct script_place {
  static constexpr std::size_t most_function = 320;
  static constexpr std::size_t most_file = 704;
  std::size_t function_bytes;
  std::size_t file_bytes;
  std::uint32_t line;
  char text[most_function + most_file];  // the function, then the file
};

// A frame of the native call path (call_path.hpp): its registers, and how to find its caller's.
struct alignas(64) native_frame {
  std::uintptr_t pc;
  std::uintptr_t stack_pointer;
  std::uintptr_t frame_pointer;
  std::uintptr_t caller_stack_pointer;
  std::uintptr_t pc_slot;             // where the stack has the caller's pc; 0: there is no caller
  std::uintptr_t frame_pointer_slot;  // 0: the caller has the same frame pointer
  std::uint32_t parent;               // the node with which `node` was looked up
  std::uint32_t node;                 // 0: not looked up
  std::uint32_t generation;           // of call_path; one more where the caller is found by frame_pointer
  std::uint16_t caller;               // where the caller was found last time
};

// The native frames of a call path, outermost first; at least one.
struct native_path {
  const native_frame* const* frames;
  std::uint32_t depth;
};

// Finds the interpreted functions that are on the calling thread's stack.
class script_source {
 public:
  // Writes the frames, innermost first, and returns their number. Beyond `most`, the outermost are left out.
  virtual std::uint32_t frames(const native_path& native, script_frame* out, std::uint32_t most) = 0;
  // The frame's source line as a script_address.
  virtual std::uint64_t address_of(const script_frame& frame) = 0;
  // Makes the line known to the collector.
  virtual void send(const script_frame& frame, std::uint64_t address) = 0;

 protected:
  ~script_source() = default;
};

}  // namespace tarn::profiler
