// SPDX-License-Identifier: MIT
// process_maps: the mappings of a process with what of each is resident, as /proc/PID/smaps tells, and which pages of a
// range are there, as /proc/PID/pagemap tells. Both need the rights of the same user. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tarn::profiler {

struct mapping {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::string name;  // a path, a name of the kernel's in brackets, or empty
  bool readable = false;
  bool writable = false;
  bool shared = false;
  bool undumped = false;  // MADV_DONTDUMP: the recorder's memory is marked so
  double resident_bytes = 0;
  double anonymous_bytes = 0;  // of these, pages without a file

  bool is_file() const noexcept { return !name.empty() && name.front() == '/'; }
};

// By address. Nothing: the process has ended, or its maps may not be read.
std::optional<std::vector<mapping>> read_mappings(std::uint32_t process);
// The same from the text of smaps.
std::vector<mapping> parse_mappings(const std::string& text);

// The pages of one range that are in memory.
class resident_pages {
 public:
  static constexpr std::uint64_t most_bytes = std::uint64_t{16} << 30;

  // Of [start, end); all of them where `resident_bytes` is as much. Where pagemap cannot be read, or the range is longer
  // than most_bytes, each page counts by the share of the range that is resident.
  resident_pages(int pagemap, std::uint64_t start, std::uint64_t end, double resident_bytes);

  // Bytes of [from, to) in resident pages; what lies outside of the range is not.
  double bytes_in(std::uint64_t from, std::uint64_t to) const;
  // Whether any byte of the page at `address` may be read without being made.
  bool is_there(std::uint64_t address) const;

 private:
  void read(int pagemap);

  std::uint64_t start_;
  std::uint64_t end_;
  std::uint64_t page_;
  double share_ =
      1;  // of a page that is there; less than 1 where pages are there that are not counted (all zeroes)
  bool all_ = false;
  std::vector<bool> there_;  // empty where all_, or nothing is known
};

}  // namespace tarn::profiler
