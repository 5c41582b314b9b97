// SPDX-License-Identifier: MIT
#include <utility>

#include "profiler/format/chunk.hpp"
#include "profiler/format/chunk_packer.hpp"
#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

namespace {

// Rows are packed when they take this much: far less than a chunk may, as several tables grow at once.
constexpr std::size_t most_waiting_bytes = std::size_t{8} << 20;
// Rows that stay unpacked between two files.
constexpr std::size_t most_idle_bytes = std::size_t{1} << 20;

}  // namespace

growing_table::growing_table() : packer_(std::make_unique<chunk_packer>()) {}
growing_table::growing_table(growing_table&&) noexcept = default;
growing_table& growing_table::operator=(growing_table&&) noexcept = default;
growing_table::~growing_table() = default;

void growing_table::add(table&& rows) {
  const std::size_t more = memory_of(rows);
  memory_ += more;
  require_table_fits(rows.name, memory_);
  if (waiting_ && waiting_bytes_ + more > most_waiting_bytes) {
    packer_->pack(std::exchange(*waiting_, empty_like(*waiting_)), false);
    waiting_bytes_ = 0;
  }
  if (!waiting_) {
    waiting_ = std::move(rows);
    waiting_bytes_ = more;
    return;
  }
  if (!add_rows(*waiting_, std::move(rows))) {
    throw profile_error("table '" + waiting_->name + "': rows of other columns are added");
  }
  waiting_bytes_ += more;
}

void growing_table::release() {
  if (waiting_ && waiting_bytes_ > most_idle_bytes) {
    packer_->pack(std::exchange(*waiting_, empty_like(*waiting_)), false);
    waiting_bytes_ = 0;
  }
  packer_->release();
}

const std::vector<std::uint8_t>& growing_table::finish() {
  if (waiting_) packer_->pack(*std::exchange(waiting_, std::nullopt), true);
  return packer_->bytes();
}

}  // namespace tarn::profiler
