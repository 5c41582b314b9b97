// SPDX-License-Identifier: MIT
#include "samples/guarded/report.hpp"

#include <fcntl.h>
#include <link.h>

#include "base/text.hpp"
#include "base/units.hpp"
#include "os/futex.hpp"
#include "os/report.hpp"
#include "os/syscall.hpp"
#include "os/thread_number.hpp"
#include "samples/guarded/symbol.hpp"

namespace tarn::guarded_report {

namespace {

constexpr std::int64_t wait_for_other_ms = 10000;

// Used by the reporting thread only; too large for a signal's stack.
constinit char line_text[1024] = "";
constinit char program_path[512] = "";
constinit call_stack present_stack;
constinit os::futex_word reporting{0};

// Returns in one thread at a time; the others wait until the report has ended the process or end() is called.
void begin() {
  // acquire: partner of the release in end().
  while (reporting.exchange(1, std::memory_order_acquire) != 0) {
    if (!os::futex_wait(&reporting, 1, wait_for_other_ms)) os::end_process();
  }
  const long length =
      os::system_call(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", program_path, sizeof program_path - 1);
  program_path[length > 0 ? length : 0] = '\0';
}

// A handler of the program may let the process continue, and another thread may wait to report.
void end() {
  // release: partner of the acquire in begin().
  reporting.store(0, std::memory_order_release);
  os::futex_wake(&reporting, 1);
}

struct code_position {
  const char* file = nullptr;
  std::uintptr_t offset = 0;
};

// File and offset of an instruction; file == nullptr: in no file.
code_position position_of(const unwind::loaded_module& module, std::uintptr_t address) {
  if (module.path == nullptr || module.map == nullptr) return {};
  return {*module.path != '\0' ? module.path : program_path, address - module.base};
}

void write_frame(std::size_t number, std::uintptr_t address) {
  text_writer line(line_text, sizeof line_text);
  line.put("tarn:   #")
      .number(number)
      .put(number < 10 ? "  " : " ")
      .pointer(reinterpret_cast<void*>(address));
  unwind::loaded_module module;
  if (unwind::find_module_lock_free(address, module)) {
    const code_position in = position_of(module, address);
    if (in.file != nullptr) line.put(' ').put(in.file).put('+').pointer(reinterpret_cast<void*>(in.offset));
    symbol function;
    if (find_symbol(module, address, function)) {
      line.put(' ').put(function.name).put('+').number(address - function.start);
    }
  }
  line.put('\n');
  os::write_line(line);
}

// Whether the address is code of this library. In a statically linked program tarn's code cannot be distinguished.
bool is_own(std::uintptr_t address) {
  unwind::loaded_module own;
  unwind::loaded_module other;
  return unwind::find_module_lock_free(reinterpret_cast<std::uintptr_t>(&is_own), own) &&
         own.path != nullptr && *own.path != '\0' && unwind::find_module_lock_free(address, other) &&
         own.map == other.map;
}

// Frames hold return addresses, so the address shown is one less. `exact`: the first frame is the instruction itself.
void write_stack(const char* title, const call_stack& stack, bool exact) {
  text_writer line(line_text, sizeof line_text);
  line.put("tarn: ").put(title);
  if (stack.thread != 0) line.put(" by thread ").number(static_cast<std::uint64_t>(stack.thread));
  line.put(stack.count == 0 ? ", call path unknown\n" : ":\n");
  os::write_line(line);
  // Skip the allocator's own frames.
  std::size_t first = 0;
  while (!exact && first < stack.count && is_own(stack.frames[first] - 1)) ++first;
  if (first == stack.count) first = 0;
  for (std::size_t i = first; i < stack.count; ++i) {
    write_frame(i - first, stack.frames[i] - (exact && i == 0 ? 0 : 1));
  }
}

// Writes one command that shows source lines, for the first frame that is not tarn's.
void write_hint(const call_stack& stack) {
  for (std::size_t i = 0; i < stack.count; ++i) {
    const std::uintptr_t address = stack.frames[i] - 1;
    unwind::loaded_module module;
    if (is_own(address) || !unwind::find_module_lock_free(address, module)) continue;
    const code_position in = position_of(module, address);
    if (in.file == nullptr) continue;
    text_writer line(line_text, sizeof line_text);
    line.put("tarn: for source lines, FILE+OFFSET of each: addr2line -Cfipe ").put(in.file).put(' ');
    line.pointer(reinterpret_cast<void*>(in.offset)).put('\n');
    os::write_line(line);
    return;
  }
}

void write_history(const guarded_slot& slot) {
  write_stack("allocated", slot.allocated, false);
  if (slot.state.load(std::memory_order_relaxed) == guarded_state::freed && slot.freed.count != 0) {
    write_stack("freed", slot.freed, false);
  }
  write_hint(slot.allocated);
}

text_writer& put_bytes(text_writer& line, std::uintptr_t count) {
  return line.number(count).put(count == 1 ? " byte" : " bytes");
}

// "3 bytes past the end of a block of 100 bytes at 0x…".
void put_distance(text_writer& line, const guarded_slot& slot, std::uintptr_t address) {
  const std::uintptr_t end = slot.start + slot.size;
  if (address < slot.start) {
    put_bytes(line, slot.start - address).put(" before the start of");
  } else if (address >= end) {
    put_bytes(line, address - end + 1).put(" past the end of");
  } else {
    line.put("byte ").number(address - slot.start).put(" of");
  }
  put_bytes(line.put(" a block of "), slot.size).put(" at ").pointer(reinterpret_cast<void*>(slot.start));
}

const char* kind_of(const guarded_slot& slot, std::uintptr_t address) {
  if (slot.state.load(std::memory_order_relaxed) == guarded_state::freed) return "use after free";
  return address < slot.start ? "underflow" : "overflow";
}

const char* name_of(access kind) {
  return kind == access::write ? "write" : kind == access::read ? "read" : "access";
}

}  // namespace

void write_fault(const guarded_slot& slot, const fault& what) {
  begin();
  text_writer line(line_text, sizeof line_text);
  line.put("tarn: ")
      .put(kind_of(slot, what.address))
      .put(": ")
      .pointer(reinterpret_cast<void*>(what.address));
  line.put(": ").put(name_of(what.kind)).put(", ");
  put_distance(line, slot, what.address);
  line.put('\n');
  os::write_line(line);
  write_history(slot);
  // Written last, because the stack may be damaged.
  present_stack.thread = os::thread_number();
  present_stack.count = unwind::walk(what.origin, present_stack.frames, call_stack::most);
  present_stack.frames[0] -= 1;  // walk() gives return addresses, this is the instruction itself
  write_stack(name_of(what.kind), present_stack, true);
  end();
}

void end_with_damage(const guarded_slot& slot, std::uintptr_t at) {
  begin();
  text_writer line(line_text, sizeof line_text);
  line.put("tarn: ").put(at < slot.start ? "underflow" : "overflow").put(": ");
  line.pointer(reinterpret_cast<void*>(at)).put(": found when the block was freed: write, ");
  put_distance(line, slot, at);
  line.put('\n');
  os::write_line(line);
  write_history(slot);
  os::end_process();
}

void end_with_bad_free(const guarded_slot& slot, const void* block) {
  begin();
  const std::uintptr_t distance = address_of(block) - slot.start;
  const char* const what = distance == 0          ? "double free"
                           : distance < slot.size ? "invalid free of a pointer into a block"
                                                  : "invalid free of a pointer that is not a block";
  text_writer line(line_text, sizeof line_text);
  line.put("tarn: ").put(what).put(": ").pointer(block).put(": ");
  put_distance(line, slot, address_of(block));
  line.put('\n');
  os::write_line(line);
  write_history(slot);
  present_stack.record();
  write_stack("free called", present_stack, false);
  os::end_process();
}

}  // namespace tarn::guarded_report
