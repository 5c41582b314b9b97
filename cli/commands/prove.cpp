// SPDX-License-Identifier: MIT
// tarn prove: runs the program of a profile again, unchanged and under every action that needs no change of its
// code, and reports what that saves. The results are stored in the profile's file, and used by its advice.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <random>

#include "cli/commands/commands.hpp"
#include "cli/compare/applied_plan.hpp"
#include "cli/compare/comparison_report.hpp"
#include "cli/compare/contender.hpp"
#include "cli/compare/proof_report.hpp"
#include "cli/compare/proof_rounds.hpp"
#include "cli/compare/statistics.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/recording/process_choice.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/profile_view.hpp"
#include "cli/show/text.hpp"
#include "profiler/analyze/advice.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

namespace {

constexpr exit_meaning prove_exits[] = {
    {0, "measured"},     {1, "the program ends differently under a way"},
    usage_exit,          {3, "the unchanged program does not end as it was recorded"},
    damaged_exit,        refused_exit,
    not_executable_exit, not_found_exit};

constexpr command_text prove_text = {
    .name = "prove",
    .summary = "Run the recorded program with each change that needs no editing, and measure what it saves.",
    .usage = "tarn prove [OPTIONS] PROFILE",
    .examples =
        "  tarn profile -o run.prof -- ./my_program <in.dat\n"
        "  tarn prove run.prof; tarn advise run.prof\n"
        "  tarn prove -r 20 --only jemalloc,keep-memory run.prof\n"
        "  tarn advise run.prof --plan plan.json; tarn prove --plan plan.json run.prof\n"
        "  tarn prove --with-build build2/my_program run.prof\n"
        "  tarn prove --load 'redis-benchmark -q -p 7777' --ready-port 7777 \\\n"
        "      --stdin /dev/null redis.prof\n",
    .notes =
        "The program is started as it was recorded: with the same arguments, folder and\n"
        "standard input. A way is a change that needs no editing of the program. The\n"
        "rounds end when each way is decided, or when the time is up that is printed\n"
        "first. With --plan the plan is compared with the unchanged program, and nothing\n"
        "is stored.\n"
        "\n"
        "A command that somebody else has recorded, or you on another machine, is shown\n"
        "first: tarn prove asks whether to run it, and needs --trust-file in scripts.\n",
    .exits = prove_exits,
    .page = "docs/explanation/advice.md",
};

struct prove_arguments {
  std::string file;
  proof_wishes wishes;
  server_load load;
  std::string plan;
  std::optional<std::string> build;
  bool no_keep = false;
  bool json = false;
};

void declare_options(command& app, prove_arguments& arguments) {
  proof_wishes& wishes = arguments.wishes;
  app.option("profile PROFILE", arguments.file, "A profile")->required();
  app.option("-r,--rounds N", wishes.rounds,
             "Measure all ways in this many rounds, instead of until each is decided",
             whole_number(1, most_rounds));
  app.option("--for SECONDS", wishes.limit_seconds,
             "Limit of time (12 times the program's own time, at least 4 s; with --load 170 s)",
             number_above_zero());
  add_only_option(app, wishes.actions.ways,
                  "Measure only these ways (of tarn, jemalloc, keep-memory, huge-pages, pool-1, ...)");
  add_malloc_option(app, wishes.actions.mallocs);
  app.option("--plan FILE", arguments.plan, "Measure this plan, which tarn advise --plan wrote");
  app.option("--with-build COMMAND", arguments.build,
             "Measure another build of the program: its path, or its command line");
  app.option("--stdin FILE", wishes.repeat.input,
             "The program's standard input, instead of the recorded one");
  app.option("--timeout SECONDS", wishes.timeout_seconds,
             "Seconds after which a run is killed and counts as failed", number_above_zero());
  add_load_options(app, arguments.load);
  app.option("--seed N", wishes.seed, "Seed for the order of the runs, to repeat that order");
  app.add_flag(
      "--trust-file", wishes.repeat.trusted,
      "Run the command in the profile, although you did not record it here; load what the plan names");
  app.add_flag("--no-keep", arguments.no_keep, "Do not store the result in the profile");
  app.add_flag("--json", arguments.json, "Print all figures as one JSON object on stdout");
}

void set_load(prove_arguments& arguments) {
  if (arguments.load.command.empty()) return;
  require_complete(arguments.load);
  arguments.wishes.load = arguments.load;
  arguments.wishes.repeat.is_server = true;
}

// CPU time, in ns.
struct measured_saving {
  double middle = 0;
  double low = 0;
  double high = 0;
};

const profiler::proof_way* way_of_plan(const proof_result& result) {
  const auto& ways = result.proven.ways;
  const auto found =
      std::find_if(ways.begin(), ways.end(), [](const auto& way) { return way.kind == plan_name; });
  return found == ways.end() || !found->failure.empty() ? nullptr : &*found;
}

measured_saving saving_of(const profiler::proof_way& way) {
  const profiler::proven_figure& cpu = way.of(profiler::proof_metric::cpu);
  const double before = 1e9 * cpu.before;
  return {before * (1 - cpu.ratio), before * (1 - cpu.high), before * (1 - cpu.low)};
}

void print_plan_sites(const profiler::plan& plan, const proof_result& result) {
  const site_report& report = result.plan_sites;
  if (plan.sites.empty()) return;
  if (report.processes == 0) {
    print_note(
        "no process reported how many blocks came from its pools: the processes ended without exit "
        "handlers");
    return;
  }
  const double runs = result.outcome.rounds;
  std::map<std::uint32_t, std::size_t> groups;
  for (const profiler::plan_site& site : plan.sites) {
    const auto [entry, is_new] = groups.try_emplace(site.group, groups.size());
    if (!is_new) continue;
    const auto blocks = report.blocks.find(entry->second);
    fmt::print("{}: {} blocks per run from a {}\n", site.place.empty() ? site.type : site.place,
               profiler::say_count(blocks != report.blocks.end() ? blocks->second / runs : 0),
               site.use == profiler::plan_use::pool ? "pool" : "buffer pool");
  }
  if (report.found < report.all) {
    print_note(
        fmt::format("{:.0f} of the plan's {:.0f} call paths are in no module that the program loads at its "
                    "start; if it was built again, record it again",
                    report.all - report.found, report.all));
  }
}

void print_plan(const profiler::plan& plan, const proof_result& result) {
  using profiler::say_time;
  const profiler::proof_way* const way = way_of_plan(result);
  if (way != nullptr &&
      way->decision == profiler::proof_decision::saves) {  // else the verdict says what is known
    const measured_saving measured = saving_of(*way);
    fmt::print("\nthe plan saves {} of CPU time ({} to {})\n", say_time(measured.middle),
               say_time(measured.low), say_time(measured.high));
  }
  print_plan_sites(plan, result);
}

nlohmann::json plan_json(const proof_result& result) {
  nlohmann::json object = nlohmann::json::object();
  if (const profiler::proof_way* way = way_of_plan(result)) {
    const measured_saving measured = saving_of(*way);
    object["measured"] = {
        {"saving_ns", measured.middle}, {"low_ns", measured.low}, {"high_ns", measured.high}};
  }
  object["blocks"] = nlohmann::json::object();
  for (const auto& [group, blocks] : result.plan_sites.blocks)
    object["blocks"][std::to_string(group)] = blocks;
  return object;
}

// The profile is read again: it was given up before the rounds.
std::vector<profiler::advice> advice_after(const std::string& file, const proof_wishes& wishes,
                                           const proof_result& result) {
  try {
    profiler::profile p = profiler::load_profile(file);
    if (wishes.actions.plan) p.proven = {};  // an earlier proof says nothing about the plan
    if (!wishes.actions.plan && result.proven.rounds > 0) p.proven = result.proven;
    return profiler::advise(p);
  } catch (const profiler::profile_error& error) {
    print_note(fmt::format("no advice: {}", error.what()));
    return {};
  }
}

void print_proof(const proof_result& result, const std::vector<profiler::advice>& advised) {
  const bool colour = wants_colour(STDOUT_FILENO);
  const std::size_t width = terminal_width(STDOUT_FILENO);
  fmt::print("{}", render_proof(result, colour, width));
  bool first = true;
  for (const std::string& line : render_proof_verdict(result.proven)) {
    fmt::print("{}\n", first ? "\n" + paint(fold(line, width), style::bold, colour) : fold(line, width));
    first = false;
  }
  fmt::print("{}", fold(render_proven_advice(advised), width));
  flush_standard_output();
  write_message(fold(render_failures(result.outcome), terminal_width(STDERR_FILENO)));
}

void print_proof_json(const prove_arguments& arguments, const proof_result& result,
                      const std::vector<profiler::advice>& advised) {
  nlohmann::json object = as_json(result);
  object["file"] = arguments.file;
  if (arguments.wishes.actions.plan) object["plan"] = plan_json(result);
  object["advice"] = nlohmann::json::array();
  for (const profiler::advice& one : advised) object["advice"].push_back(profiler::as_json(one));
  print_json_object(object);
  flush_standard_output();
}

}  // namespace

int cmd_prove(const std::vector<std::string>& words) {
  prove_arguments arguments;
  proof_wishes& wishes = arguments.wishes;
  wishes.seed = std::random_device{}();
  command app(prove_text);
  declare_options(app, arguments);
  if (!parse_options(app, words)) return exit_code::success;
  set_load(arguments);
  if (!arguments.plan.empty()) wishes.actions.plan = load_plan(arguments.plan, wishes.repeat.trusted);
  if (arguments.build) wishes.actions.build = find_build(*arguments.build);
  wishes.keep = !arguments.no_keep && !wishes.actions.plan;
  wishes.progress = !arguments.json;
  profiler::profile p = profiler::load_profile(arguments.file);
  warn_of_damage(arguments.file, p.damage);
  require_costs(p, arguments.file);
  // The runs begin in another folder.
  const std::string file = std::filesystem::absolute(arguments.file).string();
  const proof_result result = prove_profile(file, std::move(p), wishes);
  for (const std::string& note : result.notes) print_note(note);
  if (result.proven.rounds == 0 && result.interrupted_by != 0) {
    print_note(interruption_text(result));
    end_like(W_EXITCODE(0, result.interrupted_by));
  }
  const std::vector<profiler::advice> advised = advice_after(file, wishes, result);
  if (arguments.json) {
    print_proof_json(arguments, result, advised);
  } else {
    print_proof(result, advised);
    if (wishes.actions.plan) print_plan(*wishes.actions.plan, result);
  }
  if (result.interrupted_by != 0) {
    print_note(interruption_text(result));
    end_like(W_EXITCODE(0, result.interrupted_by));
  }
  if (result.proven.rounds == 0) return exit_code::success;
  const bool unchanged_fails = !result.outcome.results.front().failure.empty();
  return unchanged_fails ? exit_code::program_fails : exit_code_of(result.outcome, false);
}

}  // namespace tarn::cli
