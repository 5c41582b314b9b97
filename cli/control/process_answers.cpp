// SPDX-License-Identifier: MIT
#include "cli/control/process_answers.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "cli/control/control_client.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::cli {

namespace {

constexpr answer_limits a_text;
constexpr answer_limits of_metrics{.bytes = std::size_t{16} << 20};
// Of several together, so that none takes the others' part.
constexpr std::size_t bytes_of_many = std::size_t{128} << 20;
constexpr std::size_t least_bytes_of_one = std::size_t{1} << 20;
constexpr double seconds_of_many = 8;
constexpr answer_limits of_heap{.bytes = std::size_t{1} << 20};
constexpr answer_limits of_work{.seconds = 60};
constexpr answer_limits of_profile{.bytes = std::size_t{64} << 20, .seconds = 30};
constexpr std::size_t most_options = 1000;

cli_error makes_no_sense(pid_t process, const char* what) {
  return {exit_code::refused, fmt::format("process {} has sent {}", process, what),
          "Its tarn may be of another version: use the tarn command of that."};
}

}  // namespace

profiler::metric_list metrics_of(pid_t process) {
  return profiler::read_metrics(ask_process(process, "metrics", of_metrics));
}

std::vector<std::optional<profiler::metric_list>> metrics_of(const std::vector<pid_t>& processes) {
  std::vector<std::optional<profiler::metric_list>> out;
  const std::size_t share = bytes_of_many / std::max<std::size_t>(1, processes.size());
  const answer_limits limits{.bytes = std::clamp(share, least_bytes_of_one, of_metrics.bytes),
                             .seconds = seconds_of_many};
  for (auto& text : ask_processes(processes, "metrics", limits)) {
    out.push_back(text ? std::optional(profiler::read_metrics(*text)) : std::nullopt);
    text.reset();
  }
  return out;
}

nlohmann::json heap_figures_of(pid_t process) {
  std::string problem;
  const nlohmann::json heap =
      profiler::read_json_object(ask_process(process, "stats", of_heap), "stats", problem);
  if (!problem.empty()) throw makes_no_sense(process, "figures that are no JSON");
  return printable_json(heap);
}

std::vector<process_option> options_of(pid_t process) {
  std::vector<process_option> all;
  std::istringstream lines(ask_process(process, "options", a_text));
  for (std::string line; all.size() < most_options && std::getline(lines, line);) {
    std::istringstream fields(line);
    process_option one;
    std::string settable;
    std::getline(fields, one.name, '\t');
    std::getline(fields, one.value, '\t');
    std::getline(fields, one.source, '\t');
    std::getline(fields, settable, '\t');
    std::getline(fields, one.accepts);
    one.is_settable = settable == "yes";
    for (std::string* const text : {&one.name, &one.value, &one.source, &one.accepts})
      *text = profiler::printable(*text);
    all.push_back(std::move(one));
  }
  return all;
}

std::string set_option(pid_t process, const std::string& change) {
  std::string answer = ask_process(process, "set " + change, a_text);
  if (answer.ends_with('\n')) answer.pop_back();
  return profiler::printable(answer);
}

std::uint64_t trim_process(pid_t process, std::uint64_t keep) {
  const std::string answer = ask_process(process, fmt::format("trim {}", keep), of_work);
  std::uint64_t bytes = 0;
  const char* const end = answer.data() + answer.size();
  const auto [stop, problem] = std::from_chars(answer.data(), end, bytes);
  if (problem != std::errc() || end - stop != 1 || *stop != '\n') throw makes_no_sense(process, "no number");
  return bytes;
}

std::string profile_of(pid_t process, const std::string& view) {
  return ask_process(process, "profile " + view, of_profile);
}

void require_answer(pid_t process) { ask_process(process, "help", a_text); }

bool is_any_answering(const std::vector<pid_t>& processes) {
  const auto answers = ask_processes(processes, "help", {.seconds = 5});
  return std::any_of(answers.begin(), answers.end(), [](const auto& each) { return each.has_value(); });
}

}  // namespace tarn::cli
