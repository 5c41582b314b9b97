// SPDX-License-Identifier: MIT
// tarn doctor: which features of this system profiling can use, and how to enable others.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/launch/facilities.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {

namespace {

constexpr exit_meaning doctor_exits[] = {{0, "a profile is complete; with --options: shown"},
                                         {1, "something is missing"},
                                         usage_exit,
                                         refused_exit};

constexpr command_text doctor_text = {
    .name = "doctor",
    .summary = "Show what a profile can record on this system, and tarn's options in effect.",
    .usage = "tarn doctor [--options] [--json]",
    .examples =
        "  tarn doctor                              what works here, how to get more\n"
        "  TARN_DECAY_MS=5000 tarn doctor --options every option and its value in effect\n"
        "  TARN_DECAY_MS=5000 tarn run -- ./server  run a program with it\n",
    .notes =
        "Tries everything that `tarn profile` would use, and says what a profile would\n"
        "lack.\n"
        "\n"
        "Options of tarn's malloc are set by environment variables before the program\n"
        "starts. In a process that runs: tarn control PID\n",
    .exits = doctor_exits,
    .page = "docs/reference/profiling.md",
};

struct mark {
  const char* text;
  style how;
};
// By `standing`.
constexpr mark marks[] = {
    {"ok     ", style::good}, {"partly ", style::bold}, {"missing", style::bad}, {"       ", style::faint}};

}  // namespace

int cmd_doctor(const std::vector<std::string>& words) {
  command app(doctor_text);
  bool options = false, json = false;
  app.add_flag("--options", options, "Show tarn's options with their effective values instead");
  app.add_flag("--json", json, "Print the same as one JSON object");
  if (!parse_options(app, words)) return exit_code::success;
  if (options) return show_options(json);
  const std::vector<facility> all = look_at_facilities();
  const bool whole = std::none_of(all.begin(), all.end(), [](const facility& one) {
    return one.how == standing::missing || one.how == standing::partly;
  });
  if (json) {
    const nlohmann::json object = {
        {"facilities", as_json(all)}, {"kernel", kernel_name()}, {"complete", whole}};
    print_json_object(object);
    return whole ? exit_code::success : 1;
  }
  const bool colour = wants_colour(STDOUT_FILENO);
  std::size_t width = 0;
  for (const facility& one : all) width = std::max(width, display_width(one.name));
  for (const facility& one : all) {
    fmt::print("{}  {}  {}\n",
               paint(marks[static_cast<int>(one.how)].text, marks[static_cast<int>(one.how)].how, colour),
               pad_right(one.name, width), one.state);
    const std::string indent(11 + width, ' ');  // to the column of one.state
    if (!one.missing.empty()) fmt::print("{}a profile misses: {}\n", indent, one.missing);
    if (!one.remedy.empty()) fmt::print("{}to get it: {}\n", indent, one.remedy);
  }
  fmt::print("\n{}\n", whole ? "A profile recorded here is complete."
                             : "A profile recorded here says itself what it does not contain.");
  return whole ? exit_code::success : 1;
}

}  // namespace tarn::cli
