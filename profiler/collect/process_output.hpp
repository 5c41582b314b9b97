// SPDX-License-Identifier: MIT
// process_output: where the profile of a process goes: its file, once it has one, and what could not be written there. Owned by
// the recording of the process, for one thread.
//
// Invariant: a file that is open has a path, which `files` has too.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "profiler/collect/output_files.hpp"
#include "profiler/collect/process_identity.hpp"
#include "profiler/collect/profile_file.hpp"

namespace tarn::profiler {

class process_output {
 public:
  explicit process_output(output_files& files) : files_(&files) {}

  bool is_open() const noexcept { return file_ != nullptr; }
  // Empty: it never had a file, nor was one tried.
  const std::string& path() const noexcept { return path_; }
  // Why the file is missing or incomplete; empty: it is neither.
  const std::string& problem() const noexcept { return problem_; }
  // Why the file holds no events although they were wanted.
  const std::string& without_events() const noexcept { return without_events_; }
  bool has_counters_of(std::uint64_t time_ns) const { return file_ && file_->has_counters_of(time_ns); }

  // Makes the file, if that was not tried before. `is_main`: it gets the name that the user gave, and a file of that name is
  // replaced. `command`: stored once.
  void open(const process_identity& who, bool is_main, std::optional<table> command);
  // A checkpoint of `p`. False: it failed, and what the file holds of single events should give way.
  bool store(const profile& p);
  // False: likewise.
  bool append_events(const table& rows);
  // Once store or append_events has failed: writes the file without single events. `fill` brings p up to date, which says that
  // they are missing.
  void give_up_events(profile& p, const std::function<void()>& fill);
  // The last time: with symbols.
  void finish(const profile& p);
  void clear_problem() { problem_.clear(); }
  // Lets the list of files know the problem.
  void report_problem() { files_->set_problem(path_, problem_); }
  void validate() const;

 private:
  friend class process_output_test_access;

  bool tries(const std::function<void()>& write);  // false: the problem is known

  output_files* files_;
  std::unique_ptr<profile_file> file_;
  std::string path_;
  std::string problem_;
  std::string without_events_;
};

}  // namespace tarn::profiler
