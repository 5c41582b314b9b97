// SPDX-License-Identifier: MIT
// tarn advise: what would make the memory allocation of a recorded program cheaper, by how much, and what is better
// left unchanged.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/commands/commands.hpp"
#include "cli/compare/advice_replay.hpp"
#include "cli/compare/statistics.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/launch/memory_conditioner.hpp"
#include "cli/recording/process_choice.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/text.hpp"
#include "profiler/analyze/advice.hpp"
#include "profiler/analyze/plan.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::cli {

using profiler::advice;
using profiler::advice_kind;
using profiler::say_bytes;
using profiler::say_share;
using profiler::say_time;

namespace {

constexpr exit_meaning advise_exits[] = {{0, "advised"}, usage_exit, damaged_exit, refused_exit};

constexpr command_text advise_text = {
    .name = "advise",
    .summary = "List changes that would make a recorded program allocate more cheaply.",
    .usage = "tarn advise [OPTIONS] PROFILE",
    .examples =
        "  tarn profile -o run.prof -- ./my_program; tarn advise run.prof\n"
        "  tarn advise run.prof --estimate        at once, without a replay\n"
        "  tarn advise run.prof --plan plan.json  then try it on the unchanged program:\n"
        "  tarn prove --plan plan.json run.prof   measure it\n"
        "  tarn run --plan plan.json -- ./program run it so\n"
        "  tarn advise run.prof --plan plan.json --number 2\n",
    .notes = "",
    .exits = advise_exits,
    .page = "docs/explanation/advice.md",
};

struct advise_arguments {
  std::string file;
  std::string plan;
  std::string process;
  int only = 0;
  int rounds = 3;
  double least_percent = 1;
  bool replay = false;
  bool estimate = false;
  bool json = false;
};

void declare_options(command& app, advise_arguments& arguments) {
  app.option("profile PROFILE", arguments.file, "A profile")->required();
  CLI::Option* replay =
      app.add_flag("--replay", arguments.replay, "Fail if the recording cannot be replayed");
  app.add_flag("--estimate", arguments.estimate,
               "Do not replay: the answer comes at once, with wider intervals")
      ->excludes(replay);
  app.option("-r,--rounds N", arguments.rounds, "Number of rounds of the replay (3)",
             whole_number(1, most_rounds));
  app.option("--plan FILE", arguments.plan,
             "Write the advice that needs no editing as a plan for tarn prove and run; -: standard output");
  app.option("--number N", arguments.only, "Only this piece of advice goes into the plan",
             whole_number(1, 1000));
  app.option("--min PERCENT", arguments.least_percent,
             "Advise only changes that save at least this percentage of CPU time (1)", number(0.0, 100.0));
  add_process_option(app, arguments.process);
  app.add_flag("--json", arguments.json, "Print one JSON object on stdout");
}

// Prints the lines of `text` to the right of a label, which is in the first line.
void print_lines(const char* label, const std::string& text) {
  fmt::print("   {:<9} {}\n", label, begin_lines(text, std::string(13, ' ')));
}

std::string say_saving(const advice& one) {
  if (one.grade == profiler::advice_grade::disproved) return "no measurable saving: disproved by tarn prove";
  return fmt::format("saves {} ({} to {}), {} of CPU time, {}", say_time(one.saving_ns), say_time(one.low_ns),
                     say_time(one.high_ns), say_share(one.share), profiler::grade_name(one.grade));
}

void print_one(const advice& one, std::size_t number, bool colour) {
  if (one.kind == advice_kind::leave_it) {
    fmt::print("{}\n", paint(one.headline, style::bold, colour));
  } else {
    fmt::print("{}. {}\n", number, paint(one.headline, style::bold, colour));
    if (!is_remark(one)) print_lines("", paint(say_saving(one), style::good, colour));
  }
  if (one.instead_of >= 0)
    print_lines("", fmt::format("instead of {}: both would save the same cost", one.instead_of + 1));
  if (!one.place.empty()) print_lines("where", one.place);
  print_lines("why", one.reason);
  bool first = true;
  for (const std::string& line : one.evidence) {
    print_lines(first ? "figures" : "", line);
    first = false;
  }
  if (one.memory_bytes >= 1)
    print_lines("memory", "up to " + say_bytes(one.memory_bytes) + " more stay resident");
  if (!one.change.empty()) print_lines("change", one.change);
  fmt::print("\n");
}

void print_all(const profiler::profile& p, const std::vector<advice>& all) {
  const bool colour = wants_colour(STDOUT_FILENO);
  const profiler::cost total = cost_of_all(p);
  const double cpu = profiler::cpu_time_of(p);
  std::string program = profiler::text_in(p.meta, "program");
  // Other names may lead to one file: `dot` runs libgvc6-config-update.
  const std::string called = profiler::text_in(p.meta, "command");
  if (!called.empty() && called != program.substr(program.rfind('/') + 1))
    program = called + " (" + program + ")";
  fmt::print(
      "{}: {} of CPU time, {} of it ({}) for memory allocation\n"
      "\n",
      program, say_time(cpu), say_time(total.total()), say_share(total.total() / cpu));
  for (std::size_t index = 0; index < all.size(); ++index) print_one(all[index], index + 1, colour);
}

void write_plan_file(output_file& file, const advise_arguments& arguments, const profiler::profile& p,
                     const std::vector<advice>& all) {
  if (arguments.only > static_cast<int>(all.size())) {
    throw cli_error(exit_code::usage,
                    fmt::format("--number {}: there {}", arguments.only,
                                all.size() == 1 ? "is 1 piece of advice"
                                                : fmt::format("are {} pieces of advice", all.size())),
                    "For a list with numbers run tarn advise without --plan.");
  }
  const profiler::plan plan = plan_of(p, all, arguments.only - 1);
  if (plan.variables.empty() && plan.sites.empty() && !plan.on_tarn && plan.library.empty()) {
    throw cli_error(exit_code::refused, "none of this advice can be tried without editing the program",
                    arguments.only > 0 ? "Give another number, or omit --number." : "Omit --plan.");
  }
  file.write(write_plan(plan));
  file.finish();
}

// Limit for a replay that takes only seconds.
constexpr std::uint64_t most_conditioning_bytes = std::uint64_t{64} << 20;
// Share of `least_share`: advice with an estimate above it is replayed.
constexpr double tried_part = 0.2;

// If the profile cannot be replayed, the estimates stay; it is an error only if a replay was requested.
std::vector<advice> replay_if_possible(const advise_arguments& arguments, const profiler::profile& p,
                                       const profiler::advice_settings& which,
                                       std::vector<std::string>& notes) {
  // Advice whose estimate is somewhat below the limit may turn out to be worth it.
  profiler::advice_settings candidates = which;
  candidates.least_share *= tried_part;
  replay_settings settings;
  settings.rounds = arguments.rounds;
  settings.seed = std::random_device{}();
  settings.conditioning_bytes = std::min(default_conditioning_bytes(), most_conditioning_bytes);
  try {
    require_events(p, arguments.file);
    return replay_advice(arguments.file, p, advise(p, candidates), which, settings, notes);
  } catch (const cli_error& error) {
    if (arguments.replay) throw;
    notes.push_back(fmt::format("estimates only: {}", error.what()));
  } catch (const profiler::profile_error& error) {
    if (arguments.replay) throw;
    notes.push_back(fmt::format("estimates only: {}", error.what()));
  }
  return advise(p, which);
}

}  // namespace

int cmd_advise(const std::vector<std::string>& words) {
  advise_arguments arguments;
  command app(advise_text);
  declare_options(app, arguments);
  if (!parse_options(app, words)) return exit_code::success;
  const profiler::profile p = load_for_command(arguments.file, arguments.process);
  std::vector<std::string> notes;
  profiler::advice_settings settings;
  settings.least_share = arguments.least_percent / 100;
  const std::vector<advice> all =
      arguments.estimate ? profiler::advise(p, settings) : replay_if_possible(arguments, p, settings, notes);
  for (const std::string& note : notes) print_note(note);
  if (!arguments.plan.empty()) {
    output_file file("--plan", arguments.plan);
    write_plan_file(file, arguments, p, all);
    if (arguments.plan == "-") return exit_code::success;
  }
  if (arguments.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const advice& one : all) list.push_back(as_json(one));
    const nlohmann::json object = {{"file", arguments.file},
                                   {"cpu_ns", profiler::cpu_time_of(p)},
                                   {"allocation_ns", cost_of_all(p).total()},
                                   {"peak_bytes", profiler::peak_bytes_of(p)},
                                   {"notes", notes},
                                   {"advice", list}};
    print_json_object(object);
  } else {
    print_all(p, all);
  }
  flush_standard_output();
  return exit_code::success;
}

}  // namespace tarn::cli
