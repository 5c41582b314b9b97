// SPDX-License-Identifier: MIT
#include "cli/cost/cost_chart.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/cost/cost_report.hpp"
#include "cli/show/text.hpp"
#include "profiler/analyze/quantity.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

namespace {

constexpr double chart_width = 900;
constexpr double label_width = 130;
constexpr double value_width = 250;  // to the right of the longest bar
constexpr double bars_width = chart_width - label_width - value_width;
constexpr double bar_height = 16;
constexpr double row_height = 24;
constexpr double heading_height = 34;
constexpr double top_height = 66;
constexpr double bottom_height = 40;

// The colours work on light and dark pages alike; the neutral ones follow the reader's choice.
constexpr const char* svg_style =
    "<style>\n"
    "text{font:13px system-ui,sans-serif;fill:#24292e}\n"
    ".paper{fill:#fdfdfc}.heading{font-weight:600}.title{font-size:16px;font-weight:600}\n"
    ".small{font-size:11px;fill:#6a737d}.line{stroke:#c9ccd1}.range{stroke:#24292e}\n"
    ".seen{fill:#2f7ed8}.hidden{fill:#d1480f}\n"
    "@media (prefers-color-scheme:dark){text{fill:#e3e6ea}.paper{fill:#16191d}.small{fill:#9aa2ab}\n"
    ".line{stroke:#3d434b}.range{stroke:#e3e6ea}}\n"
    "</style>\n";

constexpr const char* page_style =
    "<style>\n"
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:960px;padding:0 1em;background:#fdfdfc;"
    "color:#24292e}\n"
    "table{border-collapse:collapse;font-size:13px;margin:1em 0}\n"
    "th,td{padding:.25em .6em;text-align:right;border-bottom:1px solid #c9ccd1;white-space:nowrap}\n"
    "th:first-child,td:first-child{text-align:left}svg{max-width:100%;height:auto}\n"
    "@media (prefers-color-scheme:dark){body{background:#16191d;color:#e3e6ea}th,td{border-color:#3d434b}}\n"
    "</style>\n";

double per_mib(double seconds, const cost_row& row) { return seconds / row.size_mib(); }

double longest_bar(const cost_outcome& outcome) {
  double longest = 0;
  for (const std::uint64_t size : outcome.sizes) {
    for (const cost_row& row : rows_of(outcome, size)) {
      longest = std::max({longest, per_mib(row.highest_total, row), per_mib(row.timed_seconds, row)});
    }
  }
  return longest > 0 ? longest : 1e-6;
}

// The distance of axis ticks: 1, 2 or 5 times a power of ten, so that there are 3 to 8 of them.
double step_of(double longest) {
  const double power = std::pow(10, std::floor(std::log10(longest)));
  for (const double factor : {0.2, 0.5, 1.0, 2.0}) {
    if (longest / (factor * power) <= 8) return factor * power;
  }
  return power;
}

std::string rectangle(double x, double y, double width, const char* kind) {
  if (width <= 0) return {};
  return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" class=\"{}\"/>\n", x, y,
                     width, bar_height, kind);
}

std::string words(double x, double y, const char* kind, const std::string& text,
                  const char* anchor = "start") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\" text-anchor=\"{}\">{}</text>\n", x, y,
                     kind, anchor, profiler::escape_markup(text));
}

std::string value_text(const cost_row& row) {
  const std::string kept = kept_in_words(row);
  const std::string end = kept.empty() ? "" : "; " + kept;
  if (!row.seen_share) return "next to nothing" + end;
  return fmt::format("{} per MiB, a timer sees {}{}", profiler::say_seconds(per_mib(row.total_seconds, row)),
                     profiler::say_share(*row.seen_share), end);
}

std::string bar(const cost_row& row, double y, double scale) {
  const double total = std::max(0.0, per_mib(row.total_seconds, row));
  const double seen = std::min(total, per_mib(row.timed_seconds, row));
  std::string text = words(label_width - 8, y + bar_height - 4, "name", row.way->name, "end");
  text += rectangle(label_width, y, seen * scale, "seen");
  text += rectangle(label_width + seen * scale, y, (total - seen) * scale, "hidden");
  const double low = std::max(0.0, per_mib(row.lowest_total, row));
  const double high = std::max(0.0, per_mib(row.highest_total, row));
  const double middle = y + bar_height / 2;
  text += fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" class=\"range\"/>\n",
                      label_width + low * scale, label_width + high * scale, middle, middle);
  text +=
      words(label_width + std::max(total, high) * scale + 8, y + bar_height - 4, "value", value_text(row));
  return text;
}

std::string legend() {
  std::string text = rectangle(label_width, 38, 16, "seen");
  text += words(label_width + 22, 50, "", "seen by a timer around allocate and free");
  text += rectangle(label_width + 300, 38, 16, "hidden");
  text += words(label_width + 322, 50, "", "hidden: paid while the buffer is written");
  return text;
}

std::string grid(const cost_outcome& outcome, double longest, double scale, double bottom) {
  std::string text;
  const double step = step_of(longest);
  for (int index = 0; index * step <= longest * 1.001; ++index) {
    const double x = label_width + index * step * scale;
    text += fmt::format("<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{:.1f}\" class=\"line\"/>\n", x, x,
                        top_height, bottom);
    text += words(x, bottom + 16, "small", index == 0 ? "0" : profiler::say_seconds(index * step), "middle");
  }
  text += words(label_width, bottom + 32, "small",
                fmt::format("true total per MiB, median of {} rounds; the thin line: lowest to highest",
                            outcome.rounds));
  return text;
}

std::string table_of(const cost_outcome& outcome, std::uint64_t size) {
  const auto cell = [](const char* kind, const std::string& text) {
    return fmt::format("<{0}>{1}</{0}>", kind, profiler::escape_markup(text));
  };
  std::string text = "<table>\n<tr>" + cell("th", profiler::say_exactly(size));
  for (const cost_column& one : cost_columns())
    text += cell("th", fmt::format("{} {}", one.first, one.second));
  text += "</tr>\n";
  for (const cost_row& row : rows_of(outcome, size)) {
    text += "<tr>" + cell("td", row.way->name);
    for (const cost_column& one : cost_columns()) text += cell("td", one.show(row));
    text += "</tr>\n";
  }
  return text + "</table>\n";
}

}  // namespace

std::string render_cost_svg(const cost_outcome& outcome) {
  const double longest = longest_bar(outcome);
  const double scale = bars_width / longest;
  std::string bars;
  double y = top_height;
  for (const std::uint64_t size : outcome.sizes) {
    const std::vector<cost_row> rows = rows_of(outcome, size);
    if (rows.size() < 2) continue;
    bars += words(8, y + heading_height - 12, "heading", profiler::say_exactly(size));
    y += heading_height;
    for (const cost_row& row : rows) {
      if (row.is_reference) continue;
      bars += bar(row, y, scale);
      y += row_height;
    }
  }
  const double height = y + bottom_height;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "role=\"img\">\n<title>What a large buffer costs</title>\n",
      chart_width, height);
  text += svg_style;
  text += "<rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n";
  text += words(8, 24, "title",
                "What a large buffer costs beyond writing to it: allocate, write, write again, free");
  text += legend() + grid(outcome, longest, scale, y) + bars;
  return text + "</svg>\n";
}

std::string render_cost_html(const cost_outcome& outcome, const std::vector<std::string>& notes) {
  std::string text =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>What a large buffer costs</title>\n";
  text += page_style;
  text += "</head>\n<body>\n" + render_cost_svg(outcome);
  for (const std::uint64_t size : outcome.sizes) {
    if (!rows_of(outcome, size).empty()) text += table_of(outcome, size);
  }
  for (const std::string& line : render_cost_sentences(outcome))
    text += "<p>" + profiler::escape_markup(line) + ".</p>\n";
  for (const std::string& note : notes) text += "<p>" + profiler::escape_markup(note) + ".</p>\n";
  return text + "</body>\n</html>\n";
}

}  // namespace tarn::cli
