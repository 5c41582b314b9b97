// SPDX-License-Identifier: MIT
#include "cli/recording/attached_recording.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "cli/compare/contender.hpp"
#include "cli/launch/library_search.hpp"
#include "cli/launch/memory_conditioner.hpp"
#include "cli/launch/preload_check.hpp"
#include "cli/recording/recording_setup.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/profile_verdict.hpp"
#include "profiler/attach/attach_check.hpp"
#include "profiler/format/printable.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

using profiler::attach_error;
using profiler::recording;

// The file of the program's malloc: another library's malloc takes precedence over libc's.
std::string allocator_of(pid_t program) {
  std::string found;
  for (const profiler::remote_module& module : profiler::modules_of_process(program)) {
    if (module.address_of("malloc") == 0 || profiler::is_dynamic_linker(module)) continue;
    // It stays loaded after an earlier recording.
    if (fs::path(module.path).filename().string().starts_with("libtarn_record.so")) continue;
    if (found.empty() || !profiler::is_libc(module)) found = module.path;
  }
  return found;
}

}  // namespace

profiler::price_list prices_for(pid_t program, std::vector<std::string>& notes) {
  try {
    profiler::require_recordable(program);
  } catch (const attach_error& error) {
    throw cli_error(exit_code::refused, error.what(), error.advice());
  }
  const std::string theirs = allocator_of(program);
  if (theirs.empty() || is_system_libc(theirs)) return find_prices("", notes);
  const std::optional<std::string> own = own_copy_of(theirs);
  if (!own) {
    notes.push_back(fmt::format(
        "the price of malloc and free is measured with the system's malloc: tarn does not run {}, "
        "which the program names",
        profiler::printable(theirs)));
  }
  return find_prices(own.value_or(""), notes);
}

attached_recording::attached_recording(pid_t program, profiler::recording_settings settings,
                                       std::vector<std::string> notes, const std::function<bool()>& go_on)
    : notes_(std::move(notes)) {
  try {
    profiler::require_attachable(program);
    const std::string library = fs::canonical(find_recorder()).string();
    const std::string process = std::to_string(program);
    note_unseen_blocks("/proc/" + process + "/exe", "process " + process, notes_);
    settings.meta = describe_place(notes_, process);
    settings.meta["attached"] = true;
    settings.program = static_cast<std::uint32_t>(program);
    record_ = std::make_unique<recording>(settings);
    record_->program_started(static_cast<std::uint32_t>(program));
    holder_ = std::make_unique<descriptor_holder>(record_->placed_descriptors());
    const std::string own = record_->place();
    const std::string place = std::to_string(holder_->process()) + own.substr(own.find(':'));
    there_ = std::make_unique<profiler::attached_process>(program, library, place, [this, go_on] {
      record_->drain();
      return go_on();
    });
  } catch (const attach_error& error) {
    throw cli_error(exit_code::refused, error.what(), error.advice());
  } catch (const profiler::profile_error& error) {
    throw as_cli_error(error);
  }
  if (there_->refused_slots() != 0) {
    notes_.push_back(fmt::format(
        "{} pointers to malloc and its relatives could not be replaced; calls through them are not "
        "recorded",
        there_->refused_slots()));
  }
}

double attached_recording::look() {
  const bool much = record_->drain();
  wait_ = much ? busy_seconds : std::min(idle_seconds, 2 * std::max(busy_seconds, wait_));
  is_there_ = there_->is_there();
  if (!is_there_) return wait_;
  try {
    there_->look_for_libraries();
  } catch (const profiler::process_gone&) {
    is_there_ = false;
  } catch (const attach_error& error) {
    notes_.emplace_back(
        fmt::format("calls from libraries that were loaded later are not recorded: {}", error.what()));
  }
  return wait_;
}

nlohmann::json attached_recording::dump(pid_t process) { return dump_answer(*record_, process); }

// Children that were forked during the recording contain the recorder as well.
void attached_recording::detach_all() {
  for (const std::uint32_t process : record_->running()) {
    try {
      there_->detach(static_cast<pid_t>(process));
    } catch (const profiler::process_gone&) {
    } catch (const attach_error& error) {
      notes_.emplace_back(
          fmt::format("the recorder stays loaded in process {}, but is inactive: {}", process, error.what()));
    }
  }
}

void attached_recording::end() {
  detach_all();
  // The program is complete again. Reading debugging information may take much memory, where the program needs its own.
  volunteer_for_oom_killer();
  record_->program_ended(-1);
  record_->finish();
}

nlohmann::json attached_recording::summary() const {
  nlohmann::json summary = summary_of(*record_);
  summary["longest_stop_ms"] = 1e3 * there_->longest_stop_seconds();
  summary["notes"] = notes_;
  return summary;
}

void attached_recording::print_summary(bool quiet, bool json) const {
  if (json) {
    print_message("{}\n", json_text(summary()));
    return;
  }
  for (const std::string& note : notes_) print_note(note);
  if (quiet) return;
  if (record_->main_profile() != nullptr) print_verdict(*record_->main_profile());
  print_files(*record_);
  print_note(
      fmt::format("the longest stop of the program took {:.1f} ms", 1e3 * there_->longest_stop_seconds()));
}

nlohmann::json dump_answer(recording& record, pid_t process) {
  std::string problem;
  const std::string path = record.store_now(static_cast<std::uint32_t>(process), problem);
  if (problem.empty()) return {{"path", fs::absolute(path).string()}};
  return {{"problem", fmt::format("process {}: {}", process, problem)},
          {"advice", "The recording continues. Try again later."}};
}

}  // namespace tarn::cli
