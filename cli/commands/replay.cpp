// SPDX-License-Identifier: MIT
// tarn replay: replays the recorded allocations of a profile under every available malloc and from tarn's pools.
#include <fmt/core.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/commands/commands.hpp"
#include "cli/compare/replay_rounds.hpp"
#include "cli/compare/statistics.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/launch/library_search.hpp"
#include "cli/launch/memory_conditioner.hpp"
#include "cli/launch/program_target.hpp"
#include "cli/recording/process_choice.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/profile_view.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/replay/trace.hpp"

namespace tarn::cli {

namespace {

constexpr const char* pools_name = "tarn pools";

constexpr exit_meaning replay_exits[] = {{0, "replayed"}, usage_exit, damaged_exit, refused_exit};

constexpr command_text replay_text = {
    .name = "replay",
    .summary = "Replay the recorded allocations under every malloc and from pools.",
    .usage = "tarn replay [OPTIONS] PROFILE",
    .examples =
        "  tarn profile --mode full -o run.prof -- ./my_program; tarn replay run.prof\n"
        "  tarn replay run.prof --only system,tarn -r 10\n"
        "  tarn replay run.prof --malloc snmalloc=/opt/lib/libsnmallocshim.so\n",
    .notes = "",
    .exits = replay_exits,
};

struct replay_arguments {
  std::string file;
  std::vector<std::string> with;
  std::vector<std::string> only;
  std::size_t events = profiler::trace_settings().most_events;
  replay_settings settings;
  bool json = false;
};

void declare_options(command& app, replay_arguments& arguments) {
  app.option("profile PROFILE", arguments.file,
             "A profile; only --mode full records the exact order of all calls")
      ->required();
  add_malloc_option(app, arguments.with);
  add_only_option(app, arguments.only, "Measure only these (of system, tarn, 'tarn pools', jemalloc, ...)");
  app.option("-r,--rounds N", arguments.settings.rounds,
             "Number of rounds; each replays under all of them (5)", whole_number(1, most_rounds));
  app.option("--events N", arguments.events, "Replay only the first N events (5000000)",
             whole_number(1, 200'000'000));
  app.option("--seed N", arguments.settings.seed, "Seed for the order of the replays, to repeat that order");
  app.add_flag("--json", arguments.json, "Print all figures of all rounds as one JSON object on stdout");
}

void note_trace(const profiler::trace& recorded, std::vector<std::string>& notes) {
  using namespace profiler;
  if (!recorded.damage.empty())
    notes.push_back(fmt::format("the file is damaged ({}); only the events before the damage are replayed",
                                recorded.damage));
  if (recorded.sampled)
    notes.emplace_back(
        "the file contains samples: the calls that they stand for are replayed, in an order that "
        "is right on average (for the exact order: tarn profile --mode full)");
  if (recorded.cut)
    notes.emplace_back("the file has more events; only the first ones are replayed (for more: --events N)");
  if (recorded.unknown > 0) {
    notes.push_back(
        fmt::format("{} frees are left out, as the allocations of their blocks are not in the file",
                    say_count(static_cast<double>(recorded.unknown))));
  }
}

// Leaves out ways that cannot be run, with the reason in `notes`; if it is tarn, that is an error.
std::vector<replay_way> choose_ways(const replay_arguments& arguments, const profiler::trace_image& image,
                                    bool pools, std::vector<std::string>& notes) {
  const program_target self = find_program({own_executable()}, environment::current());
  std::vector<replay_way> ways;
  for (const contender& who : choose_contenders(arguments.with, arguments.only, {pools_name})) {
    if (takes_effect(who, self, notes)) ways.push_back({who.name, who, profiler::play_mode::heap, &image});
  }
  const bool wanted = is_wanted(pools_name, arguments.only);
  if (pools && wanted) {
    const std::vector<contender> tarn_only = choose_contenders(arguments.with, {tarn_name});
    ways.push_back({pools_name, tarn_only.front(), profiler::play_mode::routes, &image});
  } else if (wanted) {
    notes.emplace_back("no pool is advised for this program, so none is replayed");
  }
  return ways;
}

// "12 ms of CPU time less (9.1 ms to 15 ms)". An interval that contains zero is named from its worst end: "between 3 ms
// more and 12 ms less".
std::string say_change(double saving, double low, double high) {
  using profiler::say_time;
  const bool is_more = saving < 0;
  const std::string middle =
      fmt::format("{} of CPU time {}", say_time(std::abs(saving)), is_more ? "more" : "less");
  if (low < 0 && high > 0)
    return fmt::format("{} (between {} more and {} less)", middle, say_time(-low), say_time(high));
  if (is_more) std::swap(low, high);
  return fmt::format("{} ({} to {})", middle, say_time(std::abs(low)), say_time(std::abs(high)));
}

void print_savings(const std::vector<replay_result>& results, const profiler::profile& p, bool cut) {
  using namespace profiler;
  const judged_program program = judged_program_of(p);
  const replay_result& base = results.front();
  for (const replay_result& result : results) {
    if (&result == &base) continue;
    const auto saving = saving_of(result, base);
    if (!saving) continue;
    advice one;
    one.kind = advice_kind::allocator;
    one.grade = advice_grade::replayed;
    apply_experience(one, *saving, program);
    const std::string share =
        cut ? "" : fmt::format(", {} of the program's CPU time", say_share(std::abs(one.share)));
    fmt::print("{} instead of {}: {}{}\n", result.way.name, base.way.name,
               say_change(one.saving_ns, one.low_ns, one.high_ns), share);
  }
}

void print_failures(const std::vector<replay_result>& results) {
  for (const replay_result& result : results) {
    if (!result.failure.empty())
      print_note(fmt::format("{} has no figures: {}", result.way.name, result.failure));
    double failed = 0;
    for (const profiler::play_figures& round : result.rounds) failed = std::max(failed, round.failed);
    if (failed > 0) print_note(fmt::format("{}: {:.0f} allocations failed", result.way.name, failed));
  }
}

}  // namespace

int cmd_replay(const std::vector<std::string>& words) {
  replay_arguments arguments;
  arguments.settings.seed = std::random_device{}();
  command app(replay_text);
  declare_options(app, arguments);
  if (!parse_options(app, words)) return exit_code::success;
  const profiler::profile p = profiler::load_profile(arguments.file);
  tell_damage(arguments.file, p.damage);
  require_events(p, arguments.file);
  profiler::trace_settings settings;
  settings.most_events = arguments.events;
  profiler::add_routes(settings, p, profiler::advise(p));
  const profiler::trace recorded = profiler::load_trace(arguments.file, p, settings);
  std::vector<std::string> notes;
  note_trace(recorded, notes);
  const profiler::trace_image image(recorded);
  const std::vector<replay_way> ways = choose_ways(arguments, image, recorded.routes.size() > 1, notes);
  for (const std::string& note : notes) print_note(note);
  if (ways.empty()) {
    throw cli_error(exit_code::refused, "no allocator is left to replay under",
                    "The notes above say why each was left out.");
  }
  arguments.settings.timeout_seconds = replay_timeout(recorded.duration_ns);
  arguments.settings.conditioning_bytes = default_conditioning_bytes();
  const std::vector<replay_result> results = replay_all(ways, arguments.settings);
  if (arguments.json) {
    nlohmann::json object = {{"file", arguments.file},
                             {"operations", recorded.operations},
                             {"allocations", recorded.allocations},
                             {"threads", recorded.threads},
                             {"notes", notes},
                             {"seed", arguments.settings.seed},
                             {"ways", as_json(results)}};
    print_json_object(object);
    return exit_code::success;
  }
  fmt::print("{} allocations by {} threads, {} asked for in all\n\n",
             profiler::say_count(static_cast<double>(recorded.allocations)), recorded.threads,
             profiler::say_bytes(recorded.bytes));
  fmt::print("{}\n", render_replay_table(results, wants_colour(STDOUT_FILENO)));
  print_savings(results, p, recorded.cut || recorded.sampled);
  flush_standard_output();
  print_failures(results);
  return exit_code::success;
}

}  // namespace tarn::cli
