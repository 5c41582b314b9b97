// SPDX-License-Identifier: MIT
#include "os/stack_walk.hpp"

#include "base/units.hpp"

// The highest address of the first thread's stack that the kernel has filled; the dynamic linker's.
extern "C" [[gnu::weak]] void* __libc_stack_end;  // NOLINT(readability-identifier-naming): libc's name

namespace tarn::unwind {

namespace {

// Rules that were asked for before; 16 KiB.
constinit rules<10> known_rules;

// Beyond this a bound is not believed.
constexpr std::uintptr_t longest_stack = gib;
constexpr std::uintptr_t unknown_stack = 64 * kib;

bool readable(std::uintptr_t address, const stack_bounds& bounds) {
  return address % 8 == 0 && address >= bounds.low && address < bounds.high && bounds.high - address >= 8;
}

bool find_rule(std::uintptr_t pc, frame_rule& out) {
  out = known_rules.find(pc);
  if (out.kind != rule_kind::unknown) return true;
  loaded_module module;
  if (!find_module_lock_free(pc, module)) return false;
  out = parse_frame_rule(pc, module.unwind_header);
  known_rules.insert(pc, out);
  return true;
}

}  // namespace

bool step(const frame_rule& rule, std::uintptr_t stack_pointer, std::uintptr_t frame_pointer,
          const stack_bounds& bounds, frame_step& out) {
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
      if (at < stack_pointer || !readable(at, bounds) || !readable(frame_pointer, bounds)) return false;
      cfa = read_word(at);
      out.frame_pointer_slot = frame_pointer;
      break;
    }
    case rule_kind::end:
    case rule_kind::unknown:
      return false;
  }
  if (cfa <= stack_pointer || cfa % 8 != 0 || cfa > bounds.high || saved_return == 0) return false;
  out.pc_slot = cfa - 8 * static_cast<std::uintptr_t>(saved_return);
  if (saved_frame_pointer != 0)
    out.frame_pointer_slot = cfa - 8 * static_cast<std::uintptr_t>(saved_frame_pointer);
  if (out.pc_slot < stack_pointer || !readable(out.pc_slot, bounds)) return false;
  out.pc = plain_address(read_word(out.pc_slot));
  out.frame_pointer = frame_pointer;
  if (out.frame_pointer_slot != 0) {
    if (!readable(out.frame_pointer_slot, bounds)) return false;
    out.frame_pointer = read_word(out.frame_pointer_slot);
  }
  out.stack_pointer = cfa;
  return out.pc > 4096;
}

stack_bounds bounds_from(std::uintptr_t stack_pointer) {
  stack_bounds out{stack_pointer, stack_pointer + unknown_stack};
  const auto own_data = reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
  const std::uintptr_t first_end =
      &__libc_stack_end != nullptr ? reinterpret_cast<std::uintptr_t>(__libc_stack_end) : 0;
  std::uintptr_t nearest = longest_stack;
  for (const std::uintptr_t end : {own_data, first_end}) {
    if (end <= stack_pointer || end - stack_pointer >= nearest) continue;
    nearest = end - stack_pointer;
    out.high = end;
  }
  return out;
}

std::size_t walk(const frame_origin& origin, const stack_bounds& bounds, std::uintptr_t* out,
                 std::size_t most) {
  frame_step now;
  now.pc = origin.return_address;
  now.stack_pointer = origin.stack_pointer;
  now.frame_pointer = origin.frame_pointer;
  std::size_t count = 0;
  while (count < most) {
    out[count++] = now.pc;
    frame_rule rule;
    // A chain of frame pointers is a guess, and a wrong one may lead out of the stack.
    if (!find_rule(now.pc - 1, rule) || rule.kind == rule_kind::frame_pointer) break;
    frame_step next;
    if (!step(rule, now.stack_pointer, now.frame_pointer, bounds, next)) break;
    now = next;
  }
  return count;
}

}  // namespace tarn::unwind
