// SPDX-License-Identifier: MIT
// process_maps: the mappings of a process with their resident sizes, from /proc/PID/smaps, and which pages of a
// range are present, from /proc/PID/pagemap. Both need the rights of the same user. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tarn::profiler {

struct mapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  // in the file
  std::string name;          // a path, a name of the kernel's in brackets ("[heap]"), or empty
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  bool undumped = false;  // MADV_DONTDUMP: the recorder's memory is marked so
  double resident_bytes = 0;
  double anonymous_bytes = 0;  // of these, in pages without a file (private copies included)

  bool is_file() const noexcept { return !name.empty() && name.front() == '/'; }
};

// Sorted by address. Empty optional: the process has ended, or its maps may not be read.
std::optional<std::vector<mapping>> read_mappings(std::uint32_t process);
// The same from the text of smaps, or, without sizes, of maps.
std::vector<mapping> parse_mappings(const std::string& text);

// The file of whose static data (.bss) this mapping is a part: it has no name, and lies behind the file's parts. Null: of none.
const mapping* file_of_static_data(const std::vector<mapping>& all, std::size_t index);
// Where the stacks of a process's threads may be, the first thread's aside.
struct stack_pointers {
  std::vector<std::uint64_t> known;  // of threads that wait
  std::size_t unknown = 0;           // threads that run, or may not be traced
};
stack_pointers stack_pointers_of(std::uint32_t process);
// The length of stacks that a program does not choose; 0: there is none.
std::uint64_t usual_stack_bytes(std::uint32_t process);
// Which of the mappings that `may_be` are stacks: those behind a guard that have a pointer, whose lengths come into `lengths`; and for
// each thread whose pointer is unknown, or leads elsewhere (to a signal handler's stack, to a coroutine's), another one behind a guard
// that has one of these lengths, those with most resident memory.
std::vector<bool> stacks_among(const std::vector<mapping>& all, const stack_pointers& of,
                               const std::vector<bool>& may_be, std::set<std::uint64_t>& lengths);

// The pages of one range that are in memory.
class resident_pages {
 public:
  static constexpr std::uint64_t most_bytes = std::uint64_t{16} << 30;

  // The pages of [start, end). All of them are present if `resident_bytes` says so. If pagemap cannot be read, or
  // the range is longer than most_bytes, every page counts in proportion to the resident share of the range.
  resident_pages(int pagemap, std::uint64_t start, std::uint64_t end, double resident_bytes);

  // Bytes of [from, to) in resident pages; bytes outside of the range do not count.
  double bytes_in(std::uint64_t from, std::uint64_t to) const;

 private:
  void read(int pagemap);

  std::uint64_t start_;
  std::uint64_t end_;
  std::uint64_t page_;
  // Resident part of a present page; below 1 if pagemap lists pages that smaps does not count (the shared zero
  // page).
  double share_ = 1;
  bool all_ = false;
  std::vector<bool> there_;  // by page; empty if all_, or if pagemap could not be read
};

}  // namespace tarn::profiler
