// SPDX-License-Identifier: MIT
#include "profiler/collect/thread_table.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "os/invariant.hpp"

namespace tarn::profiler {

namespace {

// For one process, whatever its rings claim, as it bounds the collector's memory.
constexpr std::size_t most_threads = std::size_t{1} << 18;
// Threads that have ended keep rows of their own up to that number of rows.
constexpr std::size_t many_threads = 1024;

}  // namespace

bool thread_table::is_crowded() const {
  return free_rows_.empty() && rows_.size() >= many_threads && ended_ >= many_threads / 2;
}

std::uint32_t thread_table::begin(std::uint32_t id, std::uint64_t time_ns) {
  if (free_rows_.empty() && rows_.size() == most_threads) return static_cast<std::uint32_t>(most_threads - 1);
  auto row = static_cast<std::uint32_t>(rows_.size());
  if (free_rows_.empty()) {
    rows_.emplace_back();
  } else {
    row = free_rows_.back();
    free_rows_.pop_back();
  }
  rows_[row] = {id, "", time_ns, 0};
  row_of_id_[id] = row;
  if (os::is_check_due(rows_.size())) validate();
  return row;
}

void thread_table::end(std::uint32_t row, std::uint64_t time_ns) {
  if (!has_ended(row)) ++ended_;
  rows_[row].end_ns = std::max<std::uint64_t>(1, time_ns);
}

void thread_table::name_by_id(std::uint32_t id, const std::string& name) {
  if (const auto row = row_of(id); row && !has_ended(*row)) rows_[*row].name = name;
}

std::optional<std::uint32_t> thread_table::row_of(std::uint32_t id) const {
  const auto known = row_of_id_.find(id);
  return known == row_of_id_.end() ? std::nullopt : std::optional(known->second);
}

void thread_table::add_stack(std::uint64_t end) {
  if (end != 0 && stack_ends_.size() < most_threads) stack_ends_.insert(end);
}

std::vector<std::uint32_t> thread_table::ended() const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t row = 0; row < rows_.size(); ++row) {
    if (has_ended(row)) found.push_back(row);
  }
  return found;
}

void thread_table::join(const std::vector<std::uint32_t>& ended) {
  const std::uint32_t joined = ended.front();
  ended_ = 1;
  // What was joined before is one of the rows.
  joined_ += ended.size() - (joined_ > 0 ? 1 : 0);
  thread_info all = rows_[joined];
  for (const std::uint32_t row : ended) {
    const auto known = row_of_id_.find(static_cast<std::uint32_t>(rows_[row].id));
    if (known != row_of_id_.end() && known->second == row) row_of_id_.erase(known);
    all.start_ns = std::min(all.start_ns, rows_[row].start_ns);
    all.end_ns = std::max(all.end_ns, rows_[row].end_ns);
    rows_[row] = {};
    if (row != joined) free_rows_.push_back(row);
  }
  rows_[joined] = {0, fmt::format("[{} threads that have ended]", joined_), all.start_ns, all.end_ns};
}

void thread_table::validate() const {
  std::size_t with_end = 0;
  for (const thread_info& each : rows_) with_end += each.end_ns != 0 ? 1 : 0;
  TARN_INVARIANT("thread_table", this, ended_ == with_end);
  for (const auto& [id, row] : row_of_id_)
    TARN_INVARIANT("thread_table", this, row < rows_.size() && rows_[row].id == id);
}

}  // namespace tarn::profiler
