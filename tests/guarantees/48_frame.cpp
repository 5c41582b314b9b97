// SPDX-License-Identifier: MIT
// A library with one function, allocate_in_frame(allocate, bytes), which returns allocate(bytes) and has a stack frame
// of FRAME_BYTES bytes. Libraries built with different FRAME_BYTES differ only in this number and in their unwind
// tables: their functions have the same offset. The code of the function may be copied elsewhere.
// Thread safety: any thread.
#define TEXT(number) TEXT_OF(number)
#define TEXT_OF(number) #number

#if defined(__x86_64__)
asm(R"(
  .text
  .globl allocate_in_frame
  .type allocate_in_frame, @function
allocate_in_frame:
  .cfi_startproc
  sub $()" TEXT(FRAME_BYTES) R"( + 8), %rsp
  .cfi_adjust_cfa_offset )" TEXT(FRAME_BYTES) R"( + 8
  mov %rdi, %rax
  mov %rsi, %rdi
  call *%rax
  add $()" TEXT(FRAME_BYTES) R"( + 8), %rsp
  .cfi_adjust_cfa_offset -()" TEXT(FRAME_BYTES) R"( + 8)
  ret
  .cfi_endproc
  .size allocate_in_frame, . - allocate_in_frame
)");
#else
asm(R"(
  .text
  .globl allocate_in_frame
  .type allocate_in_frame, %function
allocate_in_frame:
  .cfi_startproc
  stp x29, x30, [sp, #-16]!
  .cfi_def_cfa_offset 16
  .cfi_offset 29, -16
  .cfi_offset 30, -8
  sub sp, sp, #)" TEXT(FRAME_BYTES) R"(
  .cfi_adjust_cfa_offset )" TEXT(FRAME_BYTES) R"(
  mov x2, x0
  mov x0, x1
  blr x2
  add sp, sp, #)" TEXT(FRAME_BYTES) R"(
  .cfi_adjust_cfa_offset -)" TEXT(FRAME_BYTES) R"(
  ldp x29, x30, [sp], #16
  .cfi_def_cfa_offset 0
  .cfi_restore 29
  .cfi_restore 30
  ret
  .cfi_endproc
  .size allocate_in_frame, . - allocate_in_frame
)");
#endif
