// SPDX-License-Identifier: MIT
#include "profiler/collect/profile_file.hpp"

#include <algorithm>
#include <utility>

namespace tarn::profiler {

namespace {

// Events that are copied only to have a shorter file at the end.
constexpr std::uint64_t most_moved_bytes = std::uint64_t{64} << 20;

}  // namespace

profile_file::profile_file(const std::string& path, table_writer::start how, std::optional<table> command)
    : file_(std::make_unique<table_writer>(path, how)), command_(std::move(command)) {}

void profile_file::append_events(const table& rows) {
  const std::uint64_t begin = file_->bytes();
  file_->append(rows);
  if (events_.empty()) before_events_ = stored_;
  if (events_.empty() || events_.back().end != begin) events_.push_back({begin, begin});
  events_.back().end = file_->bytes();
  event_bytes_ += file_->bytes() - begin;
}

bool profile_file::is_worn() const noexcept {
  const std::uint64_t counts = table_bytes_ + event_bytes_;
  return table_bytes_ > 0 && file_->bytes() > counts + std::max(counts, least_worn_bytes);
}

void profile_file::append(const profile& p) {
  const std::uint64_t before = file_->bytes();
  const stored_rows already = stored_;
  try {
    if (table_bytes_ == 0 && command_) file_->append(*command_);
    store_profile(*file_, p, stored_);
  } catch (const profile_error&) {
    file_->cut(before);
    stored_ = already;
    throw;
  }
  if (table_bytes_ == 0) table_bytes_ = file_->bytes() - event_bytes_;
  file_->begin_sync();
}

// False: it cannot be, and the file is as it was.
bool profile_file::write_anew(const profile& p) {
  std::unique_ptr<table_writer> fresh = file_->beside();
  if (!fresh) return false;
  stored_rows stored;
  std::vector<part> events;
  std::uint64_t tables = 0;
  try {
    if (command_) fresh->append(*command_);
    store_profile(*fresh, p, stored);
    tables = fresh->bytes();
    for (const part& each : events_) fresh->append_from(*file_, each.begin, each.end - each.begin);
    if (!events_.empty()) events.push_back({tables, fresh->bytes()});
    fresh->take_place();
  } catch (const profile_error&) {
    return false;
  }
  file_ = std::move(fresh);
  stored_ = before_events_ = stored;
  events_ = std::move(events);
  table_bytes_ = tables;
  return true;
}

void profile_file::checkpoint(const profile& p) {
  if (!is_worn() || !write_anew(p)) append(p);
}

void profile_file::finish(const profile& p) {
  const bool is_cheap = event_bytes_ <= most_moved_bytes || is_worn();
  if (!is_cheap || !write_anew(p)) append(p);
}

void profile_file::drop_events(const profile& p) {
  const std::vector<part> events = std::exchange(events_, {});
  event_bytes_ = 0;
  if (write_anew(p)) return;
  // There is no room for a second file. What came before the first event is a profile.
  if (!events.empty()) {
    file_->cut(events.front().begin);
    stored_ = before_events_;
  }
  append(p);
}

}  // namespace tarn::profiler
