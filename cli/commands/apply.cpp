// SPDX-License-Identifier: MIT
// tarn apply: runs an unmodified program with a plan's changes in effect, side by side with the program as it is,
// and reports whether they save what was predicted.
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "cli/commands/commands.hpp"
#include "cli/compare/applied_plan.hpp"
#include "cli/compare/comparison.hpp"
#include "cli/compare/comparison_report.hpp"
#include "cli/compare/contender.hpp"
#include "cli/compare/own_command.hpp"
#include "cli/compare/statistics.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/launch/library_search.hpp"
#include "cli/launch/memory_conditioner.hpp"
#include "cli/launch/program_target.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/text.hpp"
#include "profiler/analyze/plan.hpp"
#include "profiler/analyze/quantity.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

using profiler::say_time;

namespace {

constexpr const char* applied_name = "applied";
constexpr const char* plain_name = "plain";

constexpr exit_meaning apply_exits[] = {
    {0, "measured"}, {1, "the program ends differently with the plan"},
    usage_exit,      {3, "the program fails with and without the plan"},
    refused_exit,    not_executable_exit,
    not_found_exit,  {exit_meaning::of_program, "with --once: the program's own"}};

constexpr command_text apply_text = {
    .name = "apply",
    .summary = "Run a program with the changes of a plan, and measure what they save.",
    .usage = "tarn apply [OPTIONS] PLAN -- PROGRAM ARG...",
    .examples =
        "  tarn profile -o run.prof -- ./my_program\n"
        "  tarn advise run.prof --plan plan.json\n"
        "  tarn apply plan.json -- ./my_program\n"
        "  tarn apply plan.json --once -- ./my_program   only run it with the plan\n",
    .notes = "",
    .exits = apply_exits,
};

struct apply_arguments {
  std::string plan;
  comparison_settings settings;
  int rounds = 0;
  std::int64_t touch_mib = -1;
  bool once = false;
  bool trusts = false;
  bool json = false;
};

void declare_options(command& app, apply_arguments& arguments) {
  comparison_settings& settings = arguments.settings;
  app.option("plan PLAN", arguments.plan, "A plan written by tarn advise --plan")->required();
  app.option("-n,--runs N", arguments.rounds,
             "Number of timed rounds (3 to 10, as many as fit into about a minute)",
             whole_number(1, most_rounds));
  app.option("-w,--warmup N", settings.warmup_rounds, "Rounds before the timed ones, not counted (1)",
             whole_number(0, 100));
  app.option("--timeout SECONDS", settings.timeout_seconds,
             "Seconds after which a run is killed and counts as failed", number_above_zero());
  app.option("--input FILE", settings.input, "The program's standard input (/dev/null)");
  app.option("--touch MIB", arguments.touch_mib, "Memory to touch and release before each run; 0: none (256)",
             whole_number(0, 1 << 20));
  app.add_flag("-i,--ignore-failure", settings.ignore_failure, "Count every exit status as success");
  app.add_flag("--show-output", settings.show_output, "Show the program's output");
  app.add_flag("--once", arguments.once, "Run the program once with the plan, and end with its status");
  app.add_flag("--trust-file", arguments.trusts,
               "Use a library or variables that the plan names, although they could run anything");
  app.add_flag("--json", arguments.json, "Print all figures as one JSON object on stdout");
}

profiler::plan load_plan(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) {
    throw cli_error(exit_code::refused, fmt::format("cannot read {}: {}", path, std::strerror(errno)),
                    "Write a plan by: tarn advise PROFILE --plan PLAN");
  }
  return profiler::read_plan(text.str(), path);
}

// Installed by root, and replaced by nobody else: the file and all folders above it.
bool is_of_system(const std::string& path) {
  std::error_code error;
  std::filesystem::path each = std::filesystem::canonical(path, error);
  for (; !error; each = each.parent_path()) {
    struct stat status = {};
    if (stat(each.c_str(), &status) != 0 || status.st_uid != 0 || (status.st_mode & 022) != 0) return false;
    if (each == each.root_path()) return true;
  }
  return false;
}

// A plan may come from anybody, and be made from anybody's profile: what it lets the program load or read is shown, unless
// it is a library of the system or tarn's own, or an option that only tunes malloc.
void require_harmless(const std::string& file, const profiler::plan& plan, bool trusted) {
  constexpr std::string_view harmless[] = {"GLIBC_TUNABLES", "TARN_HUGE_PAGES"};
  std::string lines;
  const bool is_path = plan.library.find('/') != std::string::npos;
  if (is_path && !is_of_system(plan.library) && plan.library != find_tarn_library())
    lines += "malloc " + profiler::printable(plan.library) + " ";
  for (const profiler::environment_variable& each : plan.variables) {
    if (std::find(std::begin(harmless), std::end(harmless), each.name) == std::end(harmless))
      lines += profiler::printable(each.name) + "=" + profiler::printable(each.value) + " ";
  }
  if (lines.empty()) return;
  lines.pop_back();
  require_consent(file, "what it loads", lines, trusted);
}

struct measured_saving {
  double saving_ns = 0;
  double low_ns = 0;
  double high_ns = 0;
};

// CPU time, like the prediction: the difference by round, so that disturbances of both runs cancel out.
std::optional<measured_saving> measure_saving(const comparison_outcome& outcome) {
  const contender_result& applied = outcome.results[0];
  const contender_result& plain = outcome.results[1];
  const std::size_t rounds = std::min(applied.rounds.size(), plain.rounds.size());
  if (rounds == 0) return std::nullopt;
  std::vector<double> differences;
  for (std::size_t round = 0; round < rounds; ++round) {
    differences.push_back(1e9 * (plain.rounds[round].cpu_seconds - applied.rounds[round].cpu_seconds));
  }
  return measured_saving{median(differences), *std::min_element(differences.begin(), differences.end()),
                         *std::max_element(differences.begin(), differences.end())};
}

const char* verdict_of(const profiler::plan& plan, const measured_saving& measured) {
  if (plan.saving_ns <= 0) return "nothing was predicted";
  if (measured.saving_ns < plan.low_ns) return "less than predicted";
  if (measured.saving_ns > plan.high_ns) return "more than predicted";
  return "inside the prediction";
}

void print_sites(const profiler::plan& plan, const site_report& report, int runs) {
  if (plan.sites.empty()) return;
  if (report.processes == 0) {
    print_note(
        "no process reported how many blocks came from its pools: the processes ended without exit "
        "handlers");
    return;
  }
  std::map<std::uint32_t, std::size_t> groups;
  for (const profiler::plan_site& site : plan.sites) {
    const auto [entry, is_new] = groups.try_emplace(site.group, groups.size());
    if (!is_new) continue;
    const auto blocks = report.blocks.find(entry->second);
    const double count = blocks != report.blocks.end() ? blocks->second / std::max(1, runs) : 0;
    fmt::print("{}: {} blocks per run from a {}\n", site.place.empty() ? site.type : site.place,
               profiler::say_count(count), site.use == profiler::plan_use::pool ? "pool" : "buffer pool");
  }
  if (report.found < report.all) {
    print_note(
        fmt::format("{:.0f} of the plan's {:.0f} call paths are in no module that the program loads at its "
                    "start; if it was built again, record it again",
                    report.all - report.found, report.all));
  }
}

void print_prediction(const profiler::plan& plan, const measured_saving& measured) {
  fmt::print("\npredicted: {} of CPU time less ({} to {})", say_time(plan.saving_ns), say_time(plan.low_ns),
             say_time(plan.high_ns));
  fmt::print("\nmeasured:  {} ({} to {} over the rounds): {}\n", say_time(measured.saving_ns),
             say_time(measured.low_ns), say_time(measured.high_ns), verdict_of(plan, measured));
}

// --once: the program replaces this process.
[[noreturn]] void become_applied(const profiler::plan& plan, const program_target& target,
                                 const std::vector<std::string>& words) {
  const applied_plan in_place(plan);
  const contender applied = in_place.as_contender(applied_name);
  child_request request;
  request.path = target.path;
  request.arguments = words;
  request.variables = environment_for(applied);
  const held_signals signals{};
  const pid_t child = start_child(request, signals.before());
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  in_place.remove_files();
  end_like(status);
}

int measure(const profiler::plan& plan, const apply_arguments& arguments, const program_target& target,
            const std::vector<std::string>& words) {
  const applied_plan in_place(plan);
  std::vector<contender> contenders = {in_place.as_contender(applied_name), {plain_name, "", {}}};
  if (!contenders[0].library.empty()) verify_contender(contenders[0], target);
  // A further contender shows which part of the saving comes from tarn's malloc alone.
  if (!plan.sites.empty()) contenders.push_back({"tarn alone", find_tarn_library(), {}});
  const comparison_outcome outcome = comparison(contenders, target, words, arguments.settings).run();
  const site_report told = in_place.report();
  const auto measured = measure_saving(outcome);
  if (arguments.json) {
    nlohmann::json object = as_json(outcome);
    object["program"] = words;
    object["predicted"] = {{"saving_ns", plan.saving_ns}, {"low_ns", plan.low_ns}, {"high_ns", plan.high_ns}};
    if (measured) {
      object["measured"] = {
          {"saving_ns", measured->saving_ns}, {"low_ns", measured->low_ns}, {"high_ns", measured->high_ns}};
      object["verdict"] = verdict_of(plan, *measured);
    }
    object["blocks"] = nlohmann::json::object();
    for (const auto& [group, blocks] : told.blocks) object["blocks"][std::to_string(group)] = blocks;
    print_json_object(object);
    return exit_code_of(outcome, arguments.settings.ignore_failure);
  }
  const bool colour = wants_colour(STDOUT_FILENO);
  fmt::print("{}", render_table(outcome, colour, terminal_width(STDOUT_FILENO)));
  for (const std::string& line : render_verdict(outcome)) fmt::print("{}\n", line);
  if (measured) print_prediction(plan, *measured);
  print_sites(plan, told, outcome.rounds + arguments.settings.warmup_rounds);
  flush_standard_output();
  fmt::print(stderr, "{}", render_failures(outcome));
  return exit_code_of(outcome, arguments.settings.ignore_failure);
}

// PLAN comes before the program: the program's words are those after "--", or without it those after PLAN.
command_line split_plan_and_program(const std::vector<std::string>& words, const command& app) {
  const auto mark = std::find(words.begin(), words.end(), "--");
  if (mark != words.end()) return {{words.begin(), mark}, {mark + 1, words.end()}};
  command_line line = split_command_line(words, app);
  if (line.program.empty()) return line;
  line.options.push_back(line.program.front());
  line.program.erase(line.program.begin());
  return line;
}

}  // namespace

int cmd_apply(const std::vector<std::string>& words) {
  apply_arguments arguments;
  arguments.settings.seed = std::random_device{}();
  command app(apply_text);
  declare_options(app, arguments);
  const command_line line = split_plan_and_program(words, app);
  if (!parse_options(app, line.options)) return exit_code::success;
  const profiler::plan plan = load_plan(arguments.plan);
  require_program(line, "apply");
  if (plan.sites.empty() && plan.variables.empty() && !plan.on_tarn && plan.library.empty()) {
    throw cli_error(exit_code::refused, fmt::format("{} changes nothing", arguments.plan),
                    "Write another plan: tarn advise PROFILE --plan PLAN");
  }
  require_harmless(arguments.plan, plan, arguments.trusts);
  const program_target target = find_program(line.program, environment::current());
  if (arguments.once) become_applied(plan, target, line.program);
  if (arguments.rounds > 0) arguments.settings.rounds = arguments.rounds;
  arguments.settings.conditioning_bytes = arguments.touch_mib < 0
                                              ? default_conditioning_bytes()
                                              : static_cast<std::uint64_t>(arguments.touch_mib) << 20;
  try {
    return measure(plan, arguments, target, line.program);
  } catch (const interrupted& stop) {
    print_note("interrupted; no figures");
    end_like(W_EXITCODE(0, stop.signal));
  }
}

}  // namespace tarn::cli
