// SPDX-License-Identifier: MIT
// tail_page: the memory in which libtarn_tail counts the calls of one run of a program, by their duration. The command makes
// it as a file in memory of fixed length, and reads it after the run; all processes of the run map it, so that nothing is
// to be written at a process's end, however it ends. They may write anything into it: the worst result is a wrong table.
//
// A thread counts in one slot; more threads than slots share them, so counts are added by atomic operations. All are relaxed: the
// command reads after the processes have ended.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "profiler/proc/tick_source.hpp"
#include "profiler/tail/tail_histogram.hpp"

namespace tarn::profiler::tail {

// The environment variable that has the file's path. The engine knows names that begin so, and does not report them as unknown.
inline constexpr const char* page_variable = "TARN_RECORD_TAIL";
inline constexpr std::uint64_t page_magic = 0x31316c6961746e74;  // "tntail11"

// What is called: malloc, calloc, memalign and the like, operator new; free and operator delete; realloc of a block.
enum class call_kind : std::uint8_t { get, give, resize };
inline constexpr std::size_t kind_count = 3;

// By what was asked for. Small blocks, blocks that allocators still keep in caches of threads, blocks that they take from
// larger spans, and blocks that are mapped one by one.
inline constexpr std::size_t group_limits[] = {std::size_t{1} << 10, std::size_t{32} << 10,
                                               std::size_t{1} << 20};
inline constexpr std::size_t group_count = 4;
constexpr std::uint8_t group_of(std::size_t size) {
  if (size <= group_limits[0]) return 0;
  if (size <= group_limits[1]) return 1;
  return size <= group_limits[2] ? 2 : 3;
}

// What happened to the thread during the call.
enum class call_state : std::uint8_t {
  whole,       // nothing, or it waited inside of malloc
  faulted,     // it took page faults
  interrupted  // the kernel gave its processor to another thread, or a signal handler ran
};
inline constexpr std::size_t state_count = 3;

struct counted_calls {
  std::atomic<std::uint64_t> buckets[bucket_count];
  std::atomic<std::uint64_t> worst;
};

inline constexpr std::size_t place_count = kind_count * group_count * state_count;
constexpr std::size_t place_of(call_kind kind, std::size_t group, call_state state) {
  return (static_cast<std::size_t>(kind) * group_count + group) * state_count +
         static_cast<std::size_t>(state);
}

struct thread_slot {
  counted_calls calls[place_count];  // by place_of()
};
inline constexpr std::size_t slot_count = 64;

struct tail_header {
  std::uint64_t magic = page_magic;
  tick_source source = tick_source::counter;
  std::atomic<std::uint32_t> threads{0};   // that have counted; thread n uses slot n % slot_count
  std::atomic<std::uint32_t> by_usage{0};  // of these: watched by getrusage, not by events of the kernel
  std::atomic<std::int32_t> refusal{0};    // errno of an event that the kernel refused
  // Duration of a call of an empty function, which is subtracted from all; of the process that has started last.
  std::atomic<std::uint64_t> timer_ticks{0};
};

struct tail_page {
  alignas(4096) tail_header header;
  alignas(4096) thread_slot slots[slot_count];
};

}  // namespace tarn::profiler::tail
