// SPDX-License-Identifier: MIT
#include "profiler/collect/process_output.hpp"

#include <fmt/core.h>

#include <utility>

#include "os/invariant.hpp"

namespace tarn::profiler {

void process_output::open(const process_identity& who, bool is_main, std::optional<table> command) {
  if (file_ || !problem_.empty()) return;
  const bool is_named = files_->has_given_name();
  const std::string end = is_named && !is_main ? fmt::format("-{}", who.pid) : "";
  // A file of a name that the user did not choose is never overwritten.
  const auto how = is_named && is_main ? table_writer::start::replace : table_writer::start::fresh;
  for (int number = 1; path_.empty(); ++number) {
    const std::string path = files_->name(who.command, who.pid, end, number);
    if (files_->is_taken(path)) continue;
    if (number > output_files::most_names) {
      path_ = path;
      problem_ = path + ": files of this name and of those before it exist already";
      break;
    }
    try {
      file_ = std::make_unique<profile_file>(path, how, command);
      path_ = path;
    } catch (const file_exists&) {
    } catch (const profile_error& error) {
      path_ = path;
      problem_ = error.what();
    }
  }
  files_->add({path_, who.command, who.pid, ""});
  validate();
}

bool process_output::tries(const std::function<void()>& write) {
  try {
    write();
    return true;
  } catch (const profile_error& error) {
    problem_ = error.what();
    return false;
  }
}

bool process_output::store(const profile& p) {
  // The next checkpoint tries again.
  return !file_ || tries([&] { file_->checkpoint(p); }) || !file_->has_events();
}

bool process_output::append_events(const table& rows) {
  return !file_ || tries([&] { file_->append_events(rows); });
}

// If the disk is full, a profile can best do without single events.
void process_output::give_up_events(profile& p, const std::function<void()>& fill) {
  without_events_ = "single events are left out: " + std::exchange(problem_, {});
  fill();
  tries([&] { file_->drop_events(p); });
}

void process_output::finish(const profile& p) {
  if (file_) {
    problem_.clear();
    tries([&] { file_->finish(p); });
  }
  report_problem();
  file_.reset();
}

void process_output::validate() const {
  TARN_INVARIANT("process_output", this, file_ == nullptr || files_->is_taken(path_));
}

}  // namespace tarn::profiler
