// SPDX-License-Identifier: MIT
// tarn advise: what can be changed to make the memory allocation of a recorded program cheaper, what it costs now, what tarn
// prove has measured, and what is better left unchanged.
#include <fmt/core.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/compare/contender.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/recording/process_choice.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/text.hpp"
#include "profiler/analyze/advice.hpp"
#include "profiler/analyze/plan.hpp"
#include "profiler/analyze/trouble.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::cli {

using profiler::advice;
using profiler::advice_kind;
using profiler::say_share;
using profiler::say_time;

namespace {

constexpr exit_meaning advise_exits[] = {{0, "advised"}, usage_exit, damaged_exit, refused_exit};

constexpr command_text advise_text = {
    .name = "advise",
    .summary = "List what to change in a recorded program, with what it costs now or was measured.",
    .usage = "tarn advise [OPTIONS] PROFILE",
    .examples =
        "  tarn profile -o run.prof -- ./my_program; tarn advise run.prof\n"
        "  tarn prove run.prof; tarn advise run.prof  with what a change saves\n"
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
  double least_percent = 2;
  bool json = false;
};

void declare_options(command& app, advise_arguments& arguments) {
  app.option("profile PROFILE", arguments.file, "A profile")->required();
  CLI::Option* plan = app.option(
      "--plan FILE", arguments.plan,
      "Write the advice that needs no editing as a plan for tarn prove and run; -: standard output");
  app.option("--number N", arguments.only, "Only this piece of advice goes into the plan",
             whole_number(1, 1000))
      ->needs(plan);
  app.option("--min PERCENT", arguments.least_percent,
             "Leave places alone that cost less than this percentage of CPU time (2)", number(0.0, 100.0));
  add_process_option(app, arguments.process);
  app.add_flag("--json", arguments.json, "Print one JSON object on stdout");
}

// `text` to the right of a label, which is in the first line.
std::string beside(const char* label, const std::string& text) {
  return fmt::format("   {:<9} {}\n", label, begin_lines(text, std::string(13, ' ')));
}

void print_lines(const char* label, const std::string& text) { print_text(beside(label, text)); }

void print_one(const advice& one, std::size_t number, bool colour) {
  if (one.kind == advice_kind::leave_it) {
    print_text(paint(one.headline, style::bold, colour) + "\n");
  } else {
    print_text(fmt::format("{}. {}\n", number, paint(one.headline, style::bold, colour)));
    if (!is_remark(one)) print_lines("", paint(say_figures(one), style::good, colour));
    print_lines("who", profiler::reach_name(one.reach));
  }
  if (one.instead_of >= 0)
    print_lines("", fmt::format("instead of {}: both concern the same cost", one.instead_of + 1));
  if (!one.place.empty()) print_lines("where", one.place);
  print_lines("why", one.reason);
  bool first = true;
  for (const std::string& line : one.evidence) {
    print_lines(first ? "figures" : "", line);
    first = false;
  }
  if (!one.change.empty()) fmt::print("{}", beside("change", one.change));  // to be copied: never folded
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
  print_text(fmt::format("{}: {} of CPU time, {} of it ({}) for memory allocation\n\n", program,
                         say_time(cpu), say_time(total.total()), say_share(total.total() / cpu)));
  if (const profiler::trouble what = profiler::trouble_of(p); what.is_memory()) {
    print_text(fmt::format("{}. Who held the memory: tarn show --by rss FILE. The advice is about time.\n\n",
                           profiler::sentence_of(what)));
  }
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

}  // namespace

int cmd_advise(const std::vector<std::string>& words) {
  advise_arguments arguments;
  command app(advise_text);
  declare_options(app, arguments);
  if (!parse_options(app, words)) return exit_code::success;
  const profiler::profile p = load_for_command(arguments.file, arguments.process);
  require_costs(p, arguments.file);
  profiler::advice_settings settings;
  settings.least_share = arguments.least_percent / 100;
  settings.mallocs = installed_mallocs();
  const std::vector<advice> all = profiler::advise(p, settings);
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
                                   {"advice", list}};
    print_json_object(object);
  } else {
    print_all(p, all);
  }
  flush_standard_output();
  return exit_code::success;
}

}  // namespace tarn::cli
