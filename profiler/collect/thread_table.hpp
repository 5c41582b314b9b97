// SPDX-License-Identifier: MIT
// thread_table: the threads of a process, a row for each; and where their stacks end. Rows of threads that have ended may be put
// together, so that their number stays bounded.
//
// Invariant (validate()): an id leads to a row with this id; ended_ rows have an end. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

class thread_table {
 public:
  // Returns the row of a thread that begins. Beyond the limit on threads, the last row.
  std::uint32_t begin(std::uint32_t id, std::uint64_t time_ns);
  void end(std::uint32_t row, std::uint64_t time_ns);
  void name(std::uint32_t row, const std::string& name) { rows_[row].name = name; }
  void name_by_id(std::uint32_t id, const std::string& name);
  // Empty: the thread is not known.
  std::optional<std::uint32_t> row_of(std::uint32_t id) const;
  // A stack ends at `end`; libc keeps those of ended threads for new ones.
  void add_stack(std::uint64_t end);
  const std::set<std::uint64_t>& stack_ends() const noexcept { return stack_ends_; }

  // There are many rows of threads that have ended, and none is free.
  bool is_crowded() const;
  bool has_ended(std::uint32_t row) const { return rows_[row].end_ns != 0; }
  // Makes the threads that have ended one, whose row is that of the first of them; the rows of the others are used again.
  // Returns the rows as they were. Requires is_crowded().
  std::vector<std::uint32_t> ended() const;
  void join(const std::vector<std::uint32_t>& ended);
  // Ended threads that share one row.
  std::size_t joined() const noexcept { return joined_; }

  std::size_t size() const noexcept { return rows_.size(); }
  const std::vector<thread_info>& rows() const noexcept { return rows_; }

  void validate() const;

 private:
  friend class thread_table_test_access;

  std::vector<thread_info> rows_;
  std::unordered_map<std::uint32_t, std::uint32_t> row_of_id_;
  std::vector<std::uint32_t> free_rows_;
  std::size_t ended_ = 0;  // rows with an end
  std::size_t joined_ = 0;
  std::set<std::uint64_t> stack_ends_;  // the high ends
};

}  // namespace tarn::profiler
