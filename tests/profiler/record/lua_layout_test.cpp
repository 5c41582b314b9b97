// SPDX-License-Identifier: MIT
// Functions, states and calls in Lua's layout, made by hand.
#include "profiler/record/lua_layout.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "profiler/record/lua_frames.hpp"

// This program stands for a module with Lua.
extern "C"
    [[gnu::visibility("default")]] char lua_ident[32];  // NOLINT(readability-identifier-naming): its name
char lua_ident[32] = "$LuaVersion: Lua 5.4.4  Copy";

namespace {

using namespace tarn::profiler;

// An object of the layout, of which members are set.
class object {
 public:
  explicit object(std::size_t bytes = 256) : bytes_(bytes) {}
  template <class value>
  object& set(std::size_t at, value to) {
    std::memcpy(bytes_.data() + at, &to, sizeof to);
    return *this;
  }
  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(bytes_.data()); }

 private:
  std::vector<std::uint8_t> bytes_;
};

object text(const std::string& content) {
  object made(64 + content.size());
  const bool is_long = content.size() > 40;
  made.set(lua::object_kind, is_long ? lua::kind_long_text : std::uint8_t{4});
  if (is_long) {
    made.set(lua::text_short_length, std::uint8_t{0xff}).set(lua::text_long_length, content.size());
  } else {
    made.set(lua::text_short_length, static_cast<std::uint8_t>(content.size()));
  }
  for (std::size_t at = 0; at < content.size(); ++at) made.set(lua::text_begin + at, content[at]);
  return made;
}

// A function of 6 instructions that begins in line 10: its lines are 10, 12, 12, 1000 (told in full), 1001, 999.
struct function {
  explicit function(const std::string& name) : source(text(name)) {
    made.set(lua::object_kind, lua::kind_prototype)
        .set(lua::prototype_code_count, std::uint32_t{6})
        .set(lua::prototype_line_count, std::uint32_t{6})
        .set(lua::prototype_base_line_count, std::uint32_t{1})
        .set(lua::prototype_first_line, std::uint32_t{10})
        .set(lua::prototype_code, code())
        .set(lua::prototype_lines, reinterpret_cast<std::uintptr_t>(steps.data()))
        .set(lua::prototype_base_lines, reinterpret_cast<std::uintptr_t>(bases.data()))
        .set(lua::prototype_source, source.address());
  }
  std::uintptr_t code() const { return reinterpret_cast<std::uintptr_t>(instructions.data()); }
  // The address behind an instruction.
  std::uintptr_t behind(std::uintptr_t index) const { return code() + 4 * (index + 1); }
  std::uint32_t line(std::uintptr_t next) const {
    guarded_reader from(false);
    return lua::line_of(from, made.address(), next);
  }
  std::string described(std::uintptr_t next) const {
    guarded_reader from(false);
    script_place place;
    lua::describe(from, {made.address(), next, 0, 0, 0, 0}, place);
    return std::string(place.text, place.function_bytes) + "|" +
           std::string(place.text + place.function_bytes, place.file_bytes) + "|" +
           std::to_string(place.line);
  }

  std::array<std::uint32_t, 6> instructions{};
  std::array<std::int8_t, 6> steps{0, 2, 0, -128, 1, -2};
  std::array<std::int32_t, 2> bases{3, 1000};
  object source;
  object made;
};

tarn::unwind::loaded_module own_module() {
  tarn::unwind::loaded_module module;
  EXPECT_TRUE(tarn::unwind::find_module(reinterpret_cast<std::uintptr_t>(&own_module), module));
  return module;
}

TEST(lua_layout, the_line_of_each_instruction) {
  const function one("@rows.lua");
  const std::array<std::uint32_t, 6> lines = {10, 12, 12, 1000, 1001, 999};
  for (std::uintptr_t index = 0; index < lines.size(); ++index)
    EXPECT_EQ(one.line(one.behind(index)), lines[index]) << index;
  EXPECT_EQ(one.line(one.code()), 10U) << "before the first one";
  EXPECT_EQ(one.line(one.behind(6)), 0U) << "behind the last one";
  EXPECT_EQ(one.line(one.code() - 4), 0U);
}

TEST(lua_layout, names_of_chunks) {
  EXPECT_EQ(function("@/srv/rows.lua").described(0), "function <rows.lua:10>|/srv/rows.lua|0");
  const function plain("=stdin");
  EXPECT_EQ(plain.described(plain.behind(1)), "function <stdin:10>|stdin|12");
  EXPECT_EQ(function("return 1\nmore").described(0), "function <[string] return 1:10>|[string] return 1|0");
  const std::string deep = "@/" + std::string(900, 'd') + ".lua";
  EXPECT_EQ(function(deep).described(0).size(), 320 - 12 + 4 + 704 + 2U) << "cut to the room";
  function main("@rows.lua");
  main.made.set(lua::prototype_first_line, std::uint32_t{0});
  EXPECT_EQ(main.described(0), "main chunk|rows.lua|0");
}

// The name by which the last of some instructions calls its function; `local`: a variable in register 3.
std::string name_by(std::vector<std::uint32_t> instructions) {
  const object constant = text("load"), upvalue = text("up"), variable = text("local"), field = text("field");
  object constants, upvalues, locals(512), made;
  constants.set(0, std::uintptr_t{7}).set(lua::value_tag, std::uint8_t{3});  // a number
  constants.set(16, constant.address())
      .set(16 + lua::value_tag, std::uint8_t{lua::kind_short_text | lua::is_object});
  upvalues.set(16, upvalue.address());
  // Registers 0 and 1 hold variables; what held 1 before has ended; another one has not begun.
  const std::array<std::array<std::int32_t, 2>, 4> lives = {{{0, 90}, {0, 1}, {1, 90}, {80, 90}}};
  for (std::size_t index = 0; index < lives.size(); ++index) {
    locals.set(16 * index, index == 2 ? variable.address() : field.address())
        .set(16 * index + 8, lives[index][0])
        .set(16 * index + 12, lives[index][1]);
  }
  const auto code = reinterpret_cast<std::uintptr_t>(instructions.data());
  made.set(lua::prototype_code, code)
      .set(lua::prototype_constants, constants.address())
      .set(lua::prototype_constant_count, std::uint32_t{2})
      .set(lua::prototype_upvalues, upvalues.address())
      .set(lua::prototype_upvalue_count, std::uint32_t{2})
      .set(lua::prototype_locals, locals.address())
      .set(lua::prototype_local_count, std::uint32_t{4});
  guarded_reader from(false);
  const std::uintptr_t name = lua::called_name(from, made.address(), code + 4 * instructions.size());
  return name == 0 ? "" : reinterpret_cast<const char*>(name + lua::text_begin);
}

TEST(lua_layout, the_name_by_which_a_function_is_called) {
  constexpr auto make = [](std::uint32_t operation, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                           bool k = false) {
    return operation | a << 7 | (k ? 1U << 15 : 0) | b << 16 | c << 24;
  };
  const std::uint32_t nothing = make(1, 9, 0, 0);
  const std::uint32_t call = make(68, 5, 1, 1);
  EXPECT_EQ(name_by({nothing, make(11, 5, 0, 1), nothing, call}), "load") << "a global";
  EXPECT_EQ(name_by({nothing, make(14, 5, 2, 1), call}), "load") << "a field";
  EXPECT_EQ(name_by({nothing, make(20, 5, 2, 1, true), call}), "load") << "a method";
  EXPECT_EQ(name_by({nothing, make(20, 5, 2, 1), call}), "") << "a method whose name is in a register";
  EXPECT_EQ(name_by({nothing, make(9, 5, 1, 0), call}), "up");
  EXPECT_EQ(name_by({nothing, nothing, make(0, 5, 1, 0), call}), "local");
  EXPECT_EQ(name_by({nothing, nothing, make(0, 5, 2, 0), call}), "") << "no such variable";
  EXPECT_EQ(name_by({make(11, 5, 0, 1), make(68, 6, 1, 1), call}), "load")
      << "an argument's call is further up";
  EXPECT_EQ(name_by({make(11, 5, 0, 1), make(68, 4, 1, 1), call}), "") << "the result of another call";
  EXPECT_EQ(name_by({make(11, 5, 0, 1), make(18, 5, 1, 1), call}), "load") << "a field of it is written";
  EXPECT_EQ(name_by({make(11, 5, 0, 1), make(79, 5, 1, 1), call}), "") << "a new function";
  EXPECT_EQ(name_by({make(11, 5, 0, 0), call}), "") << "a constant that is no text";
  EXPECT_EQ(name_by({make(11, 5, 0, 2), call}), "") << "no such constant";
  EXPECT_EQ(name_by({make(9, 5, 2, 0), call}), "") << "no such upvalue";
  EXPECT_EQ(name_by({make(11, 5, 0, 1), make(76, 5, 1, 1)}), "") << "no call, as of an iterator";
  EXPECT_EQ(name_by({call}), "");
}

TEST(lua_layout, hostile_values_end) {
  for (const std::uintptr_t nowhere :
       {std::uintptr_t{0}, std::uintptr_t{1}, ~std::uintptr_t{0}, std::uintptr_t{1} << 50}) {
    function one("@rows.lua");
    one.made.set(lua::prototype_source, nowhere);
    EXPECT_EQ(one.described(one.behind(0)), "function <?:10>|?|10");
    one.made.set(lua::prototype_base_lines, nowhere).set(lua::prototype_base_line_count, ~std::uint32_t{0});
    EXPECT_EQ(one.line(one.behind(4)), 0U);
    one.made.set(lua::prototype_lines, nowhere);
    EXPECT_EQ(one.line(one.behind(4)), 0U);
  }
}

TEST(lua_layout, versions_whose_structures_are_known) {
  const tarn::unwind::loaded_module module = own_module();
  EXPECT_EQ(lua::interpreter_in(module), lua::interpreter::known);
  for (const char* other :
       {"$LuaVersion: Lua 5.4.2  Copy", "$LuaVersion: Lua 5.4.9  Copy", "$LuaVersion: Lua 5.4.30 Copy",
        "$LuaVersion: Lua 5.5.0  Copy", "$LuaVersion: Lua 5.3.6  Copy", ""}) {
    std::strcpy(lua_ident, other);  // NOLINT: short enough
    EXPECT_EQ(lua::interpreter_in(module), lua::interpreter::other) << other;
  }
  std::strcpy(lua_ident, "$LuaVersion: Lua 5.4.8  Copy");  // NOLINT: short enough
  EXPECT_EQ(lua::interpreter_in(module), lua::interpreter::known);
  tarn::unwind::loaded_module libc;
  ASSERT_TRUE(tarn::unwind::find_module(reinterpret_cast<std::uintptr_t>(&std::strlen), libc));
  EXPECT_EQ(lua::interpreter_in(libc), lua::interpreter::none);
}

// A state that executes main -> C function -> inner, and the C stack of the thread that runs it.
struct running {
  running() {
    closure.set(lua::object_kind, lua::kind_closure).set(lua::closure_prototype, code.made.address());
    value_stack.set(0, closure.address())
        .set(lua::value_tag, std::uint8_t{lua::kind_closure | lua::is_object});
    const std::uintptr_t base = state.address() + lua::state_base_call;
    state.set(lua::object_kind, lua::kind_thread)
        .set(lua::state_global, std::uintptr_t{0x123450})
        .set(lua::state_call, inner.address())
        .set(lua::state_stack, value_stack.address())
        .set(lua::state_top, value_stack.address() + 16)
        .set(lua::state_error_jump, reinterpret_cast<std::uintptr_t>(&c_stack[60]))
        .set(lua::state_base_call + lua::call_status, lua::status_c_function);
    set_call(inner, between.address(), 4, 0);
    set_call(between, outer.address(), 0, lua::status_c_function);
    set_call(outer, base, 1, 0);
    c_stack[20] = state.address();
    set_frame(0, 0x1000, 63);
    set_frame(1, reinterpret_cast<std::uintptr_t>(&own_module) + 4, 10);
    set_frame(2, 0x2000, 0);
    lua_frames::look_at(own_module());
  }
  void set_frame(std::size_t index, std::uintptr_t pc, std::size_t word) {
    native[index].pc = pc;
    native[index].stack_pointer = reinterpret_cast<std::uintptr_t>(&c_stack[word]);
  }
  void set_call(object& call, std::uintptr_t previous, std::uintptr_t instruction,
                std::uint16_t status) const {
    call.set(lua::call_function, value_stack.address())
        .set(lua::call_previous, previous)
        .set(lua::call_next_instruction, code.behind(instruction))
        .set(lua::call_status, status);
  }
  std::uint32_t look() {
    const std::array<const native_frame*, 3> path{&native[0], &native[1], &native[2]};
    return frames.frames({path.data(), 3}, out.data(), static_cast<std::uint32_t>(out.size()));
  }

  function code{"@rows.lua"};
  object closure, value_stack, inner, between, outer;
  object state{512};
  std::array<std::uintptr_t, 64> c_stack{};
  std::array<native_frame, 3> native{};
  std::array<script_frame, 16> out{};
  lua_frames frames{};
};

TEST(lua_frames, of_a_state_that_is_found_on_the_c_stack) {
  running one;
  ASSERT_TRUE(lua_frames::is_known());
  ASSERT_EQ(one.look(), 2U);
  EXPECT_EQ(one.out[0].instruction, one.code.behind(4));
  EXPECT_EQ(one.out[1].instruction, one.code.behind(1));
  EXPECT_EQ(one.out[0].anchor, reinterpret_cast<std::uintptr_t>(&one.c_stack[60]));
  one.c_stack[20] = 0;
  EXPECT_EQ(one.look(), 2U) << "it is known now";
}

TEST(lua_frames, a_state_that_does_not_run_on_this_stack_is_none) {
  running one;
  one.state.set(lua::state_error_jump, std::uintptr_t{0});
  EXPECT_EQ(one.look(), 0U);
  one.state.set(lua::state_error_jump, one.state.address());
  EXPECT_EQ(one.look(), 0U);
}

TEST(lua_frames, without_lua_on_the_path_nothing_is_looked_for) {
  running one;
  one.native[1].pc = 0x3000;
  EXPECT_EQ(one.look(), 0U);
}

TEST(lua_frames, the_innermost_of_two_states_runs_within_the_other) {
  running one;
  running other;
  ASSERT_EQ(one.look(), 2U);
  // A C function of `one` has resumed `other`, which was not known.
  one.inner.set(lua::call_status, lua::status_c_function);
  one.c_stack[30] = other.state.address();
  other.state.set(lua::state_error_jump, reinterpret_cast<std::uintptr_t>(&one.c_stack[40]));
  ASSERT_EQ(one.look(), 3U);
  EXPECT_EQ(one.out[0].code, other.code.made.address());
  EXPECT_EQ(one.out[1].code, other.code.made.address());
  EXPECT_EQ(one.out[2].code, one.code.made.address());
  EXPECT_LT(one.out[1].anchor, one.out[2].anchor);
}

TEST(lua_frames, a_state_that_does_not_fit_the_layout_gives_no_frames) {
  for (int broken = 0; broken < 6; ++broken) {
    running one;
    switch (broken) {
      case 0: one.value_stack.set(lua::value_tag, std::uint8_t{0}); break;
      case 1: one.closure.set(lua::object_kind, std::uint8_t{0}); break;
      case 2: one.closure.set(lua::closure_prototype, std::uintptr_t{8}); break;
      case 3: one.outer.set(lua::call_previous, std::uintptr_t{0}); break;
      case 4: one.outer.set(lua::call_previous, one.inner.address()); break;
      default: one.state.set(lua::object_kind, std::uint8_t{5}); break;
    }
    EXPECT_EQ(one.look(), 0U) << broken;
  }
}

// While Lua moves its stack, places on it are offsets, and lead to memory that may be gone.
TEST(lua_frames, while_the_stack_of_lua_moves) {
  running one;
  one.state.set(lua::state_top, std::uintptr_t{16});
  for (object* call : {&one.inner, &one.between, &one.outer})
    call->set(lua::call_function, std::uintptr_t{0});
  EXPECT_EQ(one.look(), 2U);
  one.inner.set(lua::call_function, std::uintptr_t{1} << 46);
  EXPECT_EQ(one.look(), 1U);
}

}  // namespace
