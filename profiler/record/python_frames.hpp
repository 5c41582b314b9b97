// SPDX-License-Identifier: MIT
// python_frames: the Python functions that the calling thread executes, read from CPython's own structures during
// an allocation. It calls two functions of the interpreter that only return a pointer; it takes no lock, allocates
// nothing and changes nothing.
//
// Why that is safe: a thread's frames are changed by that thread only, which is executing this code. While it is
// attached to the interpreter (it holds the GIL), everything that its frames refer to stays alive. Otherwise the
// interpreter may be shutting down in another thread, and may have freed even the thread's state: then every page is
// checked before it is read (guarded_reader). The first reads of a process are checked in the same way, as they prove
// whether the structures have the layout of this version.
//
// One for each thread, in zeroed memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profiler/record/python_layout.hpp"
#include "profiler/record/script_frame.hpp"

namespace tarn::profiler {

// Function, file and line of a source line, as UTF-8.
struct script_place {
  static constexpr std::size_t most_function = 320;
  static constexpr std::size_t most_file = 704;
  std::size_t function_bytes;
  std::size_t file_bytes;
  std::uint32_t line;
  char text[most_function + most_file];  // the function, then the file
};

class python_frames {
 public:
  // Looks for an interpreter in a module that a call path leads through; the result is kept for the whole process.
  static void look_at(const unwind::loaded_module& module);
  // Whether the process has an interpreter whose frames can be read.
  static bool is_known();

  std::uint32_t frames(script_frame* out, std::uint32_t most);
  std::uint64_t address_of(const script_frame& frame);
  void describe(const script_frame& frame, script_place& out) const;
  // Whether the line has not been sent to the collector yet (some are forgotten and sent again); marks it as sent.
  bool is_new(std::uint64_t address);

 private:
  struct known_line {
    std::uintptr_t code;
    std::uintptr_t instruction;
    std::uintptr_t check;
    std::uint64_t address;
  };
  static constexpr std::size_t known_lines = 2048;  // powers of two
  static constexpr std::size_t told_lines = 1024;

  bool attached_;  // at the last look
  known_line lines_[known_lines];
  std::uint64_t told_[told_lines];
};

}  // namespace tarn::profiler
