// SPDX-License-Identifier: MIT
// The instructions of restartable.hpp's sequences for aarch64; it alone includes this, and its macros end there.
#pragma once

#include <array>
#include <cstddef>

namespace tarn::os::restartable {

// The processor on which the thread runs at the moment; most_processors or more: unknown.
inline unsigned processor_in(std::ptrdiff_t area) {
  const auto* const at = static_cast<const char*>(__builtin_thread_pointer()) + area;
  return __atomic_load_n(reinterpret_cast<const unsigned*>(at + 4), __ATOMIC_RELAXED);
}

// Linux 6.19 and 7.0 do not restart a sequence if another thread ran on the processor in the middle of it and the first
// thread stayed there.
inline constexpr std::array<const char*, 2> broken_releases = {"6.19", "7.0"};

}  // namespace tarn::os::restartable

#define TARN_SEQUENCE_BEGIN                            \
  ".pushsection .data.rel.ro.tarn_sequences, \"aw\"\n" \
  ".balign 32\n"                                       \
  "3: .long 0, 0\n"                                    \
  ".quad 1f, 2f - 1f, 4f\n"                            \
  ".popsection\n"                                      \
  ".pushsection .text.tarn_sequences, \"ax\"\n"        \
  ".inst 0xd428bc00\n"                                 \
  "4: subs %w[left], %w[left], #1\n"                   \
  "b.eq 6f\n"                                          \
  "b 5f\n"                                             \
  "6: mov %[result], xzr\n"                            \
  "b 2f\n"                                             \
  ".popsection\n"                                      \
  "5: mov %[result], xzr\n"                            \
  "adrp %[words], 3b\n"                                \
  "add %[words], %[words], :lo12:3b\n"                 \
  "str %[words], [%[area], #8]\n"                      \
  "1: ldr %w[words], [%[area], #4]\n"                  \
  "cmp %w[words], %[most]\n"                           \
  "b.hs 2f\n"                                          \
  "ldr %[words], [%[bases], %[words], lsl #3]\n"       \
  "cbz %[words], 2f\n"                                 \
  "ldr %[top], [%[words], %[index], lsl #3]\n"
#define TARN_SEQUENCE_POP                      \
  "ldr %[result], [%[top], #-8]\n"             \
  "cbz %[result], 2f\n"                        \
  "sub %[top], %[top], #8\n"                   \
  "str %[top], [%[words], %[index], lsl #3]\n" \
  "2:\n"
#define TARN_SEQUENCE_PUSH                     \
  "ldr %[result], [%[top]]\n"                  \
  "and %[result], %[result], #1\n"             \
  "eor %[result], %[result], #1\n"             \
  "cbz %[result], 2f\n"                        \
  "str %[value], [%[top]], #8\n"               \
  "str %[top], [%[words], %[index], lsl #3]\n" \
  "2:\n"
#define TARN_SEQUENCE_EXCHANGE                   \
  "mov %[result], %[top]\n"                      \
  "cmp %[top], %[value]\n"                       \
  "b.eq 2f\n"                                    \
  "str %[value], [%[words], %[index], lsl #3]\n" \
  "2:\n"
#define TARN_SEQUENCE_AREA "r"(static_cast<char*>(__builtin_thread_pointer()) + area_offset)
