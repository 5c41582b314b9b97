// SPDX-License-Identifier: MIT
// tarn cost: the cost of large buffers on this machine by every way to get one, and the part of it that a timer
// around the calls sees; and, live, the cost of page faults for a machine, a process or a program.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/commands/commands.hpp"
#include "cli/compare/comparison.hpp"
#include "cli/compare/interleaved_rounds.hpp"
#include "cli/compare/statistics.hpp"
#include "cli/cost/cost_report.hpp"
#include "cli/cost/cost_watch.hpp"
#include "cli/cost/memory_prices.hpp"
#include "cli/launch/accepted_values.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/launch/library_search.hpp"
#include "cli/launch/memory_conditioner.hpp"
#include "cli/launch/program_target.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

namespace {

constexpr exit_meaning cost_exits[] = {
    {0, "measured, or watched until the end"},
    usage_exit,
    refused_exit,
    {126, "with --watch: the program is not executable"},
    {127, "with --watch: the program is not found"},
    {exit_meaning::of_program, "with --watch and a program: the program's own"}};

constexpr command_text cost_text = {
    .name = "cost",
    .summary = "Measure what large buffers cost, or watch what page faults cost.",
    .usage = "tarn cost [OPTIONS] [SIZE...]\ntarn cost --watch [OPTIONS] [PID | [--] PROGRAM ARG...]",
    .examples =
        "  tarn cost                                  8, 16 and 32 MiB, in every way that\n"
        "                                             is installed\n"
        "  tarn cost 4M 256M --only system,tarn,mmap  only these sizes and ways (and the\n"
        "                                             recycled buffer, for comparison)\n"
        "  tarn cost --json >cost.json                all figures\n"
        "  tarn cost --watch                          page faults of the whole machine\n"
        "  tarn cost --watch 4711                     page faults of a process\n"
        "  tarn cost --watch -- ./server --port 80    of a program and its descendants\n",
    .notes =
        "Ways: malloc of each allocator (system, tarn, jemalloc, ...), mmap, mmap-huge,\n"
        "mmap-populate, recycled. Sizes: bytes, or with K, M, G (KiB, MiB, GiB); at least\n"
        "64K.\n",
    .exits = cost_exits,
    .page = "docs/explanation/cost.md",
};

constexpr std::uint64_t smallest_size = std::uint64_t{64} << 10;
constexpr const char* default_sizes[] = {"8M", "16M", "32M"};

struct cost_arguments {
  std::vector<std::string> sizes;
  std::vector<std::string> with;
  std::vector<std::string> only;
  cost_settings settings;
  bool watch = false;
  bool json = false;
  double interval = 1;
  double duration = 0;
};

constexpr std::string_view watching = "--watch";

std::vector<limited_option> declare_options(command& app, cost_arguments& arguments) {
  std::vector<limited_option> options = {
      {app.option("size SIZE ...", arguments.sizes, "Sizes of the buffer (8M 16M 32M)"), {""}},
      {add_only_option(app, arguments.only,
                       "Measure only these ways (of system, tarn, ..., mmap, mmap-huge, ...)"),
       {""}},
      {add_malloc_option(app, arguments.with), {""}},
      {app.option("-r,--rounds N", arguments.settings.rounds,
                  "Number of rounds; each measures all ways and sizes (5)", whole_number(1, most_rounds)),
       {""}},
      {app.option("--seed N", arguments.settings.seed,
                  "Seed for the order of measurements, to repeat that order"),
       {""}},
  };
  app.add_flag("--watch", arguments.watch, "Watch page faults live instead of measuring");
  options.push_back({app.option("--interval SECONDS", arguments.interval,
                                "With --watch: seconds between lines (1)", number(0.05, 3600.0)),
                     {watching}});
  options.push_back({app.option("--for SECONDS", arguments.duration, "With --watch: end after this time",
                                number(0.05, 1e9)),
                     {watching}});
  app.add_flag("--json", arguments.json,
               "Print all figures as JSON; with --watch an object per line, of a program on stderr");
  return options;
}

std::vector<std::uint64_t> sizes_of(std::vector<std::string> words) {
  if (words.empty()) words.assign(std::begin(default_sizes), std::end(default_sizes));
  std::vector<std::uint64_t> sizes;
  for (const std::string& word : words) {
    const std::uint64_t size = parse_byte_size(word);
    if (size < smallest_size) {
      throw cli_error(exit_code::usage, fmt::format("'{}': too small for this experiment", word),
                      "Use at least 64K: smaller blocks come from the allocator's caches.");
    }
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
  }
  return sizes;
}

// Leaves out sizes that do not fit into memory, and reports them in `notes`.
std::vector<std::uint64_t> sizes_that_fit(const std::vector<std::uint64_t>& sizes,
                                          std::vector<std::string>& notes) {
  const std::uint64_t available = available_bytes();
  std::vector<std::uint64_t> kept;
  for (const std::uint64_t size : sizes) {
    if (size <= available / 2) {
      kept.push_back(size);
      continue;
    }
    notes.push_back(
        fmt::format("{} skipped: some allocators need memory for two such buffers, and only {} are available",
                    profiler::say_exactly(size), profiler::say_bytes(static_cast<double>(available))));
  }
  if (kept.empty()) {
    for (const std::string& note : notes) print_note(note);
    throw cli_error(exit_code::refused, "the available memory is too small for all of the sizes",
                    "Use smaller sizes, for example: tarn cost 8M");
  }
  return kept;
}

// Leaves out allocators under which this command cannot be started, with the reason in `notes`; if it is tarn, that
// is an error.
std::vector<buffer_way> ways_that_work(const cost_arguments& arguments, std::vector<std::string>& notes) {
  const program_target self = find_program({own_executable()}, environment::current());
  std::vector<buffer_way> kept;
  for (buffer_way& way : choose_ways(arguments.with, arguments.only)) {
    if (way.source != buffer_source::heap || takes_effect(way.who, self, notes))
      kept.push_back(std::move(way));
  }
  return kept;
}

void print_report(const cost_outcome& outcome, const memory_prices& prices) {
  const bool colour = wants_colour(STDOUT_FILENO);
  print_text(describe_prices(prices) + "\n" + describe_first_touch(prices) + "\n\n");
  print_text(render_cost_table(outcome, colour, terminal_width(STDOUT_FILENO)));
  flush_standard_output();
}

// Every way at every size, in interleaved rounds. Throws `interrupted` when this process gets one of the signals.
cost_outcome measure_ways(std::vector<buffer_way> ways, const cost_settings& settings,
                          const held_signals& signals) {
  cost_outcome outcome{std::move(ways), settings.sizes, {}, settings.rounds};
  std::vector<measured_way> measured;
  for (const std::uint64_t size : outcome.sizes) {
    for (std::size_t way = 0; way < outcome.ways.size(); ++way) {
      outcome.results.push_back({way, size, {}, {}});
      // Twice the size: some allocators allocate another block while they still keep the previous one.
      measured.push_back(
          {fmt::format("{}, {}", outcome.ways[way].name, profiler::say_exactly(size)), 2 * size});
    }
  }
  interleaved_rounds rounds(std::move(measured), true, settings.seed);
  for (int round = 0; round < settings.rounds; ++round) {
    const std::string title = fmt::format("round {}/{}", round + 1, settings.rounds);
    rounds.run_round(title, settings.rounds - round, [&](std::size_t index) {
      if (const int signal = signals.take(0); signal != 0) throw interrupted{signal};
      cost_result& result = outcome.results[index];
      try {
        result.rounds.push_back(run_cycles(outcome.ways[result.way], result.size, settings.seconds));
      } catch (const cli_error& error) {
        result.failure = error.what();
        result.rounds.clear();
        rounds.fail(index);
      }
    });
  }
  rounds.clear_progress();
  return outcome;
}

int measure(cost_arguments& arguments) {
  cost_settings& settings = arguments.settings;
  std::vector<std::string> notes;
  settings.sizes = sizes_of(arguments.sizes);
  const held_signals signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  settings.sizes = sizes_that_fit(settings.sizes, notes);
  std::vector<buffer_way> ways = ways_that_work(arguments, notes);
  note_preloads(notes);
  for (const std::string& note : notes) print_note(note);
  const memory_prices prices = calibrate_prices();
  const cost_outcome outcome = measure_ways(std::move(ways), settings, signals);
  const std::vector<std::string> remarks = cost_remarks(outcome);
  for (const std::string& remark : remarks) print_note(remark);
  notes.insert(notes.end(), remarks.begin(), remarks.end());
  if (arguments.json) {
    nlohmann::json object = as_json(outcome);
    object["prices"] = as_json(prices);
    object["notes"] = notes;
    object["seed"] = settings.seed;
    print_json_object(object);
  } else {
    print_report(outcome, prices);
  }
  const bool any = std::any_of(outcome.results.begin(), outcome.results.end(),
                               [](const cost_result& result) { return result.failure.empty(); });
  return any ? exit_code::success : exit_code::refused;
}

// A word of digits is a process id; a program with such a name can be given as ./4711.
bool is_process(const std::string& word) { return word.find_first_not_of("0123456789") == std::string::npos; }

int watch(const cost_arguments& arguments, const std::vector<std::string>& words) {
  watch_settings settings;
  settings.interval_seconds = arguments.interval;
  if (arguments.duration > 0) settings.duration_seconds = arguments.duration;
  const bool is_program = !words.empty() && !is_process(words.front());
  if (arguments.json) settings.json = is_program ? stderr : stdout;
  // 0: none.
  const pid_t process = words.empty() ? 0 : process_id(words.front()).value_or(0);
  if (!words.empty() && !is_program && process == 0) {
    throw no_such_process(words.front());
  }
  if (is_program && settings.duration_seconds) {
    throw cli_error(exit_code::usage, "--for cannot be used with a program, which is watched until it ends",
                    "For example: tarn cost --watch -- timeout 10 PROGRAM ARG...");
  }
  // Reports a missing process or program before the measurement of the prices.
  if (process != 0 && kill(process, 0) != 0 && errno == ESRCH) throw no_such_process(words.front());
  if (is_program) locate_program(words.front(), environment::current());
  const memory_prices prices = calibrate_prices();
  if (!arguments.json || !is_program) {
    print_note(describe_prices(prices));
  }
  if (words.empty()) {
    watch_machine(prices, settings);
  } else if (process != 0) {
    watch_process(process, prices, settings);
  } else {
    end_like(watch_program(words, prices, settings));
  }
  return exit_code::success;
}

}  // namespace

int cmd_cost(const std::vector<std::string>& words) {
  cost_arguments arguments;
  arguments.settings.seed = std::random_device{}();
  command app(cost_text);
  const std::vector<limited_option> options = declare_options(app, arguments);
  command_line line = split_command_line(words, app);
  const bool is_watching =
      std::find(line.options.begin(), line.options.end(), watching) != line.options.end();
  // After a process id all words are tarn's options.
  if (is_watching && !line.program.empty() && is_process(line.program.front())) {
    line.options.insert(line.options.end(), line.program.begin() + 1, line.program.end());
    line.program.resize(1);
  }
  // When measuring, options may also follow the sizes.
  if (!parse_options(app, is_watching ? line.options : words)) return exit_code::success;
  if (is_watching) {
    require_fitting(options, watching, "cost");
    return watch(arguments, line.program);
  }
  if (arguments.watch) {
    throw cli_error(exit_code::usage, "--watch must come before the process or program",
                    "For example: tarn cost --watch 4711, tarn cost --watch -- ./server");
  }
  require_fitting(options, "", "cost");
  try {
    return measure(arguments);
  } catch (const interrupted& stop) {
    print_note("interrupted; no figures");
    end_like(W_EXITCODE(0, stop.signal));
  }
}

}  // namespace tarn::cli
