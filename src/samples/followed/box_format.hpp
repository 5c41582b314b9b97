// SPDX-License-Identifier: MIT
// box_format: the layout of a black box: a file, mapped by one process, in which the figures of the heap profile's call sites lie
// while the process runs. It can be read however the process ended. Written by black_box, read by profiler/model/box_profile.
//
//   box_header | record | record | ... | zeros up to box_figures_at | two texts of box_figures_room bytes
//
// The texts are the engine's figures in the format OpenMetrics, among them those of pools, scopes and size classes. They are
// written in turn, so that one is whole at any time.
// A record is a box_record and its content, at a multiple of box_unit. One that is not finished has the kind `none`, and one
// whose length is not written yet reads as zeros: a reader leaves both out. The figures of a site change in place, each word by
// itself: a reader may find one that counts a block which another does not count yet. Everything in a box comes from the
// process, and may be wrong.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tarn {

inline constexpr std::size_t box_unit = 16;
inline constexpr std::size_t most_box_bytes = std::size_t{8} << 20;
inline constexpr std::size_t box_figures_room = std::size_t{256} << 10;
inline constexpr std::size_t box_figures_at = most_box_bytes - 2 * box_figures_room;
inline constexpr char box_magic[8] = {'t', 'a', 'r', 'n', 'b', 'o', 'x', '1'};

// The content of a site's record: what its samples stand for (samples/followed/call_sites.hpp), and `count` return addresses,
// innermost first.
struct box_site {
  std::uint64_t blocks;  // in units of 2^-box_weight_shift, as live_blocks
  std::uint64_t bytes;
  std::uint64_t live_blocks;
  std::uint64_t live_bytes;
  std::uint64_t samples;
  std::uint64_t live_samples;
  double blocks_variance;
  double bytes_variance;
  double live_bytes_variance;
  double lifetime_seconds;
  std::uint32_t number;
  std::uint32_t count;
};
inline constexpr unsigned box_weight_shift = 12;

// The content of a module's: code of a file that was mapped at [start, end). A later one at the same place has replaced it.
struct box_module {
  static constexpr std::size_t longest_build_id = 32;

  std::uint64_t start;
  std::uint64_t end;
  std::uint64_t file_offset;  // of `start`
  std::uint64_t older;        // where the content of the module's record before lies; 0: there is none
  std::uint32_t build_id_length;
  std::uint32_t path_length;  // 0: box_header::program
  std::uint8_t build_id[longest_build_id];
  // The path follows.
};

struct box_record {
  enum class content : std::uint32_t { none, site, module };
  // relaxed: a reader that finds a record before its content finds zeros, which it leaves out or which add nothing.
  std::atomic<content> kind;
  std::uint32_t bytes;  // of the record, this head included: a multiple of box_unit
  std::uint64_t unused;
};
static_assert(sizeof(box_record) == box_unit);

struct box_range {
  static constexpr std::size_t most = 512 + 16;

  std::uint64_t start;
  std::uint64_t end;
};

struct box_header {
  static constexpr std::size_t longest_program = 1024;
  static constexpr std::size_t longest_arguments = 2048;

  char magic[sizeof box_magic];
  std::uint32_t header_bytes;  // sizeof(box_header): another layout has another size
  std::uint32_t has_ended;     // by exit() or _exit(), with this status
  std::int32_t status;
  std::uint32_t site_bytes;     // sizeof(box_site), likewise
  std::uint64_t bytes;          // of the file
  std::uint64_t process;        // in its namespace
  std::uint64_t start_ticks;    // of the process: with its id, who it is
  std::uint64_t pid_namespace;  // its number; 0: not known
  std::uint64_t start_ns;       // when the box was opened, since 1970
  std::uint64_t mean;           // bytes between two samples
  // At the last sample that began or ended: malloc's pages that are in use, at most resident; its free ones that are resident;
  // and its structures.
  std::uint64_t heap_in_use;
  std::uint64_t heap_free;
  std::uint64_t heap_metadata;
  std::uint64_t figures_before;  // figures_written then
  // What all samples that have begun, less those that have ended, stand for, and the sum of their variances: what has changed since
  // the engine's figures is a difference of these.
  std::int64_t sampled_change;
  double change_variance;
  // How many texts have been written: the newest has the number (figures_written - 1) % 2. Whoever reads the box of a process
  // that runs may find a text that is being replaced.
  std::uint64_t figures_written;
  struct {
    std::uint64_t bytes;
    std::uint64_t time_ns;        // since 1970
    std::int64_t sampled_change;  // when the engine began to write, as change_variance
    double change_variance;
  } figures[2];
  // Where malloc's memory and its structures lie, at the last change that was seen, in any order. Two copies as of the texts.
  std::uint64_t ranges_written;
  struct {
    std::uint64_t version;
    std::uint64_t count;  // more than `most`: they are not known
    box_range all[box_range::most];
  } ranges[2];
  char program[longest_program];      // its file
  char arguments[longest_arguments];  // as in /proc/PID/cmdline
};

}  // namespace tarn
