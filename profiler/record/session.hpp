// SPDX-License-Identifier: MIT
// session: the memory that the collector shares with the processes that it profiles, and the words that go through it.
//
//   the header       one file in memory, made by the collector: what processes rely on, and whether the collector still
//                    works. Sealed: the collector alone writes it, every other process can only read it.
//   a process file   one file in memory for each recorded process, made by that process: its page of figures, and the
//                    rings of its threads with their words. The process sends the descriptor to the collector's socket
//                    and closes it. No other process has the file: a forked child does not inherit the mapping
//                    (MADV_DONTFORK), and makes a file of its own. So a process can falsify no figures but its own.
//
// The kernel tells the collector who sent a file (SCM_CREDENTIALS). A file is accepted only if it is sealed against a
// change of its length, as a shorter file would end the collector by SIGBUS.
//
// Each recording thread owns one ring: it alone writes `head` and the words before it, the collector alone writes
// `tail`. Invariant: tail <= head <= tail + words of the ring. What a killed process leaves behind is whole up to head.
// The collector trusts nothing in a process file: any words whatever give a wrong profile of that process at worst.
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

// The variable that tells a program's recorder where the session is: "PID:DESCRIPTOR:INODE:ADDRESS:SECRET:SOCKET", numbers.
// PID is the collector's, DESCRIPTOR and INODE are of the header's file there. ADDRESS is in the name of the collector's
// socket, SOCKET its descriptor of another socket's place in the file system (0: there is none), for processes of another
// network namespace. SECRET is in each message, as any process of the system may send something to a socket.
inline constexpr const char* session_variable = "TARN_RECORD";

inline constexpr std::uint64_t session_magic = 0x3730636572726174;  // "tarrec07"
// The socket's name is these characters and ADDRESS in decimal, in the abstract namespace: it can be reached in a chroot,
// without /proc and after a change of user.
inline constexpr char socket_prefix[] = "tarn-session-";
inline constexpr std::size_t path_room = 208;

enum class record_mode : std::uint32_t { full, sample };
enum class tick_source : std::uint32_t {
  counter,
  system_clock
};  // the processor's, or CLOCK_MONOTONIC_RAW in ns

// Blocks from here on are always recorded, and looked at when they are freed.
inline constexpr std::size_t large_block_bytes = std::size_t{64} << 10;

// In mode full one call in so many is timed, on average, and every call of a large block.
inline constexpr std::uint32_t full_timed_every = 16;

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
  text = 11,    // bits 4..11 text_kind, 16..31 bytes, then them, then the words that it has
  thread = 12,  // bits 32..63 its id: from here on the ring is this thread's
  note = 13,    // bits 4..11 note_kind, 12..63 a figure that belongs to the ring's next event
  map = 14,     // word 1: bytes, word 2: bits 0..31 node, 32.. 1: anonymous
  unmap = 15,   // word 1: bytes
};

enum class text_kind : std::uint8_t {
  thread_name = 1,
  module = 2,  // words behind the path: its base, then start and end of the part that a call path led through
  script_line =
      3,  // function and file; then its script_address, and bits 0..31 the line, 32..63 the function's bytes
};
enum class note_kind : std::uint8_t {
  size = 1,
  alignment = 2,
  usable = 3,
  checked_pages = 4,
  resident_pages = 5,
  call_ticks =
      6,  // how long the call took, of the tick source, not shifted; bit 0 of the figure is call_is_doubtful
  untimed_call = 7,  // it was timed, and the kernel interrupted it
  // The last free or delete of the ring, told after it: the same two.
  free_ticks = 8,
  untimed_free = 9,
  // Where the stack of the ring's thread lies, told at its beginning, one after the other.
  stack_low = 10,
  stack_high = 11,
  // What a call that does nothing seemed to take, timed beside one that does something.
  nothing_ticks = 12
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
// The figure of call_ticks, free_ticks and nothing_ticks. Doubtful: the kernel may have interrupted it.
constexpr std::uint64_t ticks_figure(std::uint64_t ticks, bool doubtful) {
  return (ticks < (std::uint64_t{1} << 50) ? ticks : std::uint64_t{1} << 50) << 1 | (doubtful ? 1 : 0);
}
constexpr std::uint64_t note_word(note_kind what, std::uint64_t figure) {
  return static_cast<std::uint64_t>(word_kind::note) | static_cast<std::uint64_t>(what) << 4 | figure << 12;
}

// ---- shared structures ----

struct ring_header {
  alignas(64) std::atomic<std::uint64_t> head{
      0};  // in words, ever growing; release, pairs with the collector's acquire
  alignas(64) std::atomic<std::uint64_t> tail{0};  // release, pairs with the producer's acquire
};

struct usage_figures {
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;
  std::uint64_t user_ns = 0;
  std::uint64_t system_ns = 0;
  // Bytes that were resident at most, of all images of the process so far: tarn's own before exec is one of them.
  std::uint64_t peak_bytes = 0;
};

// Of process_page::ended.
inline constexpr std::uint32_t ended_and_gone = 1;
inline constexpr std::uint32_t ended_and_waits = 2;  // for the collector to look at its memory

// A process file begins with it. Fresh memory of zeroes is its beginning. Written by the process; the file is sent to the
// collector when all up to `program` and `allocator` is there.
struct process_page {
  std::atomic<std::uint32_t> rings{0};  // taken so far; release, pairs with the collector's acquire
  std::int32_t pid = 0;                 // in the process's own namespace
  std::int32_t parent_pid = 0;
  std::uint64_t serial = 0;         // of this start of recording: a random number that only descendants know
  std::uint64_t parent_serial = 0;  // forked without exec: whose call paths and modules it has; else 0
  std::uint64_t start_ticks = 0;
  std::atomic<std::uint64_t> lost_waiting{0};  // events given up because the collector did not make room
  std::atomic<std::uint64_t> lost_nested{0};   // in signal handlers that interrupted the recorder
  std::atomic<std::uint64_t> lost_threads{0};  // of threads that got no ring
  std::atomic<std::uint64_t> own_faults{0};    // page faults of the recorder's own
  std::atomic<std::uint64_t> unwind_checked{0};
  std::atomic<std::uint64_t> unwind_wrong{0};
  std::atomic<std::uint64_t> own_ticks{0};  // processor time of the recorder, of the tick source, not shifted
  usage_figures at_start;                   // of the process; an earlier program may have run in it
  std::uint64_t own_faults_before = 0;      // of own_faults, before at_start
  std::uint64_t own_start = 0;              // where the recorder's own code and data lie
  std::uint64_t own_end = 0;
  usage_figures at_exit;
  std::atomic<std::uint32_t> ended{0};  // release, pairs with the collector's acquire: at_exit is there
  std::atomic<std::uint32_t> asked_to_wait{0};  // by the collector: at its end, until it is released
  std::atomic<std::uint32_t> released{0};       // by the collector; release, pairs with the process's acquire
  std::uint64_t allocator_start = 0;            // where its malloc's code lies
  std::uint64_t allocator_end = 0;
  char program[path_room] = {};  // /proc/self/exe, its end if it is too long
  char command[path_room] = {};  // likewise what it was started as; /proc has that no more when it has ended
  char allocator[path_room] = {};  // the file that its malloc is in
};

// Written by the collector alone.
struct session_header {
  std::uint64_t magic = session_magic;
  record_mode mode = record_mode::full;
  tick_source ticks = tick_source::counter;
  std::uint32_t tick_shift = 0;  // ticks are the source's >> this
  std::uint32_t ring_words = 0;  // a power of two
  std::int32_t collector = 0;    // its pid
  std::uint64_t sample_bytes = 0;
  alignas(64) std::atomic<std::uint32_t> recording{1};  // 0: the collector takes nothing more
  std::atomic<std::uint64_t> beat{0};                   // grows as long as the collector works
};

// What goes to the socket, with the file's descriptor.
struct file_message {
  std::uint64_t magic = session_magic;
  std::uint64_t secret = 0;
};

// What the files must be sealed with, so that others may rely on their length and on the header's content.
inline constexpr int header_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
inline constexpr int process_seals = F_SEAL_SHRINK | F_SEAL_GROW;

inline constexpr std::uint32_t most_rings = 2048;  // of a process
inline constexpr std::uint32_t most_ring_words = 1U << 24;

constexpr bool is_usable(const session_header& header) {
  return header.magic == session_magic && header.ring_words <= most_ring_words &&
         header.ring_words >= most_words && (header.ring_words & (header.ring_words - 1)) == 0;
}

// Where things lie in a process file: the page, all ring headers, the words of as many rings as the file has room for.
inline constexpr std::uint64_t largest_page = std::uint64_t{64} << 10;  // of any system
constexpr std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + largest_page - 1) & ~(largest_page - 1);
}
inline constexpr std::uint64_t rings_offset = whole_pages(sizeof(process_page));
inline constexpr std::uint64_t words_offset =
    rings_offset + whole_pages(std::uint64_t{most_rings} * sizeof(ring_header));

constexpr std::uint64_t process_file_bytes(std::uint32_t rings, std::uint32_t ring_words) {
  return words_offset + std::uint64_t{rings} * ring_words * 8;
}
// 0: it is too short for one.
constexpr std::uint32_t rings_in(std::uint64_t bytes, std::uint32_t ring_words) {
  if (bytes < words_offset) return 0;
  const std::uint64_t rings = (bytes - words_offset) / (std::uint64_t{ring_words} * 8);
  return rings < most_rings ? static_cast<std::uint32_t>(rings) : most_rings;
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
