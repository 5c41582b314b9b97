// SPDX-License-Identifier: MIT
// The instructions of restartable.hpp's sequences for x86-64; it alone includes this, and its macros end there.
#pragma once

#include <array>
#include <cstddef>

namespace tarn::os::restartable {

// The processor on which the thread runs at the moment; most_processors or more: unknown.
inline unsigned processor_in(std::ptrdiff_t area) {
  unsigned number = 0;
  asm volatile("movl %%fs:4(%[area]), %[number]" : [number] "=r"(number) : [area] "r"(area));
  return number;
}

// Releases of Linux that do not restart a sequence where they must: none; the system is not asked.
inline constexpr std::array<const char*, 0> broken_releases = {};

}  // namespace tarn::os::restartable

#define TARN_SEQUENCE_BEGIN                            \
  ".pushsection .data.rel.ro.tarn_sequences, \"aw\"\n" \
  ".balign 32\n"                                       \
  "3: .long 0, 0\n"                                    \
  ".quad 1f, 2f - 1f, 4f\n"                            \
  ".popsection\n"                                      \
  ".pushsection .text.tarn_sequences, \"ax\"\n"        \
  ".byte 0x0f, 0xb9, 0x3d\n"                           \
  ".long 0x53053053\n"                                 \
  "4: decl %[left]\n"                                  \
  "jnz 5f\n"                                           \
  "xorl %k[result], %k[result]\n"                      \
  "jmp 2f\n"                                           \
  ".popsection\n"                                      \
  "5: xorl %k[result], %k[result]\n"                   \
  "leaq 3b(%%rip), %[words]\n"                         \
  "movq %[words], %%fs:8(%[area])\n"                   \
  "1: movl %%fs:4(%[area]), %k[words]\n"               \
  "cmpl %[most], %k[words]\n"                          \
  "jae 2f\n"                                           \
  "movq (%[bases], %[words], 8), %[words]\n"           \
  "testq %[words], %[words]\n"                         \
  "jz 2f\n"                                            \
  "movq (%[words], %[index], 8), %[top]\n"
#define TARN_SEQUENCE_POP                  \
  "movq -8(%[top]), %[result]\n"           \
  "testq %[result], %[result]\n"           \
  "jz 2f\n"                                \
  "subq $8, %[top]\n"                      \
  "movq %[top], (%[words], %[index], 8)\n" \
  "2:\n"
#define TARN_SEQUENCE_PUSH                 \
  "testb $1, (%[top])\n"                   \
  "jnz 2f\n"                               \
  "movq %[value], (%[top])\n"              \
  "addq $8, %[top]\n"                      \
  "movl $1, %k[result]\n"                  \
  "movq %[top], (%[words], %[index], 8)\n" \
  "2:\n"
#define TARN_SEQUENCE_EXCHANGE               \
  "movq %[top], %[result]\n"                 \
  "cmpq %[value], %[top]\n"                  \
  "je 2f\n"                                  \
  "movq %[value], (%[words], %[index], 8)\n" \
  "2:\n"
#define TARN_SEQUENCE_AREA "r"(area_offset)
