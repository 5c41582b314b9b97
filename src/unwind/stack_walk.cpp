// SPDX-License-Identifier: MIT
#include "unwind/stack_walk.hpp"

#include "os/sandbox.hpp"
#include "unwind/rule_table.hpp"

namespace tarn::unwind {

namespace {

// Rules already looked up; 24 KiB.
constinit checked_rules known_rules;

// Consecutive frames often belong to the same module.
bool find_module_again(std::uintptr_t pc, loaded_module& module) {
  return (pc >= module.start && pc < module.end) || find_module_lock_free(pc, module);
}

// A filter that allows malloc allows madvise; strict mode allows neither.
stack_memory::question question_now() {
  if (os::in_strict_mode()) return stack_memory::question::none;
  return os::in_sandbox() ? stack_memory::question::madvise : stack_memory::question::sigprocmask;
}

}  // namespace

std::size_t walk(const frame_origin& origin, std::uintptr_t* out, std::size_t most) {
  stack_memory stack(origin.stack_pointer, question_now());
  loaded_module module;
  frame_step now;
  now.pc = origin.return_address;
  now.stack_pointer = origin.stack_pointer;
  now.frame_pointer = origin.frame_pointer;
  std::size_t count = 0;
  while (count < most) {
    out[count++] = now.pc;
    if (!find_module_again(now.pc - 1, module)) break;
    const frame_rule rule = known_rules.rule_for(now.pc - 1, module.unwind_header);
    // Following frame pointers is a guess; a wrong one leads to addresses that are not code.
    if (rule.kind == rule_kind::frame_pointer) break;
    frame_step next;
    if (!step(rule, now.stack_pointer, now.frame_pointer, stack, next)) break;
    now = next;
  }
  return count;
}

}  // namespace tarn::unwind
