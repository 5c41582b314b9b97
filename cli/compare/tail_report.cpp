// SPDX-License-Identifier: MIT
#include "cli/compare/tail_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "cli/compare/call_tails.hpp"
#include "cli/compare/comparison_report.hpp"
#include "cli/show/text_table.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

namespace tail = profiler::tail;

namespace {

constexpr const char* kind_names[] = {"malloc", "free", "realloc"};
constexpr const char* group_names[] = {"up to 1 KiB", "up to 32 KiB", "up to 1 MiB", "above 1 MiB"};

constexpr struct {
  const char* name;
  const char* key;
  double share;
} quantiles[] = {{"p50", "p50_ns", 0.5}, {"p99", "p99_ns", 0.99}, {"p99.99", "p99_99_ns", 0.9999}};

constexpr std::size_t columns = std::size(quantiles) + 1;  // and the worst

// In ns; none: too few calls.
struct tail_figures {
  std::optional<double> values[columns];
};

tail_figures figures_of(const call_durations& calls, const tick_length& tick) {
  tail_figures figures;
  for (std::size_t column = 0; column < std::size(quantiles); ++column)
    figures.values[column] = calls.quantile(quantiles[column].share);
  if (calls.calls() != 0) figures.values[columns - 1] = static_cast<double>(calls.worst());
  for (std::optional<double>& value : figures.values) {
    if (value) value = profiler::spelled(profiler::base_unit::ns, *value * tick.ns).value;
  }
  return figures;
}

call_tails all_rounds(const contender_result& result) {
  call_tails all;
  for (const call_tails& round : result.tails) all.add(round);
  return all;
}

void for_each_kind_and_group(const std::function<void(call_kind, std::size_t)>& visit) {
  for (std::size_t kind = 0; kind < tail::kind_count; ++kind) {
    for (std::size_t group = 0; group < tail::group_count; ++group)
      visit(static_cast<call_kind>(kind), group);
  }
}

struct measured {
  std::string name;
  call_tails tails;
};

std::vector<measured> measured_of(const comparison_outcome& outcome) {
  std::vector<measured> all;
  for (const contender_result* result : with_figures(outcome))
    all.push_back({result->who.name, all_rounds(*result)});
  return all;
}

std::string say_calls(std::uint64_t calls) { return profiler::say_count(static_cast<double>(calls)); }

class tail_table {
 public:
  tail_table(const std::vector<measured>& all, const tick_length& tick)
      : all_(all), tick_(tick), table_({"", "calls", "p50", "p99", "p99.99", "worst", "interrupted"}, {0}) {
    for_each_kind_and_group([this](call_kind kind, std::size_t group) { add(kind, group); });
  }

  std::string text(bool colour, std::size_t terminal) {
    table_.fit(terminal);
    return table_.text(colour);
  }

 private:
  void add(call_kind kind, std::size_t group) {
    std::vector<tail_figures> rows;
    bool is_called = false;
    for (const measured& one : all_) {
      const call_durations& whole = one.tails.of(kind, group, call_state::whole);
      rows.push_back(figures_of(whole, tick_));
      for (std::size_t state = 0; state < tail::state_count; ++state)
        is_called = is_called || one.tails.of(kind, group, static_cast<call_state>(state)).calls() != 0;
    }
    if (!is_called) return;
    std::vector<table_cell> heading(columns + 3);
    heading.front() = {fmt::format("{}, {}", kind_names[static_cast<std::size_t>(kind)], group_names[group]),
                       style::bold};
    table_.add(std::move(heading));
    for (std::size_t index = 0; index < all_.size(); ++index) {
      const call_tails& tails = all_[index].tails;
      add_row("  " + all_[index].name, tails.of(kind, group, call_state::whole), rows[index], rows,
              say_calls(tails.of(kind, group, call_state::interrupted).calls()));
      const call_durations& faulted = tails.of(kind, group, call_state::faulted);
      if (faulted.calls() != 0) add_row("    page faults", faulted, figures_of(faulted, tick_), {}, "");
    }
  }

  // `rivals`: the rows among which the lowest figures are marked.
  void add_row(const std::string& name, const call_durations& calls, const tail_figures& row,
               const std::vector<tail_figures>& rivals, const std::string& interrupted) {
    const style usual = rivals.empty() ? style::faint : style::plain;
    std::vector<table_cell> cells = {{name, usual}, {say_calls(calls.calls()), usual}};
    for (std::size_t column = 0; column < columns; ++column) {
      const std::optional<double>& value = row.values[column];
      const bool is_best = value && rivals.size() > 1 &&
                           std::all_of(rivals.begin(), rivals.end(), [&](const tail_figures& rival) {
                             return !rival.values[column] || *rival.values[column] >= *value;
                           });
      cells.push_back({value ? shown(*value) : "-", is_best ? style::good : usual});
    }
    cells.push_back({interrupted, usual});
    table_.add(std::move(cells));
  }

  std::string shown(double ns) const {
    return ns < tick_.step_ns ? "<" + profiler::say_time(tick_.step_ns) : profiler::say_time(ns);
  }

  const std::vector<measured>& all_;
  const tick_length& tick_;
  text_table table_;
};

// How page faults and interruptions became known.
std::string method_of(const call_tails& all) {
  const char* const by_events = "page faults and interruptions: by events of the kernel (perf_event_open)";
  if (all.by_usage == 0) return by_events;
  const std::string instead = fmt::format("by getrusage around each call, as perf_event_open failed ({})",
                                          std::strerror(all.refusal));
  if (all.by_usage >= all.threads) return "page faults and interruptions: " + instead;
  return fmt::format("{}; in {} of {} threads {}", by_events, all.by_usage, all.threads, instead);
}

constexpr const char* told_apart =
    "page faults: calls that took some, which are in no other row; interrupted: calls during which the "
    "kernel took the processor away or a signal handler ran, which are in no row";

std::vector<std::string> legend_of(const comparison_outcome& outcome, const std::vector<measured>& all,
                                   const tick_length& tick) {
  const std::size_t rounds = with_figures(outcome).front()->tails.size();
  call_tails together;
  for (const measured& one : all) together.add(one.tails);
  return {
      fmt::format(
          "calls of {} round{} together (--json has each); a figure is left out (-) if fewer than ten calls exceed it: "
          "p99.99 needs 100,000 calls",
          rounds, rounds == 1 ? "" : "s"),
      told_apart, method_of(together),
      fmt::format("figures are exact to 3 %, or to {}, a step of the counter; subtracted from each call: {}, "
                  "which a call of an empty function takes",
                  profiler::say_time(tick.step_ns),
                  profiler::say_time(static_cast<double>(together.timer_ticks) * tick.ns)),
      libraries_of(with_figures(outcome))};
}

nlohmann::json as_json(const call_durations& calls, const tick_length& tick) {
  nlohmann::json object = {{"calls", calls.calls()}};
  const tail_figures figures = figures_of(calls, tick);
  for (std::size_t column = 0; column < columns; ++column) {
    const std::optional<double>& value = figures.values[column];
    object[column < std::size(quantiles) ? quantiles[column].key : "worst_ns"] =
        value ? nlohmann::json(*value) : nlohmann::json();
  }
  return object;
}

nlohmann::json as_json(const contender_result& result, const tick_length& tick) {
  const call_tails all = all_rounds(result);
  nlohmann::json rows = nlohmann::json::array();
  for_each_kind_and_group([&](call_kind kind, std::size_t group) {
    const std::uint64_t interrupted = all.of(kind, group, call_state::interrupted).calls();
    for (const call_state state : {call_state::whole, call_state::faulted}) {
      const bool is_whole = state == call_state::whole;
      const call_durations& calls = all.of(kind, group, state);
      if (calls.calls() == 0 && !(is_whole && interrupted != 0)) continue;
      nlohmann::json row = as_json(calls, tick);
      row["function"] = kind_names[static_cast<std::size_t>(kind)];
      row["size"] = group_names[group];
      row["page_faults"] = !is_whole;
      if (is_whole) row["interrupted"] = interrupted;
      for (const call_tails& round : result.tails)
        row["rounds"].push_back(as_json(round.of(kind, group, state), tick));
      rows.push_back(std::move(row));
    }
  });
  return {{"rows", std::move(rows)},
          {"threads", all.threads},
          {"threads_by_getrusage", all.by_usage},
          {"timer_ns", static_cast<double>(all.timer_ticks) * tick.ns}};
}

}  // namespace

std::string render_tails(const comparison_outcome& outcome, const tick_length& tick, bool colour,
                         std::size_t terminal) {
  const std::vector<measured> all = measured_of(outcome);
  if (all.empty()) return {};
  std::string text = tail_table(all, tick).text(colour, terminal);
  for (const std::string& line : legend_of(outcome, all, tick)) {
    if (!line.empty())
      text += paint(terminal == 0 ? line : wrap(line, terminal), style::faint, colour) + "\n";
  }
  return text;
}

nlohmann::json tails_as_json(const comparison_outcome& outcome, const tick_length& tick) {
  nlohmann::json object = as_json(outcome);
  object.erase("verdicts");
  for (std::size_t index = 0; index < outcome.results.size(); ++index) {
    nlohmann::json& entry = object["contenders"][index];
    entry.erase("metrics");
    entry["tails"] = as_json(outcome.results[index], tick);
  }
  object["step_ns"] = tick.step_ns;
  return object;
}

}  // namespace tarn::cli
