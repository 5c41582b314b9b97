// SPDX-License-Identifier: MIT
#include "unwind/stack_memory.hpp"

#include <sys/auxv.h>
#include <sys/mman.h>

#include "base/units.hpp"
#include "os/readable_word.hpp"
#include "os/syscall.hpp"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace tarn::unwind {

namespace {

// Addresses farther than this from the stack pointer are not part of the stack.
constexpr std::uintptr_t longest_stack = gib;
// The smallest page of any system: if one byte of it is readable, all bytes are.
constexpr std::uintptr_t least_page = 4 * kib;

std::uintptr_t page_start(std::uintptr_t address, std::uintptr_t page) { return address & ~(page - 1); }

bool populates(std::uintptr_t address) {
  const auto page = static_cast<std::uintptr_t>(getauxval(AT_PAGESZ));
  return os::system_call(SYS_madvise, page_start(address, page), page, MADV_POPULATE_READ) == 0;
}

// An emulator may accept any advice, even for the page of the null pointer: check that it refuses that one.
bool is_readable_by_madvise(std::uintptr_t address) { return populates(address) && !populates(0); }

bool is_readable(std::uintptr_t address, stack_memory::question asked) {
  switch (asked) {
    case stack_memory::question::sigprocmask: return os::ask_for_word(address) == os::word_state::readable;
    case stack_memory::question::madvise: return is_readable_by_madvise(address);
    case stack_memory::question::none: break;
  }
  return false;
}

}  // namespace

// Not inlined: the page of its own frame is known to be readable.
[[gnu::noinline]] stack_memory::stack_memory(std::uintptr_t stack_pointer, question asked)
    : lowest_(stack_pointer), asked_(asked) {
  known_.low = page_start(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)), least_page);
  known_.high = known_.low + least_page;
}

bool stack_memory::ask_for_page(std::uintptr_t address) {
  if (address < lowest_ || address - lowest_ >= longest_stack || !is_readable(address, asked_)) return false;
  const std::uintptr_t start = page_start(address, least_page);
  if (start == known_.high) {
    known_.high += least_page;
  } else if (start + least_page == known_.low) {
    known_.low = start;
  } else {
    known_ = {start, start + least_page};
  }
  return true;
}

bool stack_memory::extend_down(stack_bounds& known, std::uintptr_t address, question asked) {
  while (address < known.low) {
    if (!is_readable(known.low - least_page, asked)) return false;
    known.low -= least_page;
  }
  return true;
}

}  // namespace tarn::unwind
