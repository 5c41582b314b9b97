// SPDX-License-Identifier: MIT
// memory_splitter: splits the resident memory of a process into what it consists of, by what the kernel tells of its
// mappings and what the collector knows of its blocks, its own mappings and its stacks.
//
// Each resident byte is counted once: a mapping with a file is the file's; other mappings are cut where the program's own
// mappings and stacks begin and end, and a piece in which malloc's blocks lie is malloc's. What the blocks do not cover of
// such a piece is what malloc keeps. A piece of which nothing is known is `other`.
//
// Invariant: the parts of a row add up to the sum of Rss over all mappings.
// Owned by the recording of one process, for one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "profiler/collect/process_maps.hpp"
#include "profiler/collect/process_model.hpp"
#include "profiler/model/memory_split.hpp"

namespace tarn::profiler {

// What a piece of memory without a file is.
enum class memory_use : std::uint8_t { other, heap, mapped, stack, written, recorder };

struct memory_piece {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  memory_use use = memory_use::other;
  std::uint32_t site = 0;  // of a mapping that the program made
  std::string name;        // of the file whose .bss it is
  std::size_t whole = 0;   // index of its mapping
  double resident_bytes = 0;
};

// The pieces of all mappings without a file, by address. `anchors`: addresses at which malloc's blocks have been.
std::vector<memory_piece> pieces_of(const std::vector<mapping>& mappings, const process_model& model,
                                    const std::set<std::uint64_t>& anchors);
// The piece that holds `address`; null: none does.
memory_piece* piece_at(std::vector<memory_piece>& pieces, std::uint64_t address);

class memory_splitter {
 public:
  // Adds what the memory consists of now. False: the process has ended, or its maps may not be read.
  bool take(std::uint32_t process, const process_model& model, std::uint64_t time_ns);
  memory_history history() const;
  std::uint64_t interval_ns() const noexcept { return interval_ns_; }

 private:
  struct split;
  void add(const memory_row& row, std::vector<memory_part>&& parts);

  std::vector<memory_row> rows_;
  memory_row highest_;  // stays, whatever rows are left out
  std::vector<memory_part> highest_parts_;
  std::vector<memory_part> last_parts_;
  std::set<std::uint64_t> anchors_;
  std::uint64_t interval_ns_ = 50'000'000;
};

}  // namespace tarn::profiler
