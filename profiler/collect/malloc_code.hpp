// SPDX-License-Identifier: MIT
// malloc_code: where the code of malloc lies in a process, so that a sample of the clock can be told to be in it.
//
// Of libc only a part is malloc: its exported functions, and the local ones beside them (_int_malloc, _int_free,
// malloc_consolidate). A stripped libc has no symbols of the local ones. But all of malloc is one object file, whose
// code is in one piece: what lies between a function of malloc and the exported functions before and behind it is
// malloc's, too. A library that is another malloc counts as a whole. operator new and delete of the C++ library count
// as a part of malloc, as they do in timed calls.
//
// Of a malloc in the program itself, or in a large library, the code is not known: such a file does other things besides.
//
// Thread safety: malloc_code may be read by any thread; malloc_code_reader is for one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tarn::profiler {

struct code_range {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  bool holds(std::uint64_t address) const noexcept { return address >= start && address < end; }
  bool overlaps(const code_range& other) const noexcept { return start < other.end && other.start < end; }
};

struct exported_function {
  std::uint64_t start = 0;
  std::uint64_t size = 0;
  std::string name;
};

// The ranges of malloc's functions, of all that a library exports, in any order.
std::vector<code_range> malloc_ranges(std::vector<exported_function> functions);
// Likewise of operator new and delete.
std::vector<code_range> operator_ranges(const std::vector<exported_function>& functions);

class malloc_code {
 public:
  void add(const code_range& range) { malloc_.push_back(range); }
  void set_libc(const code_range& range) { libc_ = range; }
  bool empty() const noexcept { return malloc_.empty(); }
  // Malloc is in a file that does other things besides.
  void set_inseparable() noexcept { is_inseparable_ = true; }
  bool is_inseparable() const noexcept { return is_inseparable_; }
  // `caller`: where the function returns to, if it is a leaf. memset and memcpy have no frame: those that malloc has called
  // are a part of it.
  bool holds(std::uint64_t instruction, std::uint64_t caller) const noexcept {
    return is_malloc(instruction) || (libc_.holds(instruction) && is_malloc(caller));
  }

 private:
  bool is_malloc(std::uint64_t address) const noexcept {
    for (const code_range& range : malloc_) {
      if (range.holds(address)) return true;
    }
    return false;
  }

  std::vector<code_range> malloc_;
  code_range libc_;
  bool is_inseparable_ = false;
};

class malloc_code_reader {
 public:
  // Of a process that runs; `allocator` is where the library lies that its malloc is in. Empty: malloc's code is
  // inseparable from other code, or the process or its files cannot be read.
  malloc_code read(std::uint32_t process, const code_range& allocator);

 private:
  // What a file has, by the addresses that its linker has given.
  struct file_code {
    std::vector<code_range> segments;      // executable ones, by their places in the file
    std::vector<std::uint64_t> addresses;  // of the segments
    std::vector<exported_function> functions;
  };
  struct mapped_file;

  static std::optional<file_code> read_file(int file);
  const file_code* code_of(std::uint32_t process, const std::string& path);
  void add_library(const mapped_file& mapped, std::uint32_t process, const code_range& allocator,
                   malloc_code& code);

  std::map<std::pair<std::uint64_t, std::uint64_t>, std::optional<file_code>> known_;  // by device and file
};

}  // namespace tarn::profiler
