// SPDX-License-Identifier: MIT
// tarn show: the views of a profile, for terminals and as JSON.

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/recording/process_choice.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/profile_view.hpp"
#include "cli/views/profile_views.hpp"

namespace tarn::cli {

namespace {

constexpr exit_meaning show_exits[] = {
    {0, "shown; with --by leaks: nothing is lost, or all of it is suppressed"},
    {1, "with --by leaks: a block is lost"},
    usage_exit,
    damaged_exit,
    {125, "the file cannot be read, or does not tell what is asked for"}};

constexpr command_text show_text = {
    .name = "show",
    .summary = "Show a profile by call site, call path, resident memory, or leaks.",
    .usage = "tarn show [--by VIEW] [OPTIONS] PROFILE",
    .examples =
        "  tarn show server.prof                       the 20 most expensive places\n"
        "  tarn show server.prof -m peak -n 50         the 50 places with the most live\n"
        "                                              memory at the program's peak\n"
        "  tarn show server.prof -f json::parser       places with it in a function, a\n"
        "                                              file or type of their path\n"
        "  tarn show --by tree server.prof             cost by call path, from main down\n"
        "  tarn show --by tree --inverted server.prof  from the sites up to their callers\n"
        "  tarn show --by rss server.prof              at the live peak\n"
        "  tarn show --by rss --over-time server.prof  one row per reading\n"
        "  tarn show --by leaks --suppressions known.supp server.prof\n"
        "  tarn show --by pinned server.prof           sites whose live blocks keep\n"
        "                                              free memory resident\n",
    .notes =
        "Metrics: cost (malloc, free and the kernel's work for them), malloc, hidden\n"
        "(cost less malloc), faults, allocations, bytes, live, live_bytes, peak.\n"
        "44 \u00b1 10 ms: a sampled figure with its margin, which holds in 95 of 100 cases;\n"
        "up to 90 ms: it may be nothing. Such rows of a table are one row, others.\n"
        "\n"
        "tree: a path without branches is not indented further. Branches below --min are\n"
        "one line, so that the lines add up.\n"
        "\n"
        "rss: the first line has the kernel's count for the process (VmRSS) and its peak.\n"
        "The parts add up to the sum of all mappings (smaps), which was read just after\n"
        "it and may differ a little.\n"
        "\n"
        "leaks: a block is lost if no register, stack, static data or reachable block\n"
        "holds an address within it; it is indirectly lost if only lost blocks hold one.\n"
        "This is known for profiles of mode full whose program ended by exit.\n"
        "Suppressions: lines leak:PATTERN, as in LeakSanitizer.\n",
    .exits = show_exits,
    .page = "docs/reference/profiling.md",
};

struct named_view {
  const char* name;
  int (*show)(const view_request& asked);
};
constexpr named_view named_views[] = {{"sites", show_sites},
                                      {"tree", show_tree},
                                      {"rss", show_resident},
                                      {"leaks", show_leaks},
                                      {"pinned", show_pinned}};

std::vector<limited_option> declare_options(command& app, view_request& asked, std::string& by) {
  std::vector<std::string> names;
  for (const named_view& each : named_views) names.emplace_back(each.name);
  app.option("profile PROFILE", asked.path, "A profile of tarn profile, a black box, or a core file")
      ->required();
  app.option(
      "--by VIEW", by,
      "sites (the default), tree (call paths), rss (resident memory), leaks, or pinned (live blocks that "
      "keep free memory resident)",
      one_of(names));
  constexpr std::string_view sites = "--by sites", tree = "--by tree", rss = "--by rss", leaks = "--by leaks",
                             pinned = "--by pinned";
  std::vector<limited_option> options = {
      {app.option("-m,--metric METRIC", asked.metric,
                  "sites, tree: the metric to sort by (cost; where only that is known live_bytes)",
                  one_of(metric_words())),
       {sites, tree}},
      {app.option("-n,--rows N", asked.rows,
                  "All but tree: show at most N rows (20; rss: 5 of each kind); 0: all", whole_number(0)),
       {sites, rss, leaks, pinned}},
      {app.option("-f,--filter TEXT", asked.filter,
                  "sites, pinned: only those with this text in a function, a file or the type"),
       {sites, pinned}},
      {add_process_option(app, asked.process), {sites, tree, leaks, pinned}},
      {app.add_flag("--full-names", asked.full_names,
                    "sites: names with all template arguments and parameters"),
       {sites}},
      {app.option("--min PERCENT", asked.least_percent,
                  "tree: branches below this percentage are one line (1)", number(0.0, 100.0)),
       {tree}},
      {app.option("--depth N", asked.depth, "tree: at most N levels"), {tree}},
      {app.add_flag("--inverted", asked.inverted, "tree: the sites first, with their callers below"), {tree}},
      {app.option("--at WHEN", asked.at, "rss: peak (the reading at the live peak) or end (the last one)",
                  one_of({"peak", "end"})),
       {rss}},
      {app.add_flag("--over-time", asked.over_time, "rss: one row per reading"), {rss}},
      {app.option("--suppressions FILE", asked.suppressions,
                  "leaks: file of known leaks, with lines leak:PATTERN; may be repeated")
           ->expected(1)
           ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll),
       {leaks}},
      {app.add_flag("--reachable", asked.reachable, "leaks: reachable blocks, too"), {leaks}},
  };
  app.add_flag("--json", asked.json, "Print JSON; that of tree is as d3-flame-graph reads it");
  return options;
}

}  // namespace

int cmd_show(const std::vector<std::string>& words) {
  command app(show_text);
  view_request asked;
  std::string by = named_views[0].name;
  const std::vector<limited_option> options = declare_options(app, asked, by);
  if (!parse_options(app, words)) return exit_code::success;
  require_fitting(options, "--by " + by, "show");
  return std::find_if(std::begin(named_views), std::end(named_views),
                      [&by](const named_view& each) { return each.name == by; })
      ->show(asked);
}

}  // namespace tarn::cli
