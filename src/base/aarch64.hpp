// SPDX-License-Identifier: MIT
// aarch64; by architecture.hpp alone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn::arch {

inline constexpr const char* multiarch = "aarch64-linux-gnu";
inline constexpr std::uint16_t elf_machine = 183;  // EM_AARCH64
// Of relocations: of a called function's address, of an address in a table, of one elsewhere.
inline constexpr std::uint32_t slot_of_call = 1026, slot_of_address = 1025, word_of_address = 257;
inline constexpr const char* vdso_clock = "__kernel_clock_gettime";

inline constexpr std::size_t largest_system_page = std::size_t{64} << 10;
// A tagged pointer accesses the same memory as the pointer that was handed out.
inline constexpr bool ignores_top_byte = true;

// ---- registers ----

// DWARF's numbers.
inline constexpr unsigned frame_pointer_register = 29;
inline constexpr unsigned stack_pointer_register = 31;
inline constexpr unsigned return_register = 30;
inline constexpr bool call_pushes_return_address = false;
// Above them a return address may have a signature.
inline constexpr std::uintptr_t code_address_bits = (std::uintptr_t{1} << 48) - 1;

// Of the function into which it is inlined.
[[gnu::always_inline]] inline void read_registers(std::uintptr_t& program_counter,
                                                  std::uintptr_t& stack_pointer,
                                                  std::uintptr_t& frame_pointer) {
  asm volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29"
               : "=&r"(program_counter), "=&r"(stack_pointer), "=&r"(frame_pointer));
}

// GCC needs no hint.
template <class Value, class Other>
[[gnu::always_inline]] inline void load_as_result(Value&, Other&) {}

// For a loop that waits for another thread without giving up the processor.
inline void pause() { asm volatile("yield"); }
// Whether the counter runs at one rate by definition.
inline constexpr bool counter_is_steady = true;
inline std::uint64_t counter() {
  std::uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
}

// ---- system calls ----

inline long call_kernel(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory", "cc");
  return x0;
}

inline constexpr unsigned system_call_bytes = 4;
// The first instruction of functions that may be called by pointer.
inline constexpr std::uint32_t landing_pad = 0xd503245f;  // bti c
// Whether code begins with this system call: mov x8, number; svc 0.
constexpr bool is_system_call(std::uint64_t code, long number) {
  return code == (0xd4000001ULL << 32 | 0xd2800008 | static_cast<std::uint64_t>(number) << 5);
}

// `call`: clone. clone(flags, stack_top, number, thread_pointer, alive); the child calls tarn_engine_thread_main(which).
inline long clone_thread(long call, long flags, void* stack_top, void* thread_pointer, void* number,
                         void* alive, long which) {
  register long x8 asm("x8") = call;
  register long x0 asm("x0") = flags;
  register long x1 asm("x1") = reinterpret_cast<long>(stack_top);
  register long x2 asm("x2") = reinterpret_cast<long>(number);
  register long x3 asm("x3") = reinterpret_cast<long>(thread_pointer);
  register long x4 asm("x4") = reinterpret_cast<long>(alive);
  register long x5 asm("x5") = which;  // no argument of clone; the child finds it there
  asm volatile(
      "svc 0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "mov x0, x5\n\t"
      "bl tarn_engine_thread_main\n\t"
      "brk 1\n"
      "1:"
      : "+r"(x0)
      : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
      : "memory", "cc", "x30");
  return x0;
}

// Before the place where the kernel continues an interrupted restartable sequence.
inline constexpr std::uint32_t restartable_signature = 0xd428bc00;

}  // namespace tarn::arch
