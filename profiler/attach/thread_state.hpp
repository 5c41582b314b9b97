// SPDX-License-Identifier: MIT
// thread_state: all that calls in a stopped thread change, and the frame from which the thread restores it by itself: the
// signal frame of the kernel, as if a signal had interrupted the thread, so that rt_sigreturn leads back. A call returns
// to code that ends in rt_sigreturn, so the thread goes on with its own work also if its tracer was killed at any moment.
// The frame is followed by some words for the tracer. Plain data and functions; any thread.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "base/architecture.hpp"

namespace tarn::profiler {

using register_set = user_regs_struct;

struct thread_state {
  register_set registers = {};
  std::vector<std::pair<int, std::vector<unsigned char>>> vectors;  // kind of the set (NT_…), and its bytes
  std::uint64_t mask = 0;                                           // of signals

  // False: the thread is gone. Requires that it is stopped.
  bool read_from(pid_t thread);
};

// The processor's sets of vector registers (NT_…).
std::span<const int> vector_sets();
bool get_registers(pid_t thread, register_set& set);
bool set_registers(pid_t thread, const register_set& set);
bool set_vectors(pid_t thread, const thread_state& state);

std::uint64_t program_counter(const register_set& set);
std::uint64_t stack_pointer(const register_set& set);
std::uint64_t control_block(
    const register_set& set);  // of the thread, in its own stack if it has been made by libc
std::uint64_t result_of(const register_set& set);

// The system call from which the thread comes, and what it returned. Number -1: from none.
struct interrupted_call {
  long number = -1;
  long result = 0;
};
interrupted_call call_of(const register_set& set);
// Whether the thread was stopped while it slept in a system call.
bool sleeps_in_call(pid_t process, const register_set& set);
// The system call in which the thread sleeps, and its first argument. Requires sleeps_in_call().
std::uint64_t number_of_sleep(const register_set& set);
std::uint64_t first_of_sleep(const register_set& set);
// Executes the system call again. Requires that call_of() has one.
void repeat_call(register_set& set);
// The registers with which the thread goes on if the kernel does not see to a restart: a signal frame cannot say that a
// call is to be restarted. A timeout then begins anew.
register_set resumed(const register_set& set);

// Words for the tracer, behind the frame. The code at the return address of a call writes `result`, then `is_done`,
// waits up to `wait` for the tracer to stop the thread, writes `error` to `error_address`, and restores the thread.
struct call_words {
  std::uint64_t result = 0;
  std::uint64_t is_done = 0;
  std::int64_t wait[2] = {1, 0};  // a timespec
  std::uint64_t error_address = 0;
  std::uint64_t error = 0;
};

// An address for a frame below `top`, as the stack pointer at the entry of a function.
std::uint64_t frame_address(const thread_state& state, std::uint64_t top);
std::uint64_t words_address(std::uint64_t frame);
// The bytes of the frame and its words.
std::vector<unsigned char> frame_of(const thread_state& state, std::uint64_t address,
                                    std::uint64_t return_address);
// The machine code for the return address of a call. Can be copied to anywhere.
std::span<const unsigned char> return_code();

// Sets the registers for a call that runs on the stack below the frame at `address`.
void prepare_call(register_set& set, std::uint64_t function, std::initializer_list<std::uint64_t> arguments,
                  std::uint64_t address, std::uint64_t return_address);
// Sets the registers for a system call by the instruction at `instruction`. `address` 0: there is no frame.
void prepare_system_call(register_set& set, std::uint64_t instruction, long number,
                         std::initializer_list<std::uint64_t> arguments, std::uint64_t address,
                         std::uint64_t return_address);

// How to find the context of a signal's handler on a stack: the word `index` of all contexts has this value, and the first
// word, its flags, is at most `most_flags`.
struct handler_mark {
  std::size_t index;
  std::uint64_t value;
  std::uint64_t most_flags;
};
handler_mark mark_of_handlers();

// Offsets in machine code of an instruction for a system call, and of one that makes the call rt_sigreturn; -1: none.
using arch::system_call_bytes;
long find_system_call(std::span<const unsigned char> code);
long find_sigreturn(std::span<const unsigned char> code);

}  // namespace tarn::profiler
