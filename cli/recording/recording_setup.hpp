// SPDX-License-Identifier: MIT
// recording_setup: what `tarn profile` and `tarn attach` have in common: the prices for a recording, the
// description of the system, and the report on the files at the end.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/launch/command_line.hpp"
#include "profiler/collect/recording.hpp"

namespace tarn::cli {

inline constexpr double idle_seconds = 0.005;  // the kernel's buffers hold the page faults of a few ms
inline constexpr double busy_seconds = 0.0005;
inline constexpr double seconds_between_progress = 0.5;

// The options that both commands have.
struct recording_arguments {
  // `modes`: those that the command has; `mode_help` describes them, `output_help` the name of the file.
  // All of them belong to the use "", some also to `tarn attach --stop` and `--dump`.
  std::vector<limited_option> declare(command& app, const std::vector<std::string>& modes,
                                      const std::string& mode_help, const std::string& output_help);
  // Throws cli_error if the distance of samples is out of range.
  profiler::recording_settings settings() const;

  std::string mode = "sample";
  std::string output;
  std::string sample;  // empty: not given
  double checkpoint = 5;
  bool no_events = false;
  bool quiet = false;
  bool json = false;
};

// `allocator`: the file of the program's malloc; empty: not known. Anything that limits the result is reported in
// `notes`.
profiler::price_list find_prices(const std::string& allocator, std::vector<std::string>& notes);
// If the program in `file` has a malloc under another name, of which the recorder hears nothing.
void note_unseen_blocks(const std::string& file, const std::string& name, std::vector<std::string>& notes);
nlohmann::json describe_place(const std::vector<std::string>& notes, const std::string& process = "self");
nlohmann::json summary_of(const profiler::recording& record);
void print_files(const profiler::recording& record);

}  // namespace tarn::cli
