// SPDX-License-Identifier: MIT
// malloc_code: where the code of malloc lies in a process, so that a clock sample can be attributed to it.
//
// Only a part of libc is malloc: its exported functions, and local ones (_int_malloc, _int_free,
// malloc_consolidate), which a stripped libc has no symbols for. But malloc is one object file, linked in one
// piece: the code between a function of malloc and the nearest other exported functions before and after it belongs
// to malloc, too. A library that is another malloc counts as a whole. operator new and delete of the C++ library
// count as malloc, as they do in timed calls.
//
// If malloc is part of the program itself or of a large library, its code is not known: such a file does other
// things as well.
//
// Thread safety: malloc_code may be read by any thread; malloc_code_reader belongs to one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "profiler/analyze/opened_elf.hpp"
#include "profiler/proc/process_maps.hpp"

namespace tarn::profiler {

struct code_range {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  bool holds(std::uint64_t address) const noexcept { return address >= start && address < end; }
  bool overlaps(const code_range& other) const noexcept { return start < other.end && other.start < end; }
};

// The ranges of malloc's code. `functions`: all that a library exports, in any order.
std::vector<code_range> malloc_ranges(std::vector<elf_symbol> functions);
// The ranges of operator new and delete, from the same list.
std::vector<code_range> operator_ranges(const std::vector<elf_symbol>& functions);

class malloc_code {
 public:
  void add(const code_range& range) { malloc_.push_back(range); }
  void set_libc(const code_range& range) { libc_ = range; }
  bool empty() const noexcept { return malloc_.empty(); }
  bool has_code_in(const code_range& range) const noexcept {
    return std::any_of(malloc_.begin(), malloc_.end(),
                       [&range](const code_range& one) { return one.overlaps(range); });
  }
  // Malloc is in a file that does other things as well.
  void set_inseparable() noexcept { is_inseparable_ = true; }
  bool is_inseparable() const noexcept { return is_inseparable_; }
  // `caller`: return address of the sampled function, if it is a leaf. memset and memcpy have no frame; when malloc
  // has called them, they count as malloc.
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
  // `allocator`: where the library that holds the process's malloc is mapped. The result is empty if malloc's code
  // cannot be told from other code, or if the process or its files cannot be read.
  malloc_code read(std::uint32_t process, const code_range& allocator);

 private:
  // Code of a file, by the addresses in its headers.
  struct file_code {
    std::vector<code_range> segments;      // executable segments, as ranges of file offsets
    std::vector<std::uint64_t> addresses;  // link-time address of each segment
    std::vector<code_range> mallocs;
    std::vector<code_range> operators;
  };

  static file_code code_in(const opened_elf& file);
  const file_code* code_of(std::uint32_t process, const std::string& path);
  void add_library(const mapping& mapped, std::uint32_t process, bool has_allocator, malloc_code& code);

  std::map<std::pair<std::uint64_t, std::uint64_t>, file_code> known_;  // by device and file
};

}  // namespace tarn::profiler
