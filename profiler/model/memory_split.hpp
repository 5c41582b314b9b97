// SPDX-License-Identifier: MIT
// memory_split: what the resident memory of a whole process consists of, at several times of its run. Plain data.
// Invariant of a row: its parts add up to all resident mappings of the process at that time; no byte is in two of
// them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tarn::profiler {

struct memory_row {
  std::uint64_t time_ns = 0;  // since the start
  double resident_bytes = 0;  // what the kernel counts for the process (VmRSS)
  double live = 0;            // requested bytes of living blocks, as far as they are resident
  double live_variance = 0;   // variance of `live` due to sampling
  double rounding = 0;        // bytes that malloc gave to the same blocks beyond the requested ones
  double kept = 0;            // malloc's other memory: free blocks, caches, its own data
  double mapped = 0;          // memory that the program or a library maps itself
  double files = 0;           // code and data of files as they are in the page cache
  double written = 0;         // static data: pages of files that were written to, and .bss
  double stacks = 0;
  double shared = 0;     // memory shared with other processes
  double recorder = 0;   // memory of tarn's recorder
  double other = 0;      // memory without a file about which nothing more is known
  double untouched = 0;  // requested bytes of living blocks that are not resident: beside the parts

  double sum() const noexcept {
    return live + rounding + kept + mapped + files + written + stacks + shared + recorder + other;
  }
  // Without what is free.
  double in_use() const noexcept { return sum() - kept; }
};

// Whether `row` is nearer to the live peak than `than`: more of it is in use. What is resident decides between equal ones, and
// where no block is known. (Freed memory often stays resident until the end, when nothing is in use any more.)
inline bool says_more(const memory_row& row, const memory_row& than) noexcept {
  const bool knows_blocks = row.live > 0 || than.live > 0;
  if (knows_blocks && row.in_use() != than.in_use()) return row.in_use() > than.in_use();
  return row.resident_bytes >= than.resident_bytes;
}

// The name of that part of memory_row::kept which lies near no live block. The other parts of `kept` have the sites whose
// blocks pin them. In a profile that holds samples of the blocks only, `kept` has no parts.
inline constexpr const char* pinned_by_nobody = "[near no live block]";
// Of live blocks, what the exact sum has more than samples and pools tell.
inline constexpr const char* live_not_sampled = "[live, but not sampled]";

// A part of a row: the bytes of one site or of one file.
struct memory_part {
  std::uint64_t time_ns = 0;  // of the row
  std::string kind;           // name of the member of memory_row that it is a part of
  std::string name;           // a file; empty if there is a site, or neither
  std::uint32_t site = 0;     // index into profile::sites, + 1; 0: none
  double bytes = 0;
  double variance = 0;
};

struct memory_history {
  std::vector<memory_row> rows;  // by time
  std::vector<memory_part>
      // Of the highest row (says_more), followed by those of the last row.
      parts;

  // The row of the live peak, by which every view tells who held the memory; null: there is none.
  const memory_row* highest() const noexcept;
};

struct memory_column {
  const char* name;
  double memory_row::*member;
};

inline constexpr std::array memory_columns = {
    memory_column{"resident_bytes", &memory_row::resident_bytes},
    memory_column{"live", &memory_row::live},
    memory_column{"live_variance", &memory_row::live_variance},
    memory_column{"rounding", &memory_row::rounding},
    memory_column{"kept", &memory_row::kept},
    memory_column{"mapped", &memory_row::mapped},
    memory_column{"files", &memory_row::files},
    memory_column{"written", &memory_row::written},
    memory_column{"stacks", &memory_row::stacks},
    memory_column{"shared", &memory_row::shared},
    memory_column{"recorder", &memory_row::recorder},
    memory_column{"other", &memory_row::other},
    memory_column{"untouched", &memory_row::untouched},
};
static_assert(sizeof(memory_row) == sizeof(std::uint64_t) + memory_columns.size() * sizeof(double),
              "a member is missing above");

inline const memory_row* memory_history::highest() const noexcept {
  const memory_row* most = nullptr;
  for (const memory_row& row : rows) {
    // The file's first parts are those of the row that the collector chose as the highest.
    if (!parts.empty() && row.time_ns == parts.front().time_ns) return &row;
    if (most == nullptr || says_more(row, *most)) most = &row;
  }
  return most;
}

}  // namespace tarn::profiler
