// SPDX-License-Identifier: MIT
// restartable: three operations on the words of the processor on which the calling thread runs, each of which happens
// as a whole or not at all with respect to every other thread of that processor, without an atomic instruction.
//
// Each is a restartable sequence (rseq, Linux 4.18): if the kernel takes the processor from the thread, moves the
// thread or runs a signal handler in it before the last instruction of the sequence, the one that stores the word, then
// the thread continues at the beginning of the sequence instead. The kernel knows where the sequence lies from a
// descriptor, whose address the sequence stores into an area that libc has registered for the thread (glibc 2.35).
// Nothing else in that area is ever written, and no system call is made in a sequence, as the kernel requires.
//
// A word is the address of a slot of an array: the slot above the last object, `top`:
//
//    slots:   | 0 | object | … | object |  not used  | … | end_mark |
//                                        ^ top
//
// Thread safety: any thread and any signal handler, if usable(). Other processors' words: stop_all().
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#if defined(__x86_64__)
#include "os/restartable_x86_64.hpp"
#else
#include "os/restartable_aarch64.hpp"
#endif

namespace tarn::os::restartable {

#pragma GCC visibility push(hidden)

// The kernel numbers processors from 0 to less than this.
inline constexpr unsigned most_processors = 8192;
// What lies behind the last slot that may be used. No object has an odd address.
inline constexpr std::uintptr_t end_mark = 1;

// Whether this system and this library can run restartable sequences, and stop those of other threads. Makes system
// calls.
bool usable();
// Whether usable() holds for the calling thread, whose area libc may not have registered. usable() has returned true.
bool usable_in_this_thread();
// Ends all sequences that other threads are in at the time: none that began before this call stores its word after it,
// and what they have stored is visible to the caller. False: the system refuses, or the process is in a sandbox that
// may forbid the call.
bool stop_all();

// Distance of the thread's area from its thread pointer. Written once, by usable().
extern std::ptrdiff_t area_offset;

#pragma GCC visibility pop

// Per processor: its words, or null.
using bases = std::uintptr_t* const*;

// After this many restarts in one call the sequence is given up: a debugger that steps through it restarts it each
// time.
inline constexpr unsigned most_restarts = 64;

// ---- the common frame of the sequences ----
// Labels: 1 first instruction, 2 behind the last one, 3 descriptor, 4 where the kernel continues an interrupted
// sequence, 5 where it is begun anew. A branch to 2 leaves it without a store. `words` becomes the words of the
// processor, `top` the word, `result` what TARN_SEQUENCE_BEGIN sets to 0 and the rest sets.

// TARN_SEQUENCE_… of the processor: restartable_x86_64.hpp, restartable_aarch64.hpp.

#define TARN_SEQUENCE(body, ...)                                                                   \
  asm volatile(TARN_SEQUENCE_BEGIN body                                                            \
               : [result] "=&r"(result), [top] "=&r"(top), [words] "=&r"(words), [left] "+r"(left) \
               : [area] TARN_SEQUENCE_AREA, [bases] "r"(of_all), [index] "r"(index),               \
                 [most] "i"(most_processors)__VA_OPT__(, ) __VA_ARGS__                             \
               : "memory", "cc")

// The object below the top, which is removed. Null: there is none, or the processor has no words.
TARN_ALWAYS_INLINE void* pop(bases of_all, std::size_t index) {
  void* result = nullptr;
  std::uintptr_t top = 0;
  std::uintptr_t words = 0;
  unsigned left = most_restarts;
  TARN_SEQUENCE(TARN_SEQUENCE_POP);
  return result;
}

// Puts an object on top. False: the slots are full, or the processor has no words.
TARN_ALWAYS_INLINE bool push(bases of_all, std::size_t index, void* object) {
  std::uintptr_t result = 0;
  std::uintptr_t top = 0;
  std::uintptr_t words = 0;
  unsigned left = most_restarts;
  TARN_SEQUENCE(TARN_SEQUENCE_PUSH, [value] "r"(object));
  return result != 0;
}

struct exchanged {
  void** top;             // what the word was; null: the processor has no words
  std::uintptr_t* words;  // whose word it is
};
// Sets the word to `value`. If it is `value` already, nothing is stored: a thread that has set it may be storing
// another word, from another processor.
inline exchanged exchange(bases of_all, std::size_t index, void** value) {
  void** result = nullptr;
  std::uintptr_t top = 0;
  std::uintptr_t* words = nullptr;
  unsigned left = most_restarts;
  TARN_SEQUENCE(TARN_SEQUENCE_EXCHANGE, [value] "r"(value));
  return {result, words};
}

// The processor on which the thread runs at the moment; most_processors or more: unknown.
inline unsigned processor() { return processor_in(area_offset); }

#undef TARN_SEQUENCE
#undef TARN_SEQUENCE_AREA
#undef TARN_SEQUENCE_BEGIN
#undef TARN_SEQUENCE_POP
#undef TARN_SEQUENCE_PUSH
#undef TARN_SEQUENCE_EXCHANGE

}  // namespace tarn::os::restartable
