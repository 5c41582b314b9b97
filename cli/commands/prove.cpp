// SPDX-License-Identifier: MIT
// tarn prove: runs the program of a profile again, unchanged and under every action that needs no change of its
// code, and reports what that saves. The results are stored in the profile's file, and used by its advice.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "cli/commands/commands.hpp"
#include "cli/compare/comparison_report.hpp"
#include "cli/compare/proof_report.hpp"
#include "cli/compare/proof_rounds.hpp"
#include "cli/compare/statistics.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/profile_view.hpp"
#include "cli/show/text.hpp"
#include "profiler/analyze/advice.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

namespace {

constexpr const char* prove_footer =
    "Examples:\n"
    "  tarn profile -o run.tarn -- ./my_program <in.dat\n"
    "  tarn prove run.tarn; tarn advise run.tarn\n"
    "  tarn prove --rounds 20 --ways jemalloc,keep-memory run.tarn\n"
    "  tarn prove --with 'redis-benchmark -q -p 7777' --ready-port 7777 \\\n"
    "      --stdin /dev/null redis.tarn\n"
    "\n"
    "The program is started as it was recorded: with the same arguments, folder and\n"
    "standard input. A way is a change that needs no editing of the program.\n"
    "Exit codes: 0 measured; 1 the program ends differently under a way; 2 usage;\n"
    "3 it does not end as it was recorded; 125 tarn refuses, with the reason.\n"
    "Method: docs/advice.md, \"Proof\"\n";

struct prove_arguments {
  std::string file;
  proof_wishes wishes;
  std::string load;
  std::string until = "load";
  int ready_port = 0;
  std::string ready_command;
  bool no_keep = false;
  bool json = false;
};

void declare_server_options(CLI::App& app, prove_arguments& arguments) {
  CLI::Option* with = app.add_option("--with", arguments.load,
                                     "The program is a server; run this load (a shell command) against it")
                          ->option_text("LOAD-COMMAND");
  app.add_option("--until-exit-of", arguments.until,
                 "load (the default): the run ends with the load, and the server gets SIGTERM; program: the "
                 "server ends by itself")
      ->check(CLI::IsMember({"load", "program"}))
      ->needs(with)
      ->option_text("WHAT");
  CLI::Option* port =
      app.add_option("--ready-port", arguments.ready_port, "The server is ready when this TCP port answers")
          ->check(CLI::Range(1, 65535))
          ->needs(with)
          ->option_text("PORT");
  app.add_option("--ready-command", arguments.ready_command, "The server is ready when this command succeeds")
      ->needs(with)
      ->excludes(port)
      ->option_text("COMMAND");
}

void declare_options(CLI::App& app, prove_arguments& arguments) {
  proof_wishes& wishes = arguments.wishes;
  set_usage(app, "tarn prove [OPTIONS] FILE");
  app.add_option("file", arguments.file, "A profile recorded by you")->option_text("FILE")->required();
  app.add_option("-n,--rounds", wishes.rounds,
                 "Number of timed rounds (3 to 10, as many as fit into ten minutes)")
      ->check(CLI::Range(1, most_rounds))
      ->option_text("N");
  app.add_option("--limit", wishes.limit_seconds, "Start no round that would end after this time")
      ->check(CLI::PositiveNumber)
      ->option_text("SECONDS");
  app.add_option("--ways", wishes.actions.ways,
                 "Measure only these ways (of tarn, jemalloc, keep-memory, huge-pages, pool-1, ...)")
      ->delimiter(',')
      ->option_text("NAME,...");
  app.add_option("--malloc", wishes.actions.mallocs, "Add an allocator")->option_text("NAME=LIBRARY");
  app.add_option("--stdin", wishes.repeat.input, "The program's standard input, instead of the recorded one")
      ->option_text("FILE");
  app.add_option("--timeout", wishes.timeout_seconds,
                 "Seconds after which a run is killed and counts as failed")
      ->check(CLI::PositiveNumber)
      ->option_text("SECONDS");
  declare_server_options(app, arguments);
  app.add_option("--seed", wishes.seed, "Seed for the order of the runs, to repeat that order")
      ->option_text("N");
  app.add_flag("--no-keep", arguments.no_keep, "Do not store the result in the profile");
  app.add_flag("--json", arguments.json, "Print all figures as one JSON object on stdout");
  app.footer(prove_footer);
}

void set_load(prove_arguments& arguments) {
  if (arguments.load.empty()) return;
  if (arguments.ready_port == 0 && arguments.ready_command.empty()) {
    throw cli_error(exit_code::usage, "--with also needs --ready-port or --ready-command",
                    "Give the TCP port of the server: --ready-port PORT; or a command that succeeds once the "
                    "server is ready: --ready-command COMMAND");
  }
  server_load load;
  load.command = arguments.load;
  load.ready_port = arguments.ready_port;
  load.ready_command = arguments.ready_command;
  load.until_load_exits = arguments.until == "load";
  arguments.wishes.load = load;
  arguments.wishes.repeat.is_server = true;
}

void print_proof(const proof_result& result, const std::vector<profiler::advice>& advised) {
  const bool colour = wants_colour(STDOUT_FILENO);
  fmt::print("{}", render_proof(result, colour, terminal_width(STDOUT_FILENO)));
  bool first = true;
  for (const std::string& line : render_proof_verdict(result.proven)) {
    fmt::print("{}\n", first ? "\n" + paint(line, style::bold, colour) : line);
    first = false;
  }
  fmt::print("{}", render_proven_advice(advised));
  flush_standard_output();
  fmt::print(stderr, "{}", render_failures(result.outcome));
}

void print_proof_json(const std::string& file, const proof_result& result,
                      const std::vector<profiler::advice>& advised) {
  nlohmann::json object = as_json(result);
  object["file"] = file;
  object["advice"] = nlohmann::json::array();
  for (const profiler::advice& one : advised) object["advice"].push_back(profiler::as_json(one));
  fmt::print("{}\n", object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  flush_standard_output();
}

}  // namespace

int cmd_prove(const std::vector<std::string>& words) {
  prove_arguments arguments;
  proof_wishes& wishes = arguments.wishes;
  wishes.seed = std::random_device{}();
  CLI::App app{"Run a recorded program with each change that needs no editing, and measure it.", "prove"};
  declare_options(app, arguments);
  if (!parse_options(app, words, exit_code::usage)) return exit_code::success;
  set_load(arguments);
  wishes.keep = !arguments.no_keep;
  wishes.progress = !arguments.json;
  profiler::profile p = profiler::load_profile(arguments.file);
  const proof_result result = prove_profile(arguments.file, p, wishes);
  for (const std::string& note : result.notes) print_note(note);
  if (result.proven.rounds == 0) {
    print_note(interruption_text(result));
    end_like(W_EXITCODE(0, result.interrupted_by));
  }
  p.proven = result.proven;
  const std::vector<profiler::advice> advised = profiler::advise(p);
  if (arguments.json) {
    print_proof_json(arguments.file, result, advised);
  } else {
    print_proof(result, advised);
  }
  if (result.interrupted_by != 0) {
    print_note(interruption_text(result));
    end_like(W_EXITCODE(0, result.interrupted_by));
  }
  return exit_code_of(result.outcome, false);
}

}  // namespace tarn::cli
