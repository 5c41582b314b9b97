// SPDX-License-Identifier: MIT
#include "profiler/format/openmetrics.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <unordered_set>

#include "profiler/format/printable.hpp"

namespace tarn::profiler {

namespace {

constexpr std::size_t most_samples = 100000;
constexpr std::size_t most_labels = 8;
constexpr std::size_t most_helps = 1000;
constexpr std::size_t longest_name = 100;
constexpr std::size_t longest_value = 1024;
constexpr std::size_t longest_number = 40;
constexpr std::size_t longest_help = 200;
constexpr std::string_view total_ending = "_total";
// Written by whoever asks, not by the process.
constexpr std::string_view own_metric = "tarn_up";
constexpr std::string_view own_labels[] = {"pid", "program"};
// They would belong to a family of another name.
constexpr std::string_view taken_endings[] = {"_created", "_bucket", "_count", "_sum", "_gcount", "_gsum"};
constexpr std::string_view known_units[] = {"bytes", "seconds"};

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= longest_name && text.front() >= 'a' && text.front() <= 'z' &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

bool is_metric(std::string_view text) {
  return is_name(text) && text.starts_with("tarn_") && text != own_metric &&
         std::none_of(std::begin(taken_endings), std::end(taken_endings),
                      [text](std::string_view end) { return text.ends_with(end); });
}

bool is_number(std::string_view text) {
  const auto digits = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const std::size_t point = std::min(text.find('.'), text.size());
  return text.size() <= longest_number && digits(text.substr(0, point)) &&
         (point == text.size() || digits(text.substr(point + 1)));
}

std::string escaped(std::string_view text, std::string_view what) {
  std::string out;
  for (const char c : printable(text)) {
    if (what.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// The text up to `end`, which is not a part of it, without its escapes; `rest` begins behind it. None: there is no end.
std::optional<std::string> take_text(std::string_view& rest, char end, std::size_t longest) {
  std::string out;
  for (std::size_t at = 0; at < rest.size() && out.size() <= longest; ++at) {
    if (rest[at] == end) {
      rest.remove_prefix(at + 1);
      return out;
    }
    if (rest[at] != '\\') {
      out += rest[at];
    } else if (++at < rest.size()) {
      out += rest[at] == 'n' ? '\n' : rest[at];
    }
  }
  return std::nullopt;
}

// Up to the closing brace; `rest` is shortened by it.
std::optional<metric_labels> take_labels(std::string_view& rest) {
  metric_labels labels;
  while (!rest.starts_with('}')) {
    if (!labels.empty() && !rest.starts_with(',')) return std::nullopt;
    if (!labels.empty()) rest.remove_prefix(1);
    const std::string_view name = rest.substr(0, rest.find('='));
    const bool is_free =
        is_name(name) &&
        std::find(std::begin(own_labels), std::end(own_labels), name) == std::end(own_labels) &&
        std::none_of(labels.begin(), labels.end(), [name](const auto& one) { return one.first == name; });
    if (!is_free || labels.size() == most_labels) return std::nullopt;
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    if (!rest.starts_with('"')) return std::nullopt;
    rest.remove_prefix(1);
    auto value = take_text(rest, '"', longest_value);
    if (!value) return std::nullopt;
    labels.emplace_back(name, std::move(*value));
  }
  rest.remove_prefix(1);
  return labels;
}

class metrics_reader {
 public:
  metric_list run(std::string_view text) {
    while (!text.empty() && samples_.size() < most_samples) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = text.substr(0, end);
      if (line == "# EOF") break;
      line.starts_with('#') ? take_help(line) : take_sample(line);
      text.remove_prefix(std::min(text.size(), end + 1));
    }
    for (metric_family& family : list_.families) {
      if (const auto help = helps_.find(family.name); help != helps_.end()) family.help = help->second;
    }
    return std::move(list_);
  }

 private:
  void take_help(std::string_view line) {
    constexpr std::string_view mark = "# HELP ";
    if (!line.starts_with(mark) || helps_.size() >= most_helps) return;
    line.remove_prefix(mark.size());
    const std::string_view name = line.substr(0, line.find(' '));
    if (!is_metric(name) || name.size() + 1 >= line.size()) return;
    std::string text(line.substr(name.size() + 1));
    text += '\n';
    std::string_view rest = text;
    if (const auto help = take_text(rest, '\n', longest_help))
      helps_.try_emplace(std::string(name), escaped(*help, "\\"));
  }

  void take_sample(std::string_view line) {
    std::string_view name = line.substr(0, line.find_first_of("{ "));
    if (!is_metric(name)) return;
    line.remove_prefix(name.size());
    std::optional<metric_labels> labels = metric_labels();
    if (line.starts_with('{')) {
      line.remove_prefix(1);
      labels = take_labels(line);
    }
    if (!labels || !line.starts_with(' ') || !is_number(line.substr(1))) return;
    metric_sample sample{written_labels(*labels), std::string(line.substr(1))};
    std::sort(labels->begin(), labels->end());
    if (!samples_.insert(std::string(name) + '{' + written_labels(*labels)).second) return;
    const bool is_counter = name.ends_with(total_ending);
    if (is_counter) name.remove_suffix(total_ending.size());
    family_of(name, is_counter).samples.push_back(std::move(sample));
  }

  metric_family& family_of(std::string_view name, bool is_counter) {
    const auto [place, added] = places_.try_emplace({std::string(name), is_counter}, list_.families.size());
    if (added) list_.families.push_back({std::string(name), is_counter, "", {}});
    return list_.families[place->second];
  }

  metric_list list_;
  std::map<std::pair<std::string, bool>, std::size_t> places_;
  std::map<std::string, std::string, std::less<>> helps_;
  std::unordered_set<std::string> samples_;  // each may be there once
};

std::string unit_of(std::string_view name) {
  for (const std::string_view unit : known_units)
    if (name.ends_with("_" + std::string(unit))) return std::string(unit);
  return "";
}

struct merged_family {
  std::string help;
  std::string samples;
};

// Families by name and whether they are counters, in the order in which they first appear.
class family_list {
 public:
  void add(const labelled_metrics& part) {
    for (const metric_family& each : part.metrics.families) {
      const auto [place, added] = families_.try_emplace({each.name, each.is_counter});
      if (added) order_.push_back(place->first);
      if (place->second.help.empty()) place->second.help = each.help;
      for (const metric_sample& sample : each.samples) {
        const char* const between = part.labels.empty() || sample.labels.empty() ? "" : ",";
        const std::string labels = part.labels + between + sample.labels;
        std::string& out = place->second.samples;
        out += each.name;
        if (each.is_counter) out += total_ending;
        if (!labels.empty()) out += "{" + labels + "}";
        out += " " + sample.value + "\n";
      }
    }
  }

  std::string text(bool is_openmetrics) const {
    std::string out;
    for (const auto& [name, is_counter] : order_) {
      // OpenMetrics names a counter without its ending, unless a gauge of another process has that name.
      const bool is_taken = is_counter && families_.contains({name, false});
      const std::string shown =
          is_taken || (is_counter && !is_openmetrics) ? name + std::string(total_ending) : name;
      const char* const type = !is_counter ? "gauge" : is_taken && is_openmetrics ? "unknown" : "counter";
      const std::string unit = is_openmetrics ? unit_of(shown) : "";
      const merged_family& family = families_.at({name, is_counter});
      out += "# TYPE " + shown + " " + type + "\n";
      if (!unit.empty()) out += "# UNIT " + shown + " " + unit + "\n";
      if (!family.help.empty()) out += "# HELP " + shown + " " + family.help + "\n";
      out += family.samples;
    }
    return out + (is_openmetrics ? "# EOF\n" : "");
  }

 private:
  using key = std::pair<std::string, bool>;
  std::vector<key> order_;
  std::map<key, merged_family> families_;
};

}  // namespace

double metric_list::value_of(std::string_view name) const {
  const bool is_counter = name.ends_with(total_ending);
  if (is_counter) name.remove_suffix(total_ending.size());
  for (const metric_family& each : families)
    if (each.name == name && each.is_counter == is_counter && !each.samples.empty())
      return std::strtod(each.samples.front().value.c_str(), nullptr);
  return 0;
}

metric_list read_metrics(std::string_view text) { return metrics_reader().run(text); }

std::string written_labels(const metric_labels& labels) {
  std::string out;
  for (const auto& [name, value] : labels)
    out += (out.empty() ? "" : ",") + name + "=\"" + escaped(value, "\"\\") + "\"";
  return out;
}

std::string write_metrics(const std::vector<labelled_metrics>& parts, metrics_format format) {
  family_list families;
  for (const labelled_metrics& part : parts) families.add(part);
  return families.text(format == metrics_format::openmetrics);
}

}  // namespace tarn::profiler
