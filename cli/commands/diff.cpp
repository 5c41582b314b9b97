// SPDX-License-Identifier: MIT
// tarn diff: what changed between one or several recordings and others, how certain that is, and whether it exceeds
// given limits.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/commands/compared_files.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/recording/process_choice.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/profile_view.hpp"
#include "cli/show/text.hpp"
#include "cli/show/text_table.hpp"
#include "profiler/analyze/places.hpp"
#include "profiler/export/difference.hpp"

namespace tarn::cli {

namespace {

using profiler::change;
using profiler::change_limit;
using profiler::difference_builder;
using profiler::metric;
using profiler::site_change;

constexpr exit_meaning diff_exits[] = {
    {0, "within all limits"}, {1, "a limit is exceeded"}, usage_exit, damaged_exit, refused_exit};

constexpr command_text diff_text = {
    .name = "diff",
    .summary = "Compare two profiles; fail if a limit is exceeded.",
    .usage = "tarn diff [OPTIONS] BEFORE AFTER\ntarn diff [OPTIONS] BEFORE... -- AFTER...",
    .examples =
        "  tarn diff before.prof after.prof\n"
        "  tarn profile -r 5 -o before.prof -- PROGRAM ...  and the same for after.prof\n"
        "  tarn diff --fail-if 'cost>+3%' before-?.prof -- after-?.prof\n"
        "  tarn diff a.prof b.prof --fail-if 'cost>+5%' --fail-if 'peak>+64M'\n"
        "  tarn diff a.prof b.prof --fail-if 'site.bytes>+20%'  the change of any site\n"
        "  tarn diff old.pb.gz new.pb.gz    what a store of heap profiles gives (pprof)\n",
    .notes =
        "EXPR: [site.]METRIC followed by > or < and a CHANGE in percent, or in K, M, G,\n"
        "or in ns, us, ms, s. Metrics: cost, malloc, hidden, faults, allocations, bytes,\n"
        "live, live_bytes, peak. Limits do not apply to sites below 1 % of the total.\n"
        "A change whose interval (±, 95 of 100 cases) includes zero exceeds no limit, as\n"
        "it may be chance.\n",
    .exits = diff_exits,
};

std::string show_share(const change& value) {
  if (std::isinf(value.share())) return "new";
  if (value.after <= 0 && value.before > 0) return "gone";
  return fmt::format("{:+.1f} %", 100 * value.share());
}

style style_of(const change& value) {
  if (!value.is_significant()) return style::faint;
  return value.amount() > 0 ? style::bad : style::good;
}

std::string show_amount(const metric& what, const change& value) {
  const std::string sign = value.amount() < 0 ? "-" : "+";
  return sign + say(what.unit, std::abs(value.amount()));
}

std::string remedy_for(std::size_t needed) {
  const std::string recordings =
      needed == 0
          ? fmt::format("more than {} recordings a side: record longer runs", profiler::most_recordings)
          : fmt::format("about {0} recordings a side (tarn profile -r {0})", needed);
  return fmt::format("a change of {:.0f} % needs {}", 100 * profiler::small_change, recordings);
}

// Whether a change may be chance, and more recordings would tell.
bool is_undecided(const profiler::difference& changes, const change& total, std::size_t needed) {
  const std::size_t fewest = std::min(changes.recordings_before, changes.recordings_after);
  return total.before > 0 && total.margin > 0 && !total.is_significant() && (needed == 0 || needed > fewest);
}

// Of each total that people set limits for and that may have changed by chance: how many recordings decide. And of the price
// of a call, which the times rest on.
void print_undecided(const profiler::difference& changes) {
  std::string text;
  for (const char* name : {"cost", "malloc", "faults", "allocations", "bytes"}) {
    const auto index = static_cast<std::size_t>(profiler::find_metric(name) - profiler::metrics().data());
    const change& total = changes.totals[index];
    const std::size_t needed = changes.recordings_needed[index];
    if (!is_undecided(changes, total, needed)) continue;
    text += fmt::format("{}: {} {}, not decided; {}\n", name, show_share(total), total.margin_text(),
                        remedy_for(needed));
  }
  const change& price = changes.call_price;
  if (price.before > 0) {
    text += fmt::format("price of a call: {} {} (in {:.0f} of 100 cases); ", show_share(price),
                        price.margin_text(), 100 * profiler::price_confidence);
    text += changes.has_one_price ? "cost and malloc take it as the same on both sides; " +
                                        remedy_for(changes.recordings_needed_for_price) + "\n"
                                  : "each side has its own\n";
  }
  if (text.empty()) return;
  print_text(fmt::format(
      "\n{}(± in {:.0f} of 100 cases; so many recordings find the change in {:.0f} of 10 cases)\n", text,
      100 * profiler::difference_confidence, 10 * profiler::small_change_found));
}

using known_metrics = std::array<bool, profiler::metric_count>;  // in the order of metrics()

void print_totals(const profiler::difference& changes, const known_metrics& known, bool colour) {
  const auto recordings = [](std::size_t count) {
    return count == 1 ? "1 recording" : fmt::format("{} recordings", count);
  };
  fmt::print("{} before, {} after\n", recordings(changes.recordings_before),
             recordings(changes.recordings_after));
  text_table table({"", "before", "after", "change", "interval"}, {0});
  for (std::size_t index = 0; index < changes.totals.size(); ++index) {
    if (!known[index]) continue;
    const metric& what = profiler::metrics()[index];
    const change& total = changes.totals[index];
    table.add({{std::string(what.name)},
               {say(what.unit, total.before)},
               {say(what.unit, total.after)},
               {show_share(total), style_of(total)},
               {total.margin_text()}});
  }
  fmt::print("{}", table.text(colour));
}

// Significant changes first.
std::vector<const site_change*> by_change(const profiler::difference& changes, std::size_t metric_index) {
  std::vector<const site_change*> sites;
  for (const site_change& one : changes.sites) {
    if (one.values[metric_index].amount() != 0) sites.push_back(&one);
  }
  std::stable_sort(sites.begin(), sites.end(), [metric_index](const site_change* a, const site_change* b) {
    const change &left = a->values[metric_index], &right = b->values[metric_index];
    if (left.is_significant() != right.is_significant()) return left.is_significant();
    return std::abs(left.amount()) > std::abs(right.amount());
  });
  return sites;
}

// Place and type of each site; places that look alike with their callers.
std::vector<std::string> places_of(const profiler::difference& changes,
                                   const std::vector<const site_change*>& sites, std::size_t width) {
  std::vector<std::string> places;
  std::map<std::string, int> counts;
  for (const site_change* one : sites) {
    const std::string& type = changes.type_of(*one);
    places.push_back(show_frame(changes.place_of(*one), width) + (type.empty() ? "" : "  " + type));
    ++counts[places.back()];
  }
  for (std::size_t index = 0; index < sites.size(); ++index) {
    const std::string& callers = changes.callers_of(*sites[index]);
    if (counts[places[index]] > 1 && !callers.empty())
      places[index] = with_callers(places[index], " < " + callers, width);
    places[index] = cut_in_middle(places[index], width);
  }
  return places;
}

constexpr double least_change = 0.001;  // of the largest one: what a row must have, unless all are asked for

// The sites whose change can be told from zero, and is not negligible; all others as one row.
void print_sites(const profiler::difference& changes, std::size_t metric_index, std::size_t most,
                 bool colour) {
  const metric& what = profiler::metrics()[metric_index];
  auto sites = by_change(changes, metric_index);
  if (sites.empty()) return;
  const double least = most == 0 ? 0 : least_change * std::abs(sites.front()->values[metric_index].amount());
  const std::size_t shown = profiler::split_off_others(
      sites, most == 0 ? sites.size() : most, [metric_index, least](const site_change* one) {
        const change& value = one->values[metric_index];
        return std::pair{std::abs(value.amount()), std::max(value.margin, least)};
      });
  text_table table({std::string(what.name), "before", "after", "change", "interval"});
  const auto add_row = [&](const change& value, const std::string& interval) {
    table.add({{show_amount(what, value), style_of(value)},
               {say(what.unit, value.before)},
               {say(what.unit, value.after)},
               {show_share(value)},
               {interval}});
  };
  for (std::size_t index = 0; index < shown; ++index)
    add_row(sites[index]->values[metric_index], sites[index]->values[metric_index].margin_text());
  change others;
  others.margin = std::numeric_limits<double>::infinity();  // of what may be chance
  for (std::size_t index = shown; index < sites.size(); ++index) {
    others.before += sites[index]->values[metric_index].before;
    others.after += sites[index]->values[metric_index].after;
  }
  const std::size_t folded = sites.size() - shown;
  if (folded > 0) add_row(others, "");
  sites.resize(shown);
  std::vector<std::string> places = places_of(changes, sites, room_beside(table.width()));
  places.push_back(fmt::format("others ({} sites)", folded));
  fmt::print("\n{}\n", table.heading(colour, "where"));
  bool is_vague = false;
  for (std::size_t index = 0; index < table.rows(); ++index) {
    fmt::print("{}\n", table.row(index, colour, places[index]));
    if (index >= shown) continue;
    const change& value = sites[index]->values[metric_index];
    is_vague = is_vague || (value.before > 0 && value.margin >= value.before);
  }
  if (is_vague)
    print_text(
        paint("> 100 %: few samples; run longer, several times (tarn profile -r 5), or with --mode full\n",
              style::faint, colour));
}

nlohmann::json as_json(const change& value) {
  nlohmann::json object = {{"before", value.before},
                           {"after", value.after},
                           {"change", value.amount()},
                           {"low", value.amount() - value.margin},
                           {"high", value.amount() + value.margin},
                           {"significant", value.is_significant()}};
  // JSON has no infinity: null if there was nothing before.
  object["share"] = std::isinf(value.share()) ? nlohmann::json() : nlohmann::json(value.share());
  return object;
}

nlohmann::json row_json(const profiler::difference& changes, const known_metrics& known,
                        const site_change& one) {
  const profiler::source_frame& where = changes.place_of(one);
  nlohmann::json row = {{"function", where.function},
                        {"file", where.file},
                        {"line", where.line},
                        {"type", changes.type_of(one)}};
  for (std::size_t index = 0; index < one.values.size(); ++index)
    if (known[index]) row[std::string(profiler::metrics()[index].name)] = as_json(one.values[index]);
  return row;
}

nlohmann::json needed_json(std::size_t recordings) {
  return recordings == 0 ? nlohmann::json() : nlohmann::json(recordings);
}

void print_json(const profiler::difference& changes, const known_metrics& known, std::size_t metric_index,
                std::size_t most, const std::vector<std::string>& failures) {
  nlohmann::json totals;
  for (std::size_t index = 0; index < changes.totals.size(); ++index) {
    if (!known[index]) continue;
    nlohmann::json& total = totals[std::string(profiler::metrics()[index].name)];
    total = as_json(changes.totals[index]);
    total["recordings_needed"] = needed_json(changes.recordings_needed[index]);
  }
  nlohmann::json price = as_json(changes.call_price);
  price["recordings_needed"] = needed_json(changes.recordings_needed_for_price);
  price["is_common"] = changes.has_one_price;
  const nlohmann::json recordings = {{"before", changes.recordings_before},
                                     {"after", changes.recordings_after}};
  const nlohmann::json head = {
      {"recordings", recordings},
      {"confidence", profiler::difference_confidence},
      {"needed_for", {{"change", profiler::small_change}, {"found", profiler::small_change_found}}},
      {"totals", totals},
      {"call_price", changes.call_price.before > 0 ? price : nlohmann::json()},
      {"exceeded", failures}};
  auto sites = by_change(changes, metric_index);
  if (most != 0 && sites.size() > most) sites.resize(most);
  print_json_rows(head, "sites", sites.size(),
                  [&](std::size_t index) { return row_json(changes, known, *sites[index]); });
}

// Files after the first "--" belong to the second side; without "--" there are two files, one per side.
std::size_t count_of_first_side(const std::vector<std::string>& words,
                                const std::vector<std::string>& files) {
  const auto mark = std::find(words.begin(), words.end(), "--");
  const auto second = mark == words.end() ? std::size_t{1} : static_cast<std::size_t>(words.end() - mark - 1);
  if (mark == words.end() ? files.size() == 2 : second > 0 && second < files.size())
    return files.size() - second;
  throw cli_error(
      exit_code::usage,
      fmt::format("diff needs two files, or two groups of files separated by --, not {}",
                  files.size() == 1 ? "one file" : fmt::format("{} files", files.size())),
      "One file each: tarn diff BEFORE AFTER. Several: tarn diff [OPTIONS] BEFORE... -- AFTER...");
}

std::vector<change_limit> parse_limits(const std::vector<std::string>& expressions) {
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
  return limits;
}

std::size_t index_of(const std::string& name) {
  return static_cast<std::size_t>(profiler::find_metric(name) - profiler::metrics().data());
}

known_metrics known_to(const compared_files& compared) {
  known_metrics known;
  for (std::size_t index = 0; index < known.size(); ++index)
    known[index] = compared.knows(profiler::metrics()[index]);
  return known;
}

void require_known(const known_metrics& known, std::size_t index) {
  if (known[index]) return;
  std::vector<std::string> names;
  for (std::size_t each = 0; each < known.size(); ++each)
    if (known[each]) names.emplace_back(profiler::metrics()[each].name);
  throw cli_error(
      exit_code::refused,
      fmt::format("not all of these profiles have figures for {}", profiler::metrics()[index].name),
      fmt::format("They have {}.", join(names, ", ")));
}

}  // namespace

int cmd_diff(const std::vector<std::string>& words) {
  command app(diff_text);
  std::string metric_name;
  std::vector<std::string> files, expressions;
  std::size_t most = 20;
  bool json = false;
  app.option("profiles PROFILE...", files,
             "Profiles of tarn or pprof; per side, one or several recordings of the same command")
      ->required();
  app.option("--fail-if EXPR", expressions, "Exit with status 1 if this is true; may be repeated")
      ->allow_extra_args(false);
  app.option("-m,--metric METRIC", metric_name, "Metric to sort the sites by (cost; of pprof live_bytes)",
             one_of(metric_words()));
  app.option("-n,--rows N", most, "Show at most N sites (20); 0: all");
  app.add_flag("--json", json, "Print JSON");
  if (!parse_options(app, words)) return exit_code::success;
  const std::vector<change_limit> limits = parse_limits(expressions);
  const std::size_t first_side = count_of_first_side(words, files);
  const auto second_side = files.begin() + static_cast<std::ptrdiff_t>(first_side);
  require_each_once({files.begin(), second_side});
  require_each_once({second_side, files.end()});
  compared_files compared(first_side, files.size() - first_side);
  const auto side_of = [first_side](std::size_t index) {
    return index < first_side ? difference_builder::side::before : difference_builder::side::after;
  };
  for (std::size_t index = 0; index < files.size(); ++index) compared.add_times(files[index], side_of(index));
  for (std::size_t index = 0; index < files.size(); ++index) compared.add(files[index], side_of(index));
  const known_metrics known = known_to(compared);
  if (metric_name.empty()) metric_name = known.front() ? "cost" : "live_bytes";
  const std::size_t metric_index = index_of(metric_name);
  require_known(known, metric_index);
  for (const change_limit& limit : limits) require_known(known, limit.metric_index);
  const profiler::difference changes = compared.take();
  std::vector<std::string> failures;
  for (const change_limit& limit : limits) {
    for (std::string& sentence : profiler::exceeded(changes, limit)) failures.push_back(std::move(sentence));
  }
  if (json) {
    print_json(changes, known, metric_index, most, failures);
  } else {
    const bool colour = wants_colour(STDOUT_FILENO);
    print_totals(changes, known, colour);
    if (known.front()) print_undecided(changes);
    print_sites(changes, metric_index, most, colour);
    if (!failures.empty()) fmt::print("\n");
    for (const std::string& sentence : failures)
      print_text(paint("beyond " + sentence, style::bad, colour) + "\n");
  }
  return failures.empty() ? exit_code::success : exit_code::results_differ;
}

}  // namespace tarn::cli
