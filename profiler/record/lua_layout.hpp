// SPDX-License-Identifier: MIT
// lua_layout: offsets within the structures of Lua 5.4.3 to 5.4.8, which all have the same, on 64-bit systems; and how a line
// and a name are read from a function. Any thread; allocates nothing. Whatever the memory holds, reading ends.
#pragma once

#include <cstdint>

#include "profiler/record/guarded_reader.hpp"
#include "profiler/record/script_frame.hpp"
#include "unwind/frame_rule.hpp"

namespace tarn::profiler::lua {

inline constexpr std::uintptr_t object_kind = 8;
inline constexpr std::uint8_t kind_thread = 8;
inline constexpr std::uint8_t kind_closure = 6;
inline constexpr std::uint8_t kind_prototype = 10;
inline constexpr std::uint8_t kind_short_text = 4;
inline constexpr std::uint8_t kind_long_text = 0x14;
inline constexpr std::uint8_t is_object = 0x40;  // in the tag of a value

inline constexpr std::uintptr_t state_top = 16;
inline constexpr std::uintptr_t state_global = 24;
inline constexpr std::uintptr_t state_call = 32;  // the innermost one
inline constexpr std::uintptr_t state_stack = 48;
inline constexpr std::uintptr_t state_error_jump = 88;  // of the innermost protected call, on the C stack
inline constexpr std::uintptr_t state_base_call = 96;   // the outermost one, which is part of the state

inline constexpr std::uintptr_t call_function = 0;  // the address of a value on Lua's stack
inline constexpr std::uintptr_t call_previous = 16;
inline constexpr std::uintptr_t call_next_instruction = 32;
inline constexpr std::uintptr_t call_status = 62;
inline constexpr std::uint16_t status_c_function = 2;
inline constexpr std::uint16_t status_tail_call = 32;

inline constexpr std::uintptr_t value_tag = 8;
inline constexpr std::uintptr_t closure_prototype = 24;

inline constexpr std::uintptr_t prototype_upvalue_count = 16;
inline constexpr std::uintptr_t prototype_constant_count = 20;
inline constexpr std::uintptr_t prototype_code_count = 24;
inline constexpr std::uintptr_t prototype_line_count = 28;
inline constexpr std::uintptr_t prototype_local_count = 36;
inline constexpr std::uintptr_t prototype_base_line_count = 40;
inline constexpr std::uintptr_t prototype_first_line = 44;
inline constexpr std::uintptr_t prototype_constants = 56;
inline constexpr std::uintptr_t prototype_code = 64;
inline constexpr std::uintptr_t prototype_upvalues = 80;
inline constexpr std::uintptr_t prototype_lines = 88;
inline constexpr std::uintptr_t prototype_base_lines = 96;
inline constexpr std::uintptr_t prototype_locals = 104;
inline constexpr std::uintptr_t prototype_source = 112;

inline constexpr std::uintptr_t text_short_length = 11;
inline constexpr std::uintptr_t text_long_length = 16;
inline constexpr std::uintptr_t text_begin = 24;

// What a module is to Lua: none, an interpreter of a version above, or one of another version.
enum class interpreter { none, known, other };
interpreter interpreter_in(const unwind::loaded_module& module);

// The source line of the instruction before `next`; 0: the function has no lines.
std::uint32_t line_of(guarded_reader& from, std::uintptr_t prototype, std::uintptr_t next);
// The text by which the instruction before `next` calls a function: the name of a global, a field, a method, a local variable
// or an upvalue; 0: it is none of these.
std::uintptr_t called_name(guarded_reader& from, std::uintptr_t prototype, std::uintptr_t next);
// Function, file and line; of a function without lines, the line is 0. Lua's functions have no names: they have the one by which
// they are called, or are "function <rows.lua:12>", as in Lua's own traces.
void describe(guarded_reader& from, const script_frame& frame, script_place& out);

}  // namespace tarn::profiler::lua
