// SPDX-License-Identifier: MIT
// session: the memory that the collector and the processes it profiles share, and the words that go through it.
// The collector makes it, as two files in memory; every recorded process maps both once, and its forked children inherit
// the mappings:
//
//   the header   what a process relies on: how many rings there are, where they lie, whether the collector still works.
//                Sealed: the collector alone writes it, every other process can only read it.
//   the state    what processes write: their slots, and the rings with their words. Sealed against a change of its
//                length, so that no process can take the others' memory away.
//
// Neither side relies on the state's content: processes record for programs of different rights, and any of them may
// overwrite all of it. A process takes no address and no index from it, and gives up recording where a ring's tail cannot
// be the collector's.
//
// Each recording thread owns one ring: it alone writes `head` and the words before it, the collector alone writes
// `tail`. Invariant: tail <= head <= tail + words of the ring. What a killed process leaves behind is whole up to head.
// The collector trusts nothing in it: any words whatever give a wrong profile at worst.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif
#include <fcntl.h>
#include <time.h>

namespace tarn::profiler {

// The variable that tells a program's recorder where the session is: "PID:DESCRIPTOR:INODE:DESCRIPTOR:INODE" of the
// collector, the header's and the state's.
inline constexpr const char* session_variable = "TARN_RECORD";

inline constexpr std::uint64_t session_magic = 0x3230636572726174;  // "tarrec02"
inline constexpr std::size_t process_slots = 4096;
inline constexpr std::size_t path_room = 208;

enum class record_mode : std::uint32_t { full, sample };
enum class tick_source : std::uint32_t {
  counter,
  system_clock
};  // the processor's, or CLOCK_MONOTONIC_RAW in ns

// Blocks from here on are always recorded, and looked at when they are freed.
inline constexpr std::size_t large_block_bytes = std::size_t{64} << 10;

// ---- words ----
// word 0: bits 0..3 kind, 4..18 ticks since the ring's last event, 19..63 an address >> 3, unless said otherwise.

enum class word_kind : std::uint8_t {
  padding = 0,
  malloc = 1,         // word 1: bits 0..31 node, 32..63 size; all ones there: a note has told it
  calloc = 2,         // likewise
  aligned = 3,        // likewise; a note has told the alignment
  operator_new = 4,   // likewise
  free = 5,           //
  realloc_begin = 6,  // the old block; what follows on this ring is the same call's end
  realloc_end = 7,    // the new one, as malloc; address 0: it failed, and the old block stays
  time = 8,           // bits 4..63: ticks; the events that follow are counted from here
  node = 9,           // bits 32..63 the parent's id, word 1 the return address; ids count from 1 on each ring
  operator_delete = 10,
  text = 11,    // bits 4..11 text_kind, 16..31 bytes, then them, then (module) 2 words
  thread = 12,  // bits 32..63 its id: from here on the ring is this thread's
  note = 13,    // bits 4..11 note_kind, 12..63 a figure that belongs to the ring's next event
  map = 14,     // word 1: bytes, word 2: bits 0..31 node, 32.. 1: anonymous
  unmap = 15,   // word 1: bytes
};

enum class text_kind : std::uint8_t {
  thread_name = 1,
  module = 2
};  // module: words start and end behind the path
enum class note_kind : std::uint8_t {
  size = 1,
  alignment = 2,
  usable = 3,
  checked_pages = 4,
  resident_pages = 5
};

inline constexpr unsigned kind_bits = 4;
inline constexpr unsigned ticks_bits = 15;
inline constexpr std::uint64_t most_ticks = (std::uint64_t{1} << ticks_bits) - 1;
inline constexpr unsigned address_shift = kind_bits + ticks_bits;
inline constexpr std::uint64_t most_address = std::uint64_t{1} << (64 - address_shift + 3);
inline constexpr std::uint32_t size_elsewhere = 0xffffffff;
inline constexpr std::size_t most_text_bytes = 4096;
inline constexpr std::size_t most_words = 4 + most_text_bytes / 8;  // of one event

constexpr std::uint64_t address_word(word_kind kind, std::uint64_t ticks, std::uint64_t address) {
  return static_cast<std::uint64_t>(kind) | ticks << kind_bits | (address >> 3) << address_shift;
}
constexpr std::uint64_t note_word(note_kind what, std::uint64_t figure) {
  return static_cast<std::uint64_t>(word_kind::note) | static_cast<std::uint64_t>(what) << 4 | figure << 12;
}

// ---- shared structures ----

enum class slot_state : std::uint32_t { free, claimed, live };

struct ring_header {
  alignas(64) std::atomic<std::uint64_t> head{
      0};  // in words, ever growing; release, pairs with the collector's acquire
  alignas(64) std::atomic<std::uint64_t> tail{0};  // release, pairs with the producer's acquire
  alignas(64) std::atomic<slot_state> state{slot_state::free};
  std::atomic<std::uint32_t> process{0};  // index of its process_slot
  std::atomic<std::uint64_t> process_serial{0};
};

struct usage_figures {
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;
  std::uint64_t user_ns = 0;
  std::uint64_t system_ns = 0;
};

// Written by the process, read by the collector, which also frees it.
struct process_slot {
  std::atomic<slot_state> state{slot_state::free};
  std::int32_t pid = 0;
  std::int32_t parent_pid = 0;
  std::uint64_t serial = 0;         // of this start of recording; never twice in a session
  std::uint64_t parent_serial = 0;  // forked without exec: whose call paths and modules it has; else 0
  std::uint64_t start_ticks = 0;
  std::atomic<std::uint64_t> lost_waiting{0};  // events given up because the collector did not make room
  std::atomic<std::uint64_t> lost_nested{0};   // in signal handlers that interrupted the recorder
  std::atomic<std::uint64_t> lost_threads{0};  // of threads that got no ring
  std::atomic<std::uint64_t> own_faults{0};    // page faults of the recorder's own
  std::atomic<std::uint64_t> unwind_checked{0};
  std::atomic<std::uint64_t> unwind_wrong{0};
  usage_figures at_start;  // of the process; an earlier program may have run in it
  usage_figures at_exit;
  std::atomic<std::uint32_t> ended{0};  // release, pairs with the collector's acquire: at_exit is there
  std::uint64_t allocator_start = 0;    // where its malloc's code lies
  std::uint64_t allocator_end = 0;
  char program[path_room] = {};    // /proc/self/exe, its end if it is too long
  char allocator[path_room] = {};  // the file that its malloc is in
};

// The first file: written by the collector alone.
struct session_header {
  std::uint64_t magic = session_magic;
  record_mode mode = record_mode::full;
  tick_source ticks = tick_source::counter;
  std::uint32_t tick_shift = 0;  // ticks are the source's >> this
  std::uint32_t rings = 0;
  std::uint32_t ring_words = 0;  // a power of two
  std::int32_t collector = 0;    // its pid
  std::uint64_t sample_bytes = 0;
  std::uint64_t rings_offset = 0;                       // bytes from the state's start: ring_header[rings]
  std::uint64_t words_offset = 0;                       // the rings' words
  std::uint64_t state_bytes = 0;                        // of the whole state
  alignas(64) std::atomic<std::uint32_t> recording{1};  // 0: the collector takes nothing more
  std::atomic<std::uint64_t> beat{0};                   // grows as long as the collector works
};

// The second file begins with it: written by all.
struct session_state {
  std::atomic<std::uint64_t> next_serial{1};
  std::atomic<std::uint32_t> next_ring{0};  // where to look for a free one first
  process_slot processes[process_slots];
};

// What the two files must be sealed with, so that a process may rely on their length and on the header's content.
inline constexpr int header_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
inline constexpr int state_seals = F_SEAL_SHRINK | F_SEAL_GROW;

inline constexpr std::uint32_t most_rings = 65536;
inline constexpr std::uint32_t most_ring_words = 1U << 24;

// Whether all that the header describes lies within a state of so many bytes.
constexpr bool describes_state(const session_header& header, std::uint64_t state_bytes) {
  if (header.magic != session_magic || header.state_bytes != state_bytes) return false;
  if (header.rings == 0 || header.rings > most_rings || header.ring_words > most_ring_words) return false;
  if (header.ring_words < most_words || (header.ring_words & (header.ring_words - 1)) != 0) return false;
  const std::uint64_t ring_bytes = std::uint64_t{header.rings} * sizeof(ring_header);
  const std::uint64_t word_bytes = std::uint64_t{header.rings} * header.ring_words * 8;
  return header.rings_offset % alignof(ring_header) == 0 && header.rings_offset >= sizeof(session_state) &&
         header.words_offset % 8 == 0 && header.words_offset <= state_bytes &&
         header.rings_offset <= header.words_offset &&
         ring_bytes <= header.words_offset - header.rings_offset &&
         word_bytes <= state_bytes - header.words_offset;
}

// ---- time ----

inline std::uint64_t read_ticks(tick_source source) {
  if (source == tick_source::counter) {
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    std::uint64_t ticks = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
  }
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000U + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace tarn::profiler
