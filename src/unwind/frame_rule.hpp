// SPDX-License-Identifier: MIT
// frame_rule: how to find a frame's caller, for one program counter, as .eh_frame describes it. CFA (canonical frame
// address): the stack pointer's value before the call.
// Thread safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>

struct link_map;
struct dl_find_object;

namespace tarn::unwind {

enum class rule_kind : std::uint8_t {
  unknown,        // no rule (in a rule_table: none is kept for this program counter)
  usual,          // CFA = stack or frame pointer + offset; registers are saved at fixed distances below it
  end,            // the walk ends: outermost frame (no return address), or a signal frame
  frame_pointer,  // no usable information: assume a chain of frame pointers, as generated code has
  realigned,      // CFA = *(frame pointer + offset): a function that has realigned its stack
};

// Offsets are in units of 8 bytes.
struct frame_rule {
  rule_kind kind = rule_kind::unknown;
  bool from_frame_pointer = false;
  std::int32_t cfa_offset = 0;
  std::int32_t saved_frame_pointer = 0;  // saved this far below the CFA; 0: not saved
  std::int32_t saved_return = 0;         // likewise; 0: still in its register (aarch64)
};

// Reads the rule for `pc`, an address within the calling instruction, from `entry`, the .eh_frame entry (FDE) of its
// function (see unwind_table). Takes no lock, allocates nothing. The result depends only on `pc`, on the bytes of the
// entry and of the common entry (CIE) that it names, and on the addresses of both.
frame_rule parse_entry(std::uintptr_t pc, const unsigned char* entry);

// The module that contains `pc`, as the dynamic linker knows it. [start, end) contains `pc`: the whole module, or one
// segment if the module has gaps between its segments.
struct loaded_module {
  const unsigned char* unwind_header = nullptr;  // .eh_frame_hdr
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
  std::uintptr_t base = 0;     // load address: address in memory minus address in the file's headers
  const char* path = nullptr;  // "" for the program itself
  const link_map* map = nullptr;
};
// The dynamic linker's _dl_find_object; null changes nothing. It is looked up by its name, which a static program cannot do.
using object_finder = int (*)(void*, dl_find_object*);
void set_object_finder(object_finder finder);
// Asks the dynamic linker without taking its lock (glibc 2.35 and newer). False: no module contains `pc`, or glibc is
// older.
bool find_module_lock_free(std::uintptr_t pc, loaded_module& found);
// The same, but with an older glibc it takes the linker's lock.
bool find_module(std::uintptr_t pc, loaded_module& found);

}  // namespace tarn::unwind
