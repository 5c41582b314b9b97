// SPDX-License-Identifier: MIT
// profile_file: the file of a process while it is recorded. A checkpoint appends the rows that are new, and all tables that
// replace earlier ones; so whatever ends the writer, the file has everything up to the last checkpoint. Once the tables
// that no longer count take more than all the rest, the file is written anew beside itself, and takes its own place.
//
// Invariant: the file can be read at any moment, and has no more than twice what counts in it, least_worn_bytes and one
// checkpoint; except where it cannot be written beside itself (table_writer::beside): there it grows. A checkpoint that
// fails leaves it as it was; the next one tries again. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/model/store_profile.hpp"

namespace tarn::profiler {

class profile_file {
 public:
  static constexpr std::uint64_t least_worn_bytes = std::uint64_t{256} << 10;

  // Throws as table_writer does. `command`: a table that is stored once.
  profile_file(const std::string& path, table_writer::start how, std::optional<table> command);

  // These throw profile_error, e.g. if the disk is full.
  void append_events(const table& rows);
  void checkpoint(const profile& p);
  // The last checkpoint. Writes the file anew, without outdated tables, if it has few events or is worn.
  void finish(const profile& p);
  void drop_events(const profile& p);  // and stores `p`

  bool has_events() const noexcept { return !events_.empty(); }
  bool has_counters_of(std::uint64_t time_ns) const noexcept { return stored_.counters.last_ns >= time_ns; }
  std::uint64_t bytes() const noexcept { return file_->bytes(); }

 private:
  struct part {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  // Whether outdated tables take more than all that counts, and more than least_worn_bytes.
  bool is_worn() const noexcept;
  void append(const profile& p);
  bool write_anew(const profile& p);

  std::unique_ptr<table_writer> file_;
  std::optional<table> command_;
  stored_rows stored_;
  std::vector<part> events_;  // where they are in the file
  // `stored_` as it was before the first of them: what the file has when it is cut there.
  stored_rows before_events_;
  std::uint64_t event_bytes_ = 0;
  std::uint64_t table_bytes_ = 0;  // of all other tables, when each was in the file once; 0: none is in it
};

}  // namespace tarn::profiler
