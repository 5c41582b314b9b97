// SPDX-License-Identifier: MIT
// frame_rule: how to get from a frame to its caller's, for one program counter, as .eh_frame tells it.
// Thread safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>

struct link_map;

namespace tarn::unwind {

enum class rule_kind : std::uint8_t {
  unknown,        // not in the table
  usual,          // CFA = stack or frame pointer + offset; the rest is saved at fixed distances below it
  end,            // the outermost frame, or one that nothing is known of
  frame_pointer,  // no information: a chain of frame pointers, as compiled code of interpreters keeps
  realigned,      // CFA = *(frame pointer + offset), as functions that align their stack keep it
};

// Offsets are in 8 bytes. Invariant: of kind usual, saved_return > 0 on x86-64.
struct frame_rule {
  rule_kind kind = rule_kind::unknown;
  bool from_frame_pointer = false;
  std::int32_t cfa_offset = 0;
  std::int32_t saved_frame_pointer = 0;  // below the CFA; 0: it was not saved here
  std::int32_t saved_return = 0;         // likewise; 0: still in its register
};

// Reads the rule for `pc`, an address within the calling instruction, from the entry of .eh_frame for its function (an FDE;
// see unwind_table). Takes no lock, allocates nothing. The rule depends on nothing but `pc`, the bytes of the entry, the
// bytes of the common entry that it names (a CIE), and the address of both.
frame_rule parse_entry(std::uintptr_t pc, const unsigned char* entry);

// The module that `pc` is in, as the dynamic linker knows it. [start, end) holds `pc`; it is the whole module, or one
// segment of a module that has holes between its segments.
struct loaded_module {
  const unsigned char* unwind_header = nullptr;  // .eh_frame_hdr
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;
  std::uintptr_t base = 0;     // an address in memory less the same one in the file's headers
  const char* path = nullptr;  // "" for the program itself
  const link_map* map = nullptr;
};
// Asks the dynamic linker without its lock (glibc 2.35 and newer). False also where it cannot be asked so.
bool find_module_lock_free(std::uintptr_t pc, loaded_module& found);
// The same; with an older glibc it takes the linker's lock.
bool find_module(std::uintptr_t pc, loaded_module& found);

}  // namespace tarn::unwind
