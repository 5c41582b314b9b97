// SPDX-License-Identifier: MIT
// x86-64; by architecture.hpp alone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn::arch {

inline constexpr const char* multiarch = "x86_64-linux-gnu";
inline constexpr std::uint16_t elf_machine = 62;  // EM_X86_64
// Of relocations: of a called function's address, of an address in a table, of one elsewhere.
inline constexpr std::uint32_t slot_of_call = 7, slot_of_address = 6, word_of_address = 1;
inline constexpr const char* vdso_clock = "__vdso_clock_gettime";

inline constexpr std::size_t largest_system_page = 4096;
// A tagged pointer faults at its first use.
inline constexpr bool ignores_top_byte = false;

// ---- registers ----

// DWARF's numbers.
inline constexpr unsigned frame_pointer_register = 6;
inline constexpr unsigned stack_pointer_register = 7;
inline constexpr unsigned return_register = 16;
inline constexpr bool call_pushes_return_address = true;
inline constexpr std::uintptr_t code_address_bits = ~std::uintptr_t{0};

// Of the function into which it is inlined.
[[gnu::always_inline]] inline void read_registers(std::uintptr_t& program_counter,
                                                  std::uintptr_t& stack_pointer,
                                                  std::uintptr_t& frame_pointer) {
  asm volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
               : "=&r"(program_counter), "=&r"(stack_pointer), "=&r"(frame_pointer));
}

// Makes GCC load `value` into the result register directly, and `beside` elsewhere: one instruction less.
template <class Value, class Other>
[[gnu::always_inline]] inline void load_as_result(Value& value, Other& beside) {
  asm("" : "+a"(value), "+d"(beside));
}

// For a loop that waits for another thread without giving up the processor.
inline void pause() { __builtin_ia32_pause(); }
// Whether the counter runs at one rate by definition; here the system tells.
inline constexpr bool counter_is_steady = false;
inline std::uint64_t counter() { return __builtin_ia32_rdtsc(); }

// ---- system calls ----

inline long call_kernel(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  long result = 0;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

inline constexpr unsigned system_call_bytes = 2;
// The first instruction of functions that may be called by pointer.
inline constexpr std::uint32_t landing_pad = 0xfa1e0ff3;  // endbr64
// Whether code begins with this system call: mov $number, %eax; syscall; and a byte of what follows.
constexpr bool is_system_call(std::uint64_t code, long number) {
  return code << 8 == (0x050f00000000b8 | static_cast<std::uint64_t>(number) << 8) << 8;
}

// `call`: clone. clone(flags, stack_top, number, alive, thread_pointer); the child calls tarn_engine_thread_main(which).
inline long clone_thread(long call, long flags, void* stack_top, void* thread_pointer, void* number,
                         void* alive, long which) {
  long result = 0;
  register long r10 asm("r10") = reinterpret_cast<long>(alive);
  register long r8 asm("r8") = reinterpret_cast<long>(thread_pointer);
  register long r9 asm("r9") = which;  // no argument of clone; the child finds it there
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %%r9, %%rdi\n\t"
      "call tarn_engine_thread_main\n\t"
      "hlt\n"
      "1:"
      : "=a"(result)
      : "a"(call), "D"(flags), "S"(stack_top), "d"(number), "r"(r10), "r"(r8), "r"(r9)
      : "rcx", "r11", "memory");
  return result;
}

// Before the place where the kernel continues an interrupted restartable sequence.
inline constexpr std::uint32_t restartable_signature = 0x53053053;

}  // namespace tarn::arch
