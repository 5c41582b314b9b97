// SPDX-License-Identifier: MIT
#include "unwind/frame_step.hpp"

namespace tarn::unwind {

bool step(const frame_rule& rule, std::uintptr_t stack_pointer, std::uintptr_t frame_pointer,
          stack_memory& stack, frame_step& out) {
  std::uintptr_t cfa = 0;
  std::int32_t saved_frame_pointer = rule.saved_frame_pointer;
  std::int32_t saved_return = rule.saved_return;
  out.by_frame_pointer = true;
  switch (rule.kind) {
    case rule_kind::usual:
      cfa = (rule.from_frame_pointer ? frame_pointer : stack_pointer) +
            8 * static_cast<std::uintptr_t>(rule.cfa_offset);
      out.by_frame_pointer = rule.from_frame_pointer;
      break;
    case rule_kind::frame_pointer:
      cfa = frame_pointer + 16;
      saved_frame_pointer = 2;
      saved_return = 1;
      break;
    case rule_kind::realigned: {
      const std::uintptr_t at =
          frame_pointer + 8 * static_cast<std::uintptr_t>(static_cast<std::intptr_t>(rule.cfa_offset));
      if (at < stack_pointer || !stack.read(at, cfa)) return false;
      out.frame_pointer_slot = frame_pointer;
      break;
    }
    case rule_kind::end:
    case rule_kind::unknown: return false;
  }
  if (cfa <= stack_pointer || cfa % 8 != 0 || saved_return == 0) return false;
  out.pc_slot = cfa - 8 * static_cast<std::uintptr_t>(saved_return);
  if (saved_frame_pointer != 0)
    out.frame_pointer_slot = cfa - 8 * static_cast<std::uintptr_t>(saved_frame_pointer);
  if (out.pc_slot < stack_pointer || !stack.read(out.pc_slot, out.pc)) return false;
  out.pc = plain_address(out.pc);
  out.frame_pointer = frame_pointer;
  if (out.frame_pointer_slot != 0 && !stack.read(out.frame_pointer_slot, out.frame_pointer)) return false;
  out.stack_pointer = cfa;
  return out.pc > lowest_code;
}

}  // namespace tarn::unwind
