// SPDX-License-Identifier: MIT
#include "profiler/record/lua_layout.hpp"

#include <cstring>
#include <string_view>

#include "profiler/record/exported_symbol.hpp"

namespace tarn::profiler::lua {

namespace {

constexpr std::uint32_t most_steps = 1 << 16;

std::size_t put(std::string_view text, char* out, std::size_t room) {
  const std::size_t bytes = text.size() < room ? text.size() : room;
  std::memcpy(out, text.data(), bytes);
  return bytes;
}

std::size_t put_number(std::uint32_t number, char* out, std::size_t room) {
  char digits[10];
  std::size_t count = 0;
  for (; count == 0 || number != 0; number /= 10) digits[count++] = static_cast<char>('0' + number % 10);
  if (count > room) return 0;
  for (std::size_t index = 0; index < count; ++index) out[index] = digits[count - 1 - index];
  return count;
}

std::size_t put_text(guarded_reader& from, std::uintptr_t object, char* out, std::size_t room) {
  const bool is_long = from.take<std::uint8_t>(object + object_kind) == kind_long_text;
  std::size_t length = is_long ? from.take<std::size_t>(object + text_long_length)
                               : from.take<std::uint8_t>(object + text_short_length);
  if (from.failed()) return 0;
  if (length > room) length = room;
  return from.read(object + text_begin, out, length) ? length : 0;
}

// The name of a chunk: "@rows.lua" is a file, "=stdin" a name, anything else the text of the chunk, of which the first line
// is shown. Invalid UTF-8 is the reader's business.
std::size_t put_file(guarded_reader& from, std::uintptr_t source, char* out, std::size_t room) {
  std::size_t bytes = source != 0 ? put_text(from, source, out, room) : 0;
  if (bytes == 0) return put("?", out, room);
  if (out[0] == '@' || out[0] == '=') {
    std::memmove(out, out + 1, --bytes);
    return bytes;
  }
  constexpr std::string_view lead = "[string] ";
  if (const void* end = std::memchr(out, '\n', bytes); end != nullptr)
    bytes = static_cast<std::size_t>(static_cast<const char*>(end) - out);
  constexpr std::size_t longest = 60;
  if (bytes > longest) bytes = longest;
  std::memmove(out + lead.size(), out, bytes);
  return put(lead, out, room) + bytes;
}

// Instructions that fetch what is called, and those that only write into what their register holds.
constexpr std::uint32_t op_move = 0;
constexpr std::uint32_t op_get_upvalue = 9;
constexpr std::uint32_t op_get_global = 11;
constexpr std::uint32_t op_get_field = 14;
constexpr std::uint32_t op_set_global = 15;
constexpr std::uint32_t op_set_field = 18;
constexpr std::uint32_t op_self = 20;
constexpr std::uint32_t op_call = 68;
constexpr std::uint32_t op_tail_call = 69;
constexpr std::uint32_t most_searched = 256;  // instructions before a call

class instruction {
 public:
  explicit instruction(std::uint32_t word) : word_(word) {}
  [[nodiscard]] std::uint32_t operation() const { return word_ & 127; }
  [[nodiscard]] std::uint32_t a() const { return word_ >> 7 & 255; }
  [[nodiscard]] bool k() const { return (word_ >> 15 & 1) != 0; }
  [[nodiscard]] std::uint32_t b() const { return word_ >> 16 & 255; }
  [[nodiscard]] std::uint32_t c() const { return word_ >> 24; }

 private:
  std::uint32_t word_;
};

// 0: there is no such constant, or it is no text.
std::uintptr_t constant_text(guarded_reader& from, std::uintptr_t prototype, std::uint32_t index) {
  if (index >= from.take<std::uint32_t>(prototype + prototype_constant_count)) return 0;
  const std::uintptr_t value = from.take<std::uintptr_t>(prototype + prototype_constants) + 16 * index;
  const auto tag = from.take<std::uint8_t>(value + value_tag);
  const bool is_text = tag == (kind_short_text | is_object) || tag == (kind_long_text | is_object);
  return is_text ? from.take<std::uintptr_t>(value) : 0;
}

std::uintptr_t upvalue_name(guarded_reader& from, std::uintptr_t prototype, std::uint32_t index) {
  if (index >= from.take<std::uint32_t>(prototype + prototype_upvalue_count)) return 0;
  return from.take<std::uintptr_t>(from.take<std::uintptr_t>(prototype + prototype_upvalues) + 16 * index);
}

// Of the variable in a register at an instruction: variables take registers in the order in which they begin.
std::uintptr_t local_name(guarded_reader& from, std::uintptr_t prototype, std::uint32_t wanted,
                          std::int32_t at) {
  auto variable = from.take<std::uintptr_t>(prototype + prototype_locals);
  auto left = from.take<std::uint32_t>(prototype + prototype_local_count);
  for (; left > 0 && !from.failed(); --left, variable += 16) {
    if (from.take<std::int32_t>(variable + 8) > at) return 0;
    if (at < from.take<std::int32_t>(variable + 12) && wanted-- == 0)
      return from.take<std::uintptr_t>(variable);
  }
  return 0;
}

}  // namespace

interpreter interpreter_in(const unwind::loaded_module& module) {
  if (module.map == nullptr) return interpreter::none;
  const std::uintptr_t ident = exported_symbol(*module.map, "lua_ident");
  if (ident == 0) return interpreter::none;
  constexpr std::string_view lead = "$LuaVersion: Lua 5.4.";
  const char* const text = reinterpret_cast<const char*>(ident);
  if (sizeof(void*) != 8 || std::strncmp(text, lead.data(), lead.size()) != 0) return interpreter::other;
  const char release = text[lead.size()];
  return release >= '3' && release <= '8' && text[lead.size() + 1] == ' ' ? interpreter::known
                                                                          : interpreter::other;
}

// For each instruction there is the step from the line of the one before; and for some, in order, the line itself.
std::uint32_t line_of(guarded_reader& from, std::uintptr_t prototype, std::uintptr_t next) {
  const auto code = from.take<std::uintptr_t>(prototype + prototype_code);
  const auto steps = from.take<std::uintptr_t>(prototype + prototype_lines);
  const auto count = from.take<std::uint32_t>(prototype + prototype_line_count);
  if (from.failed() || steps == 0 || next < code) return 0;
  const std::uintptr_t instruction = next > code ? (next - code) / 4 - 1 : 0;
  if (instruction >= count) return 0;
  std::int64_t line = from.take<std::int32_t>(prototype + prototype_first_line);
  std::uintptr_t at = 0;
  const auto bases = from.take<std::uintptr_t>(prototype + prototype_base_lines);
  std::uint32_t low = 0;
  for (std::uint32_t high = from.take<std::uint32_t>(prototype + prototype_base_line_count); low < high;) {
    const std::uint32_t middle = low + (high - low) / 2;
    const auto base = from.take<std::int32_t>(bases + 8 * std::uintptr_t{middle});
    if (from.failed()) return 0;
    if (base >= 0 && static_cast<std::uintptr_t>(base) <= instruction) {
      at = static_cast<std::uintptr_t>(base) + 1;
      line = from.take<std::int32_t>(bases + 8 * std::uintptr_t{middle} + 4);
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (std::uint32_t left = most_steps; at <= instruction && left > 0 && !from.failed(); ++at, --left)
    line += from.take<std::int8_t>(steps + at);
  return from.failed() || line < 0 ? 0 : static_cast<std::uint32_t>(line);
}

std::uintptr_t called_name(guarded_reader& from, std::uintptr_t prototype, std::uintptr_t next) {
  const auto code = from.take<std::uintptr_t>(prototype + prototype_code);
  std::uintptr_t at = next - 4;
  if (from.failed() || next <= code) return 0;
  const instruction call(from.take<std::uint32_t>(at));
  if (call.operation() != op_call && call.operation() != op_tail_call) return 0;
  const std::uint32_t wanted = call.a();
  for (std::uint32_t left = most_searched; left > 0 && at > code && !from.failed(); --left) {
    at -= 4;
    const instruction here(from.take<std::uint32_t>(at));
    if ((here.operation() == op_call || here.operation() == op_tail_call) && here.a() <= wanted) return 0;
    if (here.a() != wanted) continue;
    switch (here.operation()) {
      case op_self: return here.k() ? constant_text(from, prototype, here.c()) : 0;
      case op_get_global:
      case op_get_field: return constant_text(from, prototype, here.c());
      case op_get_upvalue: return upvalue_name(from, prototype, here.b());
      case op_move: return local_name(from, prototype, here.b(), static_cast<std::int32_t>((at - code) / 4));
      default:
        if (here.operation() < op_set_global || here.operation() > op_set_field) return 0;
    }
  }
  return 0;
}

void describe(guarded_reader& from, const script_frame& frame, script_place& out) {
  constexpr std::size_t room = script_place::most_function;
  out.line = line_of(from, frame.code, frame.instruction);
  char file[script_place::most_file];
  const auto source = from.take<std::uintptr_t>(frame.code + prototype_source);
  out.file_bytes = put_file(from, source, file, sizeof file);
  const auto first_line = from.take<std::uint32_t>(frame.code + prototype_first_line);
  std::size_t used = 0;
  if (first_line == 0) {
    used = put("main chunk", out.text, room);
  } else if (frame.caller != 0) {
    guarded_reader named(from);
    const std::uintptr_t name = called_name(named, frame.caller, frame.caller_instruction);
    if (name != 0) used = put_text(named, name, out.text, room);
  }
  if (used == 0) {
    std::string_view name(file, out.file_bytes);
    name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
    used = put("function <", out.text, room);
    used += put(name, out.text + used, room - used - 12);
    used += put(":", out.text + used, room - used);
    used += put_number(first_line, out.text + used, room - used);
    used += put(">", out.text + used, room - used);
  }
  out.function_bytes = used;
  std::memcpy(out.text + used, file, out.file_bytes);
}

}  // namespace tarn::profiler::lua
