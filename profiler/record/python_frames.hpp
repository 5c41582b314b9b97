// SPDX-License-Identifier: MIT
// python_frames: the Python functions that the calling thread is in, read out of CPython's own structures while the thread
// stands in an allocation. It calls two of the interpreter's functions that only return a pointer; it takes no lock, allocates
// nothing and changes nothing.
//
// Why that is safe: a thread's frames are changed by that thread alone, and it is here. While it is attached to the interpreter
// (it holds the GIL) everything that they refer to lives. Otherwise the interpreter may be ending beside it, and may have given
// back even the thread's state: then every page is asked for before it is read (guarded_reader), and so are the first looks of
// a process, which show whether the structures are what this version's should be.
//
// One for each thread, in zeroed memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profiler/record/guarded_reader.hpp"
#include "profiler/record/python_layout.hpp"
#include "profiler/record/script_frame.hpp"

namespace tarn::profiler {

// Function and file of a line, as UTF-8.
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
  // Looks for an interpreter in a module that a call path leads through. For the whole process.
  static void look_at(const unwind::loaded_module& module);
  // Whether the process has one whose functions can be told.
  static bool is_known();

  std::uint32_t frames(script_frame* out, std::uint32_t most);
  std::uint64_t address_of(const script_frame& frame);
  void describe(const script_frame& frame, script_place& out) const;
  // Whether the line has not been told yet, as far as is remembered; from now on it has.
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
