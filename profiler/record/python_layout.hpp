// SPDX-License-Identifier: MIT
// python_layout: offsets within CPython's structures, by version, that are needed to read the Python functions of a
// thread. 3.11 and 3.12 do not publish them, so they are listed here; 3.13 publishes them in _PyRuntime. The frames
// of other versions are not read.
#pragma once

#include <cstdint>

#include "unwind/frame_rule.hpp"

namespace tarn::profiler {

struct python_layout {
  std::uint32_t version = 0;  // of 3.12: 0x030c
  // of a thread state
  std::uint32_t thread_id = 0;
  std::uint32_t thread_frame = 0;   // 3.13: its innermost frame; before: the innermost C frame's part
  std::uint32_t thread_root = 0;    // before 3.13: the outermost part
  std::uint32_t part_frame = 0;     // before 3.13, of a C frame's part: its innermost frame
  std::uint32_t part_previous = 0;  // likewise: the next outer part
  // of a frame
  std::uint32_t frame_code = 0;
  std::uint32_t frame_previous = 0;
  std::uint32_t frame_instruction = 0;
  std::uint32_t frame_owner = 0;
  // of a code object
  std::uint32_t code_file = 0;
  std::uint32_t code_name = 0;
  std::uint32_t code_lines = 0;
  std::uint32_t code_first_line = 0;
  std::uint32_t code_bytes = 0;
  // of an object, of bytes and of text
  std::uint32_t object_type = 8;
  std::uint32_t bytes_size = 16;
  std::uint32_t bytes_begin = 32;
  std::uint32_t text_length = 16;
  std::uint32_t text_state = 32;
  std::uint32_t ascii_begin = 0;  // of a text that is pure ASCII
  std::uint32_t text_begin = 0;   // of other text
  // of the module
  std::uintptr_t code_type = 0;
  std::uintptr_t (*attached_state)() =
      nullptr;  // the calling thread's (3.11: the process's) while it may run Python
  std::uintptr_t (*own_state)() = nullptr;  // the calling thread's

  [[nodiscard]] bool has_parts() const { return thread_root != 0; }
};

// False: the module contains no interpreter with a known layout.
bool find_python_layout(const unwind::loaded_module& module, python_layout& out);

}  // namespace tarn::profiler
