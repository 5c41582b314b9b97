// SPDX-License-Identifier: MIT
// tarn diff: what changed from one profile to another, and whether that is too much.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "cli_error.hpp"
#include "command_line.hpp"
#include "commands.hpp"
#include "profile_view.hpp"
#include "profiler/export/difference.hpp"
#include "text.hpp"

namespace tarn::cli {

namespace {

using profiler::change;
using profiler::change_limit;
using profiler::metric;
using profiler::site_change;

constexpr const char* diff_footer =
    "Examples:\n"
    "  tarn diff before.tarn after.tarn\n"
    "  tarn diff before.tarn after.tarn --fail-if 'cost>+5%' --fail-if 'peak>+64M'\n"
    "  tarn diff before.tarn after.tarn --fail-if 'site.bytes>+20%'   of any site\n"
    "\n"
    "EXPR: [site.]METRIC > or < CHANGE; CHANGE in percent, or in K, M, G, or in ns, us, ms, s. Metrics: cost, malloc,\n"
    "hidden, faults, allocations, bytes, live, live_bytes, peak. Sites below 1 % of the total do not count.\n"
    "Exit codes: 0 within all limits; 1 beyond one; 2 usage; 125 a file cannot be read.\n";

std::string show_share(const change& value) {
  if (std::isinf(value.share())) return "new";
  if (value.after <= 0 && value.before > 0) return "gone";
  return fmt::format("{:+.1f} %", 100 * value.share());
}

std::string show_amount(const metric& what, const change& value) {
  const std::string sign = value.amount() < 0 ? "-" : "+";
  return sign + show_value(what.unit, std::abs(value.amount()));
}

void print_totals(const profiler::difference& changes, bool colour) {
  fmt::print("{}\n", paint(fmt::format("{:12}  {:>10}  {:>10}  {:>10}", "", "before", "after", "change"),
                           style::bold, colour));
  for (std::size_t index = 0; index < changes.totals.size(); ++index) {
    const metric& what = profiler::metrics()[index];
    const change& total = changes.totals[index];
    fmt::print("{:12}  {:>10}  {:>10}  {:>10}\n", what.name, show_value(what.unit, total.before),
               show_value(what.unit, total.after), show_share(total));
  }
}

std::vector<const site_change*> by_change(const profiler::difference& changes, std::size_t metric_index,
                                          std::size_t most) {
  std::vector<const site_change*> sites;
  for (const site_change& one : changes.sites) {
    if (one.values[metric_index].amount() != 0) sites.push_back(&one);
  }
  std::stable_sort(sites.begin(), sites.end(), [metric_index](const site_change* a, const site_change* b) {
    return std::abs(a->values[metric_index].amount()) > std::abs(b->values[metric_index].amount());
  });
  if (most != 0 && sites.size() > most) sites.resize(most);
  return sites;
}

void print_sites(const profiler::difference& changes, std::size_t metric_index, std::size_t most,
                 bool colour) {
  const metric& what = profiler::metrics()[metric_index];
  const auto sites = by_change(changes, metric_index, most);
  if (sites.empty()) return;
  constexpr std::size_t columns = 10 + 2 + 10 + 2 + 10 + 2 + 9 + 2;
  const std::size_t width = terminal_width(STDOUT_FILENO);
  const std::size_t left = width == 0 ? 0 : std::max<std::size_t>(width > columns ? width - columns : 0, 30);
  const std::string heading =
      fmt::format("{:>10}  {:>10}  {:>10}  {:>9}  {}", what.name, "before", "after", "change", "where");
  fmt::print("\n{}\n", paint(heading, style::bold, colour));
  for (const site_change* one : sites) {
    const change& value = one->values[metric_index];
    const std::string amount = fmt::format("{:>10}", show_amount(what, value));
    const std::string type = one->type.empty() ? "" : "  " + cut_to_width(one->type, 40);
    fmt::print("{}  {:>10}  {:>10}  {:>9}  {}\n",
               paint(amount, value.amount() > 0 ? style::bad : style::good, colour),
               show_value(what.unit, value.before), show_value(what.unit, value.after), show_share(value),
               show_frame(one->where, left) + type);
  }
}

nlohmann::json as_json(const change& value) {
  nlohmann::json object = {{"before", value.before}, {"after", value.after}, {"change", value.amount()}};
  // There is no number for "new".
  object["share"] = std::isinf(value.share()) ? nlohmann::json() : nlohmann::json(value.share());
  return object;
}

void print_json(const profiler::difference& changes, std::size_t metric_index, std::size_t most,
                const std::vector<std::string>& failures) {
  nlohmann::json totals, sites = nlohmann::json::array();
  for (std::size_t index = 0; index < changes.totals.size(); ++index) {
    totals[std::string(profiler::metrics()[index].name)] = as_json(changes.totals[index]);
  }
  for (const site_change* one : by_change(changes, metric_index, most)) {
    nlohmann::json row = {{"function", one->where.function},
                          {"file", one->where.file},
                          {"line", one->where.line},
                          {"type", one->type}};
    for (std::size_t index = 0; index < one->values.size(); ++index) {
      row[std::string(profiler::metrics()[index].name)] = as_json(one->values[index]);
    }
    sites.push_back(std::move(row));
  }
  const nlohmann::json whole = {{"totals", totals}, {"sites", sites}, {"exceeded", failures}};
  fmt::print("{}\n", whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string program_of(const profiler::profile& p) {
  if (!p.meta.is_object()) return {};
  const auto found = p.meta.find("program");
  return found != p.meta.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Differences that are of the measurement and not of the program.
void note_what_differs(const profiler::profile& before, const profiler::profile& after) {
  if (program_of(before) != program_of(after)) {
    print_note(
        fmt::format("these are profiles of two programs: {} and {}", program_of(before), program_of(after)));
  }
  if (before.mode != after.mode)
    print_note("one of them is of another mode; its figures rest on other samples");
  const double first = before.prices.fault, second = after.prices.fault;
  if (first > 0 && second > 0 && std::abs(std::log(second / first)) > std::log(1.25)) {
    print_note(fmt::format(
        "a page fault cost {:.0f} ns before and {:.0f} ns after: costs are of different machines, "
        "or of different loads",
        first, second));
  }
}

}  // namespace

int cmd_diff(const std::vector<std::string>& words) {
  CLI::App app{"Compare two profiles.", "diff"};
  set_usage(app, "tarn diff [OPTIONS] BEFORE AFTER");
  std::string before_path, after_path, metric_name = "cost";
  std::vector<std::string> expressions;
  std::size_t most = 20;
  bool json = false;
  app.add_option("before", before_path, "A profile")->required()->option_text("BEFORE");
  app.add_option("after", after_path, "A later one")->required()->option_text("AFTER");
  app.add_option("--fail-if", expressions, "Exit with 1 when this holds; may be repeated")
      ->allow_extra_args(false)
      ->option_text("EXPR");
  app.add_option("-m,--metric", metric_name, "What the sites are ordered by (cost)")->option_text("METRIC");
  app.add_option("-n", most, "So many sites at most (20); 0 for all")->option_text("N");
  app.add_flag("--json", json, "Print JSON");
  app.footer(diff_footer);
  if (!parse_options(app, words, exit_code::usage)) return exit_code::success;
  const auto metric_index =
      static_cast<std::size_t>(&metric_named("--metric", metric_name) - profiler::metrics().data());
  std::vector<change_limit> limits;
  for (const std::string& expression : expressions) {
    try {
      limits.push_back(change_limit::parse(expression));
    } catch (const std::invalid_argument& error) {
      throw cli_error(
          exit_code::usage, fmt::format("--fail-if {}", error.what()),
          "For example: --fail-if 'cost>+5%', --fail-if 'peak>+64M', --fail-if 'site.bytes>+20%'");
    }
  }
  const profiler::profile before = load_for_command(before_path);
  const profiler::profile after = load_for_command(after_path);
  note_what_differs(before, after);
  const profiler::difference changes = profiler::difference::between(before, after);
  std::vector<std::string> failures;
  for (const change_limit& limit : limits) {
    for (std::string& sentence : profiler::exceeded(changes, limit)) failures.push_back(std::move(sentence));
  }
  if (json) {
    print_json(changes, metric_index, most, failures);
  } else {
    const bool colour = wants_colour(STDOUT_FILENO);
    print_totals(changes, colour);
    print_sites(changes, metric_index, most, colour);
    if (!failures.empty()) fmt::print("\n");
    for (const std::string& sentence : failures)
      fmt::print("{}\n", paint("beyond " + sentence, style::bad, colour));
  }
  return failures.empty() ? exit_code::success : exit_code::results_differ;
}

}  // namespace tarn::cli
