// SPDX-License-Identifier: MIT
// event_table: rows of the table of single events (docs/reference/format.md) that are not yet in the file: at most `most`
// rows in all, those that were taken included. Not thread-safe.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "profiler/collect/block_table.hpp"
#include "profiler/collect/model_events.hpp"
#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

class event_table {
 public:
  // `most` 0: none are kept.
  explicit event_table(std::size_t most) : most_(most) {}

  void put(std::uint64_t time_ns, std::uint32_t thread, event_kind kind, std::uint64_t block,
           std::uint64_t size, std::uint32_t node, std::uint64_t extra) {
    if (most_ == 0) return;
    if (all_rows_ >= most_) {
      is_cut_ = true;
      return;
    }
    columns_[0].push_back(time_ns);
    columns_[1].push_back(thread);
    columns_[2].push_back(static_cast<std::uint64_t>(kind));
    columns_[3].push_back(block);
    columns_[4].push_back(size);
    columns_[5].push_back(node);
    columns_[6].push_back(extra);
    ++all_rows_;
  }
  // The page faults of a block that ends.
  void put_touch(std::uint64_t time_ns, const living_block& block) {
    if (block.faults < 0.5) return;
    put(time_ns, block.thread, event_kind::touch, block.number, block.size, 0,
        static_cast<std::uint64_t>(std::llround(block.faults)));
  }
  // The rows since the last call.
  table take();
  void drop();  // and keep no more
  std::size_t waiting() const noexcept { return columns_[0].size(); }
  bool is_cut() const noexcept { return is_cut_; }
  bool is_kept() const noexcept { return most_ != 0; }

 private:
  std::size_t most_;
  std::size_t all_rows_ = 0;
  bool is_cut_ = false;
  std::array<integers, 7> columns_;
};

inline table event_table::take() {
  table rows{.name = "events", .rows = waiting()};
  constexpr const char* names[] = {"time_ns", "thread", "kind", "block", "size", "stack", "extra"};
  for (std::size_t index = 0; index < std::size(names); ++index) {
    rows.columns.push_back({names[index], std::exchange(columns_[index], {})});
    columns_[index].reserve(rows.rows);
  }
  return rows;
}

inline void event_table::drop() {
  take();
  most_ = 0;
}

}  // namespace tarn::profiler
