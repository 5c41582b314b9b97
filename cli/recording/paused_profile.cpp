// SPDX-License-Identifier: MIT
#include "cli/recording/paused_profile.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "cli/launch/environment.hpp"
#include "cli/launch/foreground.hpp"
#include "cli/launch/program_target.hpp"
#include "cli/recording/attached_recording.hpp"
#include "cli/recording/recording_setup.hpp"
#include "cli/recording/session_control.hpp"
#include "cli/show/cli_error.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

void require_repeatable_input() {
  struct stat input = {};
  if (fstat(STDIN_FILENO, &input) != 0 || (!S_ISFIFO(input.st_mode) && !S_ISSOCK(input.st_mode))) return;
  throw cli_error(exit_code::refused, "--rounds: the runs cannot be repeated: standard input is a pipe",
                  "Redirect standard input from a file or from /dev/null.");
}

// False: tarn itself refused, or could not start the program. Any other exit status is the program's own.
bool may_be_repeated(int wait_status) {
  return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) != exit_code::refused &&
         WEXITSTATUS(wait_status) != exit_code::not_executable &&
         WEXITSTATUS(wait_status) != exit_code::not_found;
}

std::string name_of_run(const std::string& output, int run) {
  const std::filesystem::path path = output;
  return fmt::format("{}-{}{}", std::filesystem::path(path).replace_extension().string(), run,
                     path.extension().string());
}

}  // namespace

void profile_repeatedly(const command_line& line, int runs, const std::string& output, bool prints) {
  if (output.empty()) {
    throw cli_error(exit_code::usage, "--rounds: several recordings need a name for their files",
                    fmt::format("Give it: -o FILE.prof; the files are FILE-1.prof to FILE-{}.prof", runs));
  }
  require_repeatable_input();
  const off_t input_begin = lseek(STDIN_FILENO, 0, SEEK_CUR);
  std::optional<int> usual_end;
  int end = 0;
  for (int run = 1; run <= runs && end == usual_end.value_or(end) && may_be_repeated(end); ++run) {
    if (input_begin >= 0) lseek(STDIN_FILENO, input_begin, SEEK_SET);
    const std::string name = name_of_run(output, run);
    child_request request{.path = "/proc/self/exe", .arguments = {"tarn", "profile"}};
    request.arguments.insert(request.arguments.end(), line.options.begin(), line.options.end());
    for (const char* word : {"--rounds", "1", "-o", name.c_str()}) request.arguments.emplace_back(word);
    if (prints && run < runs) request.arguments.emplace_back("-q");
    request.arguments.emplace_back("--");
    request.arguments.insert(request.arguments.end(), line.program.begin(), line.program.end());
    request.variables = environment::current();
    if (prints) print_note(fmt::format("recording {} of {}: {}", run, runs, name));
    end = run_in_foreground(request).wait_status;
    if (run == 1) usual_end = end;
  }
  end_like(end);
}

namespace {

constexpr double look_seconds = 0.05;  // between looks for requests while nothing is recorded

class paused_program {
 public:
  paused_program(const profiler::recording_settings& settings, bool quiet, bool json)
      : settings_(settings), quiet_(quiet), json_(json) {}

  // Serves requests and the recording, if any. Returns the seconds until it should be called again.
  double look(pid_t program) {
    if (!control_) begin(program);
    control_->serve([this](const nlohmann::json& request) { return answer(request); });
    if (!stretch_) return look_seconds;
    const double wait = stretch_->look();
    if (!stretch_->is_there()) end_stretch();
    return stretch_ ? wait : look_seconds;
  }

  nlohmann::json end_stretch() {
    if (!stretch_) return {{"files", nlohmann::json::array()}};
    stretch_->end();
    stretch_->print_summary(quiet_, json_);
    nlohmann::json summary = stretch_->summary();
    stretch_.reset();
    return summary;
  }

 private:
  void begin(pid_t program) {
    program_ = program;
    control_.emplace(program);
    if (!control_->is_open()) {
      print_note(fmt::format(
          "process {} cannot be controlled: another tarn process uses the name of its control socket",
          program));
    } else if (!quiet_ && !json_) {
      print_message(
          "tarn: process {} runs without recording; to begin: tarn attach {}, to end: tarn attach --stop "
          "{}\n",
          program, program, program);
    }
  }

  nlohmann::json answer(const nlohmann::json& request) {
    const std::string verb = request.value("verb", "");
    if (verb == "detach") return end_stretch();
    if (verb == "attach") return attach();
    if (verb == "dump" && stretch_) return stretch_->dump(request.value("pid", 0));
    return {{"problem", fmt::format("process {} is paused", program_)},
            {"advice", fmt::format("Begin the recording: tarn attach {}", program_)}};
  }

  nlohmann::json attach() {
    if (stretch_) return already_recorded(program_);
    profiler::recording_settings settings = settings_;
    if (!settings.output.empty() && ++stretches_ > 1) {
      const fs::path file = settings.output;
      settings.output = fmt::format("{}-{}{}", fs::path(file).replace_extension().string(), stretches_,
                                    file.extension().string());
    }
    try {
      std::vector<std::string> notes;
      settings.prices = prices_for(program_, notes);
      stretch_ =
          std::make_unique<attached_recording>(program_, settings, std::move(notes), [] { return true; });
      return {{"recording", program_}};
    } catch (const cli_error& error) {
      return {{"problem", error.what()}, {"advice", error.advice()}};
    }
  }

  profiler::recording_settings settings_;
  bool quiet_;
  bool json_;
  pid_t program_ = 0;
  int stretches_ = 0;
  std::optional<session_control> control_;
  std::unique_ptr<attached_recording> stretch_;
};

}  // namespace

int profile_paused(const std::vector<std::string>& program, const profiler::recording_settings& settings,
                   bool quiet, bool json) {
  if (settings.mode == profiler::profile_mode::faults) {
    throw cli_error(exit_code::usage, "--paused cannot be used with --mode faults",
                    "Mode faults always records from the start of a program; omit --paused.");
  }
  child_request request{.arguments = program, .variables = environment::current()};
  request.path = find_program(program, request.variables).path;
  foreground_result result;
  {
    paused_program paused(settings, quiet, json);
    foreground_look each;
    std::string failure;
    const auto guarded = [&failure](const auto& work) {
      try {
        if (failure.empty()) work();
      } catch (const std::exception& error) {
        failure = error.what();
        print_note(fmt::format("the recording ended early: {}", failure));
      }
    };
    each.interval_seconds = look_seconds;
    each.look = [&](pid_t child) { guarded([&] { each.interval_seconds = paused.look(child); }); };
    each.ended = [&](int) { guarded([&] { paused.end_stretch(); }); };
    result = run_in_foreground(request, &each);
  }
  end_like(result.wait_status);
}

}  // namespace tarn::cli
