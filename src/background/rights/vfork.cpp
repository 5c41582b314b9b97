// SPDX-License-Identifier: MIT
// The gate of vfork and its other name in libc, whose child runs in its parent's memory with the parent's thread
// pointer. The gate has no frame of its own when it enters the next definition, since the child may return from vfork's
// caller before the parent does.
#include "background/rights/next.hpp"
#include "engine/engine.hpp"
#include "tarn/malloc.h"

extern "C" [[gnu::used, gnu::visibility("hidden")]] void* tarn_gate_before_vfork() noexcept {
  tarn::engine::before_vfork();
  return tarn::rights::next_address(tarn::rights::call::vfork);
}

extern "C" TARN_API int vfork() noexcept;

#if defined(__x86_64__)
asm(".pushsection .text\n"
    ".globl vfork\n"
    ".globl __vfork\n"
    ".type vfork, @function\n"
    "vfork:\n"
    ".cfi_startproc\n"
    "endbr64\n"
    "subq $8, %rsp\n"
    ".cfi_adjust_cfa_offset 8\n"
    "call tarn_gate_before_vfork\n"
    "addq $8, %rsp\n"
    ".cfi_adjust_cfa_offset -8\n"
    "jmp *%rax\n"
    ".cfi_endproc\n"
    ".size vfork, . - vfork\n"
    ".set __vfork, vfork\n"
    ".popsection\n");
#else
asm(".pushsection .text\n"
    ".globl vfork\n"
    ".globl __vfork\n"
    ".type vfork, %function\n"
    "vfork:\n"
    ".cfi_startproc\n"
    "hint 34\n"  // bti c
    "stp x29, x30, [sp, #-16]!\n"
    ".cfi_adjust_cfa_offset 16\n"
    ".cfi_rel_offset x30, 8\n"
    "bl tarn_gate_before_vfork\n"
    "ldp x29, x30, [sp], #16\n"
    ".cfi_adjust_cfa_offset -16\n"
    ".cfi_restore x30\n"
    "mov x16, x0\n"
    "br x16\n"
    ".cfi_endproc\n"
    ".size vfork, . - vfork\n"
    ".set __vfork, vfork\n"
    ".popsection\n");
#endif
