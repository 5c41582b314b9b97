// SPDX-License-Identifier: MIT
// attached_recording: records a program that runs already: it attaches to it, takes its events, and detaches. For
// one thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/launch/peer.hpp"
#include "profiler/attach/attached_process.hpp"
#include "profiler/collect/recording.hpp"

namespace tarn::cli {

// The prices of a recording of `program`, measured without anything that it names. To be called before this process
// takes the rights of the program's user: whoever measures has this process's environment. Throws cli_error if the
// program cannot be recorded.
profiler::price_list prices_for(pid_t program, std::vector<std::string>& notes);

class attached_recording {
 public:
  // `settings` have prices, and need no meta; `notes`: of prices_for(). `go_on` is called while this waits for the
  // program; false: it is to end. Throws cli_error if the program cannot be recorded.
  attached_recording(pid_t program, profiler::recording_settings settings, std::vector<std::string> notes,
                     const std::function<bool()>& go_on);

  // Takes new events; to be called often. Returns the seconds until it should be called again.
  double look();
  // False: the program has ended, or has executed another one.
  [[nodiscard]] bool is_there() const noexcept { return is_there_; }
  // Writes the file of a process as of now; returns an answer for session_control.
  nlohmann::json dump(pid_t process);
  // Detaches and writes all files.
  void end();

  [[nodiscard]] const profiler::recording& record() const { return *record_; }
  // After end(): what was recorded, as JSON; and the same printed on stderr, as JSON or, unless `quiet`, in words.
  [[nodiscard]] nlohmann::json summary() const;
  void print_summary(bool quiet, bool json) const;

 private:
  void detach_all();

  std::vector<std::string> notes_;  // about anything that limits the recording
  std::unique_ptr<profiler::recording> record_;
  // A process whose descriptors the program can open in /proc: see peer.hpp.
  std::unique_ptr<descriptor_holder> holder_;
  std::unique_ptr<profiler::attached_process> there_;
  bool is_there_ = true;
  double wait_ = 0;
};

// An answer of session_control to `dump`, by the recording that has the process.
nlohmann::json dump_answer(profiler::recording& record, pid_t process);

}  // namespace tarn::cli
