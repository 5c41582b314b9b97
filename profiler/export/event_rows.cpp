// SPDX-License-Identifier: MIT
#include "profiler/export/event_rows.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

namespace {

class slicer {
 public:
  slicer(std::uint64_t duration_ns, std::size_t slices, std::size_t most_cells)
      : duration_ns_(std::max<std::uint64_t>(1, duration_ns)), slices_(slices), most_cells_(most_cells) {}

  void take(const table& rows) {
    const integers& time = rows.whole("time_ns");
    const integers& kind = rows.whole("kind");
    const integers& block = rows.whole("block");
    const integers& size = rows.whole("size");
    const integers& stack = rows.whole("stack");
    const integers& extra = rows.whole("extra");
    has_rows_ = has_rows_ || rows.rows > 0;
    for (std::size_t row = 0; row < rows.rows; ++row) {
      if (kind[row] == event_free || kind[row] == event_delete) {
        end_block(block[row], time[row]);
      } else if (kind[row] >= event_malloc && kind[row] <= event_realloc) {
        if (kind[row] == event_realloc) end_block(extra[row], time[row]);
        begin_block(block[row], size[row], static_cast<std::uint32_t>(stack[row]), time[row]);
      }
    }
  }

  event_slices result() const {
    event_slices made;
    if (!has_rows_) return made;
    for (std::size_t slice = 1; slice <= slices_; ++slice)
      made.ends_ns.push_back(duration_ns_ / slices_ * slice + duration_ns_ % slices_ * slice / slices_);
    for (const auto& [key, cell] : cells_) {
      if (cell.allocations != 0 || cell.grown != 0) made.cells.push_back(cell);
    }
    std::sort(made.cells.begin(), made.cells.end(), [](const slice_cell& left, const slice_cell& right) {
      return std::tie(left.stack, left.slice) < std::tie(right.stack, right.slice);
    });
    return made;
  }

 private:
  struct living {
    std::uint32_t stack;
    std::uint64_t size;
  };

  slice_cell& cell_at(std::uint32_t stack, std::uint64_t time) {
    const double part = static_cast<double>(time) / static_cast<double>(duration_ns_);
    const std::size_t slice =
        std::min(slices_ - 1, static_cast<std::size_t>(part * static_cast<double>(slices_)));
    const auto [at, is_new] = cells_.try_emplace(std::uint64_t{stack} << 32 | slice);
    at->second.stack = stack;
    at->second.slice = static_cast<std::uint32_t>(slice);
    if (!is_new || cells_.size() <= most_cells_ || slices_ % 2 != 0) return at->second;
    halve();
    return cell_at(stack, time);
  }

  // Two slices become one.
  void halve() {
    slices_ /= 2;
    for (const auto& [key, cell] : std::exchange(cells_, {})) {
      slice_cell& sum = cells_[std::uint64_t{cell.stack} << 32 | cell.slice / 2];
      sum = {cell.stack, cell.slice / 2, sum.allocations + cell.allocations, sum.bytes + cell.bytes,
             sum.grown + cell.grown};
    }
  }

  void begin_block(std::uint64_t block, std::uint64_t size, std::uint32_t stack, std::uint64_t time) {
    slice_cell& cell = cell_at(stack, time);
    const auto bytes = static_cast<double>(size);
    ++cell.allocations;
    cell.bytes += bytes;
    cell.grown += bytes;
    // The rows of threads are not in the order of time: its end may be known already.
    if (const auto ended = ends_.find(block); ended != ends_.end()) {
      cell_at(stack, ended->second).grown -= bytes;
      ends_.erase(ended);
    } else {
      living_.insert_or_assign(block, living{stack, size});
    }
  }

  void end_block(std::uint64_t block, std::uint64_t time) {
    const auto found = living_.find(block);
    if (found == living_.end()) {
      if (block != 0) ends_.emplace(block, time);
      return;
    }
    cell_at(found->second.stack, time).grown -= static_cast<double>(found->second.size);
    living_.erase(found);
  }

  std::uint64_t duration_ns_;
  std::size_t slices_;
  std::size_t most_cells_;
  bool has_rows_ = false;
  std::unordered_map<std::uint64_t, slice_cell> cells_;  // by stack and slice
  std::unordered_map<std::uint64_t, living> living_;     // by block
  std::unordered_map<std::uint64_t, std::uint64_t> ends_;
};

}  // namespace

std::string read_events(const std::string& path, const std::function<void(const table&)>& take) {
  const read_outcome outcome = read_tables(
      path, [&take](table&& rows) { take(rows); }, [](std::string_view name) { return name == "events"; });
  if (outcome.damage.empty() || outcome.ends_early) return {};
  return outcome.damage_words() + "; what comes before it is shown";
}

event_slices slices_of(const std::string& path, std::uint64_t duration_ns, std::size_t slices,
                       std::size_t most_cells) {
  slicer made(duration_ns, std::max<std::size_t>(1, slices), most_cells);
  const std::string damage = read_events(path, [&made](const table& rows) { made.take(rows); });
  event_slices result = made.result();
  result.damage = damage;
  return result;
}

}  // namespace tarn::profiler
