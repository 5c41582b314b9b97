// SPDX-License-Identifier: MIT
// memory_splitter: splits the resident memory of a process by use, from what the kernel tells about its mappings
// and what the collector knows about its blocks, mmap calls and stacks.
//
// Each resident byte is counted once. A mapping of a file belongs to the file. Other mappings are cut into pieces
// at the bounds of the program's own mmap calls and of stacks. A piece that holds malloc's blocks is malloc's; what
// the blocks do not cover of it is memory that malloc keeps. A piece about which nothing is known is `other`.
//
// Invariant: the parts of a row add up to the sum of Rss over all mappings.
// Owned by the recording of one process, for one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "profiler/collect/process_model.hpp"
#include "profiler/model/memory_split.hpp"
#include "profiler/proc/process_maps.hpp"

namespace tarn::profiler {

// The use of a piece of memory without a file.
enum class memory_use : std::uint8_t { other, heap, mapped, stack, written, recorder };

struct memory_piece {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  memory_use use = memory_use::other;
  std::uint32_t site = 0;  // of the mmap call that made it
  std::string name = {};   // of the file whose .bss it is, if it is one
  std::size_t whole = 0;   // index of its mapping
  double resident_bytes = 0;
};

// The pieces of all mappings without a file, by address. `anchors`: addresses of earlier blocks: their pieces are
// malloc's.
std::vector<memory_piece> pieces_of(const std::vector<mapping>& mappings, const process_model& model,
                                    const std::set<std::uint64_t>& anchors);
// The piece that holds `address`; null: none does.
memory_piece* piece_at(std::vector<memory_piece>& pieces, std::uint64_t address);

// Checks that the parts of the row add up to the resident memory of all mappings. Rounding errors are allowed.
void validate(const memory_row& row, const std::vector<mapping>& mappings);

class memory_splitter {
 public:
  // Adds a row for the present moment. False: the process has ended, or its maps may not be read. `meanwhile` is called
  // again and again; the model may take events in it.
  bool take(std::uint32_t process, const process_model& model, std::uint64_t time_ns,
            const std::function<void()>& meanwhile);
  memory_history history() const;
  std::uint64_t interval_ns() const noexcept { return interval_ns_; }

 private:
  struct split;
  void add(const memory_row& row, std::vector<memory_part>&& parts);

  std::vector<memory_row> rows_;
  memory_row highest_;  // the row of the highest memory; kept when rows are thinned out
  std::vector<memory_part> highest_parts_;
  std::vector<memory_part> last_parts_;
  std::set<std::uint64_t> anchors_;
  std::uint64_t interval_ns_ = 50'000'000;
};

}  // namespace tarn::profiler
