// SPDX-License-Identifier: MIT
// probe: static tracepoints (USDT): a nop, and a note in .note.stapsdt that tells perf, bpftrace, SystemTap and
// OpenTelemetry's profiler where the nop is and where its arguments are. Without a tracer a probe costs the nop, and what
// it takes to have its arguments in registers; a probe with a semaphore is skipped unless a tracer has raised it.
//
//   TARN_PROBE_SEMAPHORE(provider, name)            at namespace scope, in one file
//   TARN_PROBE_IF_WANTED(provider, name, args…)     the probe, if a tracer has raised its semaphore
//   TARN_PROBE(name, args…)                         a probe of provider `tarn` without a semaphore
//
// The allocator's own probes: refill (object size, objects), span_made (address, bytes, object size), purge (address,
// bytes), lock_wait (address of the lock).
//
// One to three arguments, integers or pointers; all are passed as 8 bytes. A note is, after its header: the addresses of
// the nop, of the section .stapsdt.base (if it was moved after linking, the others have moved as far) and of the
// semaphore; then provider, name, and the arguments as "SIZE@OPERAND".
#pragma once

#include <cstdint>

// clang-format off
#define TARN_PROBE_TEXT(provider, name, semaphore, arguments)                             \
  "990:\tnop\n"                                                                           \
  "\t.pushsection .note.stapsdt,\"?\",\"note\"\n"                                         \
  "\t.balign 4\n"                                                                         \
  "\t.4byte 992f-991f, 994f-993f, 3\n"                                                    \
  "991:\t.asciz \"stapsdt\"\n"                                                            \
  "992:\t.balign 4\n"                                                                     \
  "993:\t.8byte 990b\n"                                                                   \
  "\t.8byte _.stapsdt.base\n"                                                             \
  "\t.8byte " semaphore "\n"                                                              \
  "\t.asciz \"" provider "\"\n"                                                           \
  "\t.asciz \"" name "\"\n"                                                               \
  "\t.asciz \"" arguments "\"\n"                                                          \
  "994:\t.balign 4\n"                                                                     \
  "\t.popsection\n"                                                                       \
  "\t.ifndef _.stapsdt.base\n"                                                            \
  "\t.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"               \
  "\t.weak _.stapsdt.base\n"                                                              \
  "\t.hidden _.stapsdt.base\n"                                                            \
  "_.stapsdt.base:\t.space 1\n"                                                           \
  "\t.size _.stapsdt.base, 1\n"                                                           \
  "\t.popsection\n"                                                                       \
  "\t.endif\n"
// clang-format on

#define TARN_PROBE_1(provider, name, semaphore, a) \
  asm volatile(TARN_PROBE_TEXT(provider, name, semaphore, "8@%0") : : "r"(tarn::os::probe_argument(a)))
#define TARN_PROBE_2(provider, name, semaphore, a, b)                  \
  asm volatile(TARN_PROBE_TEXT(provider, name, semaphore, "8@%0 8@%1") \
               :                                                       \
               : "r"(tarn::os::probe_argument(a)), "r"(tarn::os::probe_argument(b)))
#define TARN_PROBE_3(provider, name, semaphore, a, b, c)                             \
  asm volatile(TARN_PROBE_TEXT(provider, name, semaphore, "8@%0 8@%1 8@%2")          \
               :                                                                     \
               : "r"(tarn::os::probe_argument(a)), "r"(tarn::os::probe_argument(b)), \
                 "r"(tarn::os::probe_argument(c)))
#define TARN_PROBE_CHOSEN(_1, _2, _3, chosen, ...) chosen

#define TARN_PROBE_SEMAPHORE(provider, name)                                                 \
  extern "C" {                                                                               \
  __attribute__((visibility("hidden"))) extern unsigned short provider##_##name##_semaphore; \
  __attribute__((visibility("hidden"), section(".probes"),                                   \
                 used)) unsigned short provider##_##name##_semaphore = 0;                    \
  }

#define TARN_PROBE_IF_WANTED(provider, name, ...)                                              \
  do {                                                                                         \
    if (__atomic_load_n(&provider##_##name##_semaphore, __ATOMIC_RELAXED) != 0) [[unlikely]] { \
      TARN_PROBE_CHOSEN(__VA_ARGS__, TARN_PROBE_3, TARN_PROBE_2, TARN_PROBE_1, )               \
      (#provider, #name, #provider "_" #name "_semaphore", __VA_ARGS__);                       \
    }                                                                                          \
  } while (false)

#define TARN_PROBE(name, ...)                                                \
  TARN_PROBE_CHOSEN(__VA_ARGS__, TARN_PROBE_3, TARN_PROBE_2, TARN_PROBE_1, ) \
  ("tarn", #name, "0", __VA_ARGS__)

namespace tarn::os {

template <class T>
std::uint64_t probe_argument(T* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}
inline std::uint64_t probe_argument(std::uint64_t number) { return number; }

}  // namespace tarn::os
