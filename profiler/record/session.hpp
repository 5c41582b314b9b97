// SPDX-License-Identifier: MIT
// session: the memory that the collector shares with the processes that it profiles, and the format of the words in
// their rings.
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
//   a process file:  | process_page | ring_header[most_rings] | words of ring 0 | words of ring 1 | ... |
//                    0              rings_offset              words_offset
//
// Each recording thread owns one ring: only that thread writes `head` and the words before it, only the collector
// writes `tail`. Invariant: tail <= head <= tail + words of the ring. If a process is killed, the words up to
// `head` are complete. The memory of words that were read is given back before `tail` passes them, unless the thread tells
// so much that it needs them again at once. The collector trusts nothing in a process file: whatever the words are, the
// worst result is a wrong profile of that process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <fcntl.h>

#include "profiler/proc/tick_source.hpp"

namespace tarn::profiler {

// The environment variable that tells a program's recorder where the session is: six numbers,
// "PID:DESCRIPTOR:INODE:ADDRESS:SECRET:SOCKET". PID is the collector's process id; DESCRIPTOR and INODE are those
// of the header's file in the collector. ADDRESS is part of the name of the collector's socket. SOCKET is the
// collector's descriptor of a second socket's place in the file system (0: there is none), for processes in other
// network namespaces. SECRET is part of each message, as any process may send something to a socket.
inline constexpr const char* session_variable = "TARN_RECORD";

inline constexpr std::uint64_t session_magic = 0x3131636572726174;  // "tarrec11"
// The socket's name is these characters and ADDRESS in decimal, in the abstract namespace: it can be reached in a
// chroot, without /proc and after a change of user.
inline constexpr char socket_prefix[] = "tarn-session-";
inline constexpr std::size_t path_room = 208;

enum class record_mode : std::uint32_t { full, sample };

// Blocks of at least this size are always recorded, and their residency is checked when they are freed.
inline constexpr std::size_t large_block_bytes = std::size_t{64} << 10;

// Mode full: one call in this many is timed, on average; calls for large blocks always are.
inline constexpr std::uint32_t full_timed_every = 16;

// Mode sample: the mean distance of samples is session_header::sample_bytes, halved first_halvings times when a process
// begins to record. It doubles after this many samples of the process, until no halving is left: short programs get
// samples enough, and long ones this many more for each halving.
inline constexpr std::uint32_t samples_before_doubling = 128;

// What an allocation takes off the countdown to the next sample. Numbers of blocks and time in malloc go by calls and not by
// bytes: without a part for the call, blocks of 16 bytes are so rare among the samples that their number is a guess.
inline constexpr std::size_t bytes_of_call = 64;
constexpr std::size_t countdown_of(std::size_t size) { return size + bytes_of_call; }

// ---- words ----
// word 0: bits 0..3 kind, 4..18 ticks since the ring's last event, 19..63 an address >> 3, unless said otherwise.

enum class word_kind : std::uint8_t {
  padding = 0,
  malloc = 1,         // word 1: bits 0..31 node, 32..63 size; size all ones: it is in a note before
  calloc = 2,         // as malloc
  aligned = 3,        // as malloc; the alignment is in a note before
  operator_new = 4,   // as malloc
  free = 5,           // one word
  realloc_begin = 6,  // the old block; the next event of this ring is the end of the same call
  realloc_end = 7,    // the new block, as malloc; address 0: realloc failed, and the old block stays
  time = 8,           // bits 4..63: absolute ticks; the following events count from here
  node = 9,           // bits 32..63 the parent's id, word 1 the return address; ids count from 1 on each ring
  operator_delete = 10,
  text = 11,    // bits 4..11 text_kind, 16..31 number of bytes; then the bytes, then the words of its kind
  thread = 12,  // bits 32..63 its id: from here on the ring belongs to this thread
  note = 13,    // bits 4..11 note_kind, 12..63 a figure of the ring's next event, unless said otherwise
  map = 14,     // word 1: bytes, word 2: bits 0..31 node
  unmap = 15,   // word 1: bytes
};

enum class text_kind : std::uint8_t {
  thread_name = 1,
  // A path, a zero byte, and the build-id that the memory has (empty: not known). Words after it: load base, then start
  // and end of the segment that a call path leads through, as in call paths (module_names.hpp).
  module = 2,
  // Function and file; then its script_address, and bits 0..31 the line, 32..63 the function's bytes.
  script_line = 3,
};
enum class note_kind : std::uint8_t {
  size = 1,
  alignment = 2,
  usable = 3,
  checked_pages = 4,
  resident_pages = 5,
  // Duration of the call in ticks of the source, not shifted; bit 0 of the figure: doubtful (ticks_figure).
  call_ticks = 6,
  untimed_call = 7,  // the call was timed, but the kernel interrupted it
  // The same two for the last free or delete of the ring, written after it.
  free_ticks = 8,
  untimed_free = 9,
  // Where the stack of the ring's thread ends, upwards; written when the thread begins.
  stack_end = 10,
  // The measured duration of a call that does nothing, timed right after another call.
  nothing_ticks = 11,
  // Of the distance of the ring's sampled blocks from here on.
  halvings = 12,
  // An address >> 3: the ring's last `unmap`, of that address, was refused. An unmap is told before the call, as another
  // thread may map memory at the same place right after it.
  unmap_refused = 13,
  // From here on node ids count from 1 again.
  nodes_anew = 14
};

inline constexpr unsigned kind_bits = 4;
inline constexpr unsigned ticks_bits = 15;
inline constexpr std::uint64_t most_ticks = (std::uint64_t{1} << ticks_bits) - 1;
inline constexpr unsigned address_shift = kind_bits + ticks_bits;
inline constexpr std::uint32_t size_elsewhere = 0xffffffff;
inline constexpr std::size_t most_text_bytes = 4096;
inline constexpr std::size_t most_words = 4 + most_text_bytes / 8;  // of the longest entry, a text

constexpr std::uint64_t address_word(word_kind kind, std::uint64_t ticks, std::uint64_t address) {
  return static_cast<std::uint64_t>(kind) | ticks << kind_bits | (address >> 3) << address_shift;
}
// The figure of call_ticks, free_ticks and nothing_ticks. `doubtful`: the kernel may have interrupted the call.
constexpr std::uint64_t ticks_figure(std::uint64_t ticks, bool doubtful) {
  return (ticks < (std::uint64_t{1} << 50) ? ticks : std::uint64_t{1} << 50) << 1 | (doubtful ? 1 : 0);
}
constexpr std::uint64_t note_word(note_kind what, std::uint64_t figure) {
  return static_cast<std::uint64_t>(word_kind::note) | static_cast<std::uint64_t>(what) << 4 | figure << 12;
}

// ---- shared structures ----

struct ring_header {
  alignas(64) std::atomic<std::uint64_t> head{
      0};  // in words, ever growing; release: partner of the collector's acquire
  alignas(64) std::atomic<std::uint64_t> tail{0};  // release: partner of the producer's acquire
};

struct usage_figures {
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;
  std::uint64_t user_ns = 0;
  std::uint64_t system_ns = 0;
  // Peak resident bytes of all images of the process so far, including tarn's own before exec.
  std::uint64_t peak_bytes = 0;
};

// Of process_page::ended.
inline constexpr std::uint32_t ended_and_gone = 1;
inline constexpr std::uint32_t ended_and_waits = 2;  // until the collector has examined its memory

// Of process_page::silence: why the process reports nothing more.
enum class silence : std::uint32_t { none, strict_mode, no_counter, no_collector };

// Bits of process_page::unread_scripts: interpreters of versions, or of builds, whose functions are not read.
inline constexpr std::uint32_t unread_python = 1;
inline constexpr std::uint32_t unread_lua = 2;

// Begins a process file. Its initial state is zeroed memory. Written by the process, except asked_to_wait and
// released; the process sends the file to the collector once all members that describe it, `program` and
// `allocator` included, are filled.
struct process_page {
  // Taken so far; relaxed: a ring that no thread has taken yet is all zeroes.
  std::atomic<std::uint32_t> rings{0};
  std::int32_t pid = 0;  // in the process's own namespace
  std::int32_t parent_pid = 0;
  std::uint64_t serial = 0;  // of this recording: a random number that only descendants know
  // Of the process that forked it without exec, whose call paths and modules it has; else 0.
  std::uint64_t parent_serial = 0;
  std::uint64_t start_ticks = 0;
  std::atomic<std::uint64_t> lost_waiting{0};  // events lost while the collector showed no sign of life
  // Events lost in signal handlers that interrupted the recorder, and those that such a handler has left by a jump.
  std::atomic<std::uint64_t> lost_nested{0};
  std::atomic<std::uint64_t> lost_threads{0};  // threads that got no ring
  std::atomic<std::uint64_t> own_faults{0};    // page faults taken by the recorder
  std::atomic<std::uint64_t> unwind_checked{0};
  std::atomic<std::uint64_t> unwind_wrong{0};
  std::atomic<std::uint64_t> own_ticks{0};  // processor time of the recorder, of the tick source, not shifted
  usage_figures at_start;                   // of the process; an earlier program may have run in it
  std::uint64_t own_faults_before = 0;      // part of own_faults that happened before at_start
  std::uint64_t own_start = 0;              // where the recorder's code and data lie
  std::uint64_t own_end = 0;
  usage_figures at_exit;
  std::atomic<std::uint32_t> ended{0};  // release: partner of the collector's acquire: at_exit is there
  // Set by the collector: wait at the end until `released` is set.
  std::atomic<std::uint32_t> asked_to_wait{0};
  // Set by the collector; release: partner of the process's acquire.
  std::atomic<std::uint32_t> released{0};
  std::atomic<silence> silent_because{silence::none};  // relaxed: it only adds a sentence to the profile
  std::atomic<std::uint32_t> unread_scripts{0};        // likewise
  std::uint64_t allocator_start = 0;                   // where the code of the process's malloc lies
  std::uint64_t allocator_end = 0;
  char program[path_room] = {};  // /proc/self/exe; of one that is too long, its end
  // The name that it was started by, cut in the same way. /proc does not have it after the process's end.
  char command[path_room] = {};
  char allocator[path_room] = {};  // the file of the process's malloc
};

// Written by the collector alone.
struct session_header {
  std::uint64_t magic = session_magic;
  record_mode mode = record_mode::full;
  tick_source ticks = tick_source::counter;
  std::uint32_t tick_shift = 0;  // ticks in the rings are the source's ticks >> tick_shift
  std::uint32_t ring_words = 0;  // a power of two
  std::int32_t collector = 0;    // its pid
  std::uint64_t sample_bytes = 0;
  std::uint32_t first_halvings = 0;
  alignas(64) std::atomic<std::uint32_t> recording{1};  // 0: the collector takes no more events
  std::atomic<std::uint64_t> beat{0};    // grows as long as the collector lives, also while it is busy
  std::atomic<std::uint64_t> rounds{0};  // that it has begun: in each it looks at all rings and arrivals
};

// The message to the collector's socket, which carries the file's descriptor.
struct file_message {
  std::uint64_t magic = session_magic;
  std::uint64_t secret = 0;
};

// Seals that the files must have, so that other processes can rely on their length and on the header's content.
inline constexpr int header_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
inline constexpr int process_seals = F_SEAL_SHRINK | F_SEAL_GROW;

inline constexpr std::uint32_t most_rings = 2048;  // of a process
inline constexpr std::uint32_t most_ring_words = 1U << 24;

constexpr bool is_usable(const session_header& header) {
  return header.magic == session_magic && header.ring_words <= most_ring_words &&
         header.ring_words >= most_words && (header.ring_words & (header.ring_words - 1)) == 0;
}

// Layout of a process file: the page, all ring headers, then the words of as many rings as the file has room for.
inline constexpr std::uint64_t largest_page = std::uint64_t{64} << 10;  // largest page size of any system
constexpr std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + largest_page - 1) & ~(largest_page - 1);
}
inline constexpr std::uint64_t rings_offset = whole_pages(sizeof(process_page));
inline constexpr std::uint64_t words_offset =
    rings_offset + whole_pages(std::uint64_t{most_rings} * sizeof(ring_header));

constexpr std::uint64_t process_file_bytes(std::uint32_t rings, std::uint32_t ring_words) {
  return words_offset + std::uint64_t{rings} * ring_words * 8;
}
// 0: the file is too short for a ring.
constexpr std::uint32_t rings_in(std::uint64_t bytes, std::uint32_t ring_words) {
  if (bytes < words_offset) return 0;
  const std::uint64_t rings = (bytes - words_offset) / (std::uint64_t{ring_words} * 8);
  return rings < most_rings ? static_cast<std::uint32_t>(rings) : most_rings;
}

}  // namespace tarn::profiler
