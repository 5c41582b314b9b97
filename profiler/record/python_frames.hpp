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

#include <cstdint>

#include "profiler/record/python_layout.hpp"
#include "profiler/record/script_frame.hpp"

namespace tarn::profiler {

class python_frames {
 public:
  // Looks for an interpreter in a module that a call path leads through; the result is kept for the whole process.
  static void look_at(const unwind::loaded_module& module);
  // Whether the process has an interpreter whose frames can be read.
  static bool is_known();
  // Whether it has one, and they cannot.
  static bool is_unreadable();

  std::uint32_t frames(script_frame* out, std::uint32_t most);
  void describe(const script_frame& frame, script_place& out) const;

 private:
  bool attached_;  // at the last look
};

}  // namespace tarn::profiler
