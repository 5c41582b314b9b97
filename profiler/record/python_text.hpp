// SPDX-License-Identifier: MIT
// python_text: what CPython's objects hold, read without the interpreter: text as UTF-8, and the line of an instruction.
// Any thread; allocates nothing. Whatever the memory holds, reading ends, within the room that is given.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profiler/record/guarded_reader.hpp"
#include "profiler/record/python_layout.hpp"

namespace tarn::profiler {

// How many bytes of UTF-8 the text object gives; what has no room is cut off between characters.
std::size_t python_text(const python_layout& layout, guarded_reader& from, std::uintptr_t object, char* out,
                        std::size_t room);

// Of an instruction of the code object; its first line where the table tells none.
std::uint32_t python_line(const python_layout& layout, guarded_reader& from, std::uintptr_t code,
                          std::uintptr_t instruction);

}  // namespace tarn::profiler
