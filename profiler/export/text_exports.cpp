// SPDX-License-Identifier: MIT
// Collapsed stacks and Prometheus' text.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "profiler/export/exports.hpp"
#include "profiler/export/packer.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::profiler {

namespace {

// A frame's name between semicolons, on one line.
std::string collapsed_name(std::string name) {
  std::replace(name.begin(), name.end(), ';', ',');
  std::replace(name.begin(), name.end(), '\n', ' ');
  return name;
}

// Call paths by function names: sites with one path but different types are one line. A path is a caller's path and
// a name, so memory is that of the profile's own paths, not that of all lines.
class name_paths {
 public:
  explicit name_paths(const profile& p) : nodes_(1), by_stack_(p.stacks.size()) {
    for (std::size_t stack = 1; stack < p.stacks.size(); ++stack) {
      std::uint32_t at = by_stack_[p.stacks[stack].parent];
      const std::vector<source_frame> frames = frames_of(p, static_cast<std::uint32_t>(stack), 1);
      for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) at = child(at, frame->function);
      by_stack_[stack] = at;
    }
  }

  void add(const metric_row& row, double value) {
    if (value <= 0) return;
    const bool has_path = row.who != nullptr && row.who->stack != 0;
    nodes_[has_path ? by_stack_[row.who->stack]
                    : child(0, row.who == nullptr ? row.label() : "[no call path]")]
        .value += value;
  }

  void write(piece_writer& out) const {
    std::vector<std::uint32_t> path;
    for (std::uint32_t node = 1; node < nodes_.size(); ++node) {
      if (std::llround(nodes_[node].value) == 0) continue;
      path.clear();
      for (std::uint32_t at = node; at != 0; at = nodes_[at].parent) path.push_back(at);
      std::string line;
      for (auto at = path.rbegin(); at != path.rend(); ++at) {
        if (!line.empty()) line += ';';
        line += *nodes_[*at].name;
      }
      out.write(fmt::format("{} {}\n", line, std::llround(nodes_[node].value)));
    }
  }

 private:
  struct path_node {
    std::uint32_t parent = 0;
    const std::string* name = nullptr;
    double value = 0;
  };

  std::uint32_t child(std::uint32_t parent, std::string_view name) {
    const std::string* const kept = &*names_.insert(collapsed_name(std::string(name))).first;
    const auto [at, is_new] =
        children_.try_emplace({parent, kept}, static_cast<std::uint32_t>(nodes_.size()));
    if (is_new) nodes_.push_back({parent, kept, 0});
    return at->second;
  }

  std::set<std::string> names_;
  std::vector<path_node> nodes_;  // [0] is the empty path
  std::map<std::pair<std::uint32_t, const std::string*>, std::uint32_t> children_;
  std::vector<std::uint32_t> by_stack_;
};

std::string label_value(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\\' || letter == '"') escaped += '\\';
    if (letter == '\n') {
      escaped += "\\n";
    } else {
      escaped += letter;
    }
  }
  return escaped;
}

// Prometheus counts in base units.
std::string prometheus_name(const metric& what) {
  switch (what.unit) {
    case base_unit::ns: return fmt::format("tarn_profile_{}_seconds", what.name);
    case base_unit::bytes:
      return what.name.find("bytes") == std::string_view::npos
                 ? fmt::format("tarn_profile_{}_bytes", what.name)
                 : fmt::format("tarn_profile_{}", what.name);
    case base_unit::count: break;
  }
  return fmt::format("tarn_profile_{}", what.name);
}

// Rows with equal labels must be one row: those of one place in the source.
struct prometheus_row {
  std::string labels;
  std::vector<double> values;  // in the order of metrics()
};

std::vector<prometheus_row> prometheus_rows(const profile& p, std::size_t most) {
  std::map<std::string, std::vector<double>> by_labels;
  for (const metric_row& row : metric_rows(p)) {
    const source_frame frame = row.frames(p).front();
    const std::string labels = fmt::format("function=\"{}\",file=\"{}\",line=\"{}\",type=\"{}\"",
                                           label_value(frame.function), label_value(frame.file), frame.line,
                                           label_value(row.who == nullptr ? "" : row.who->type));
    auto& values = by_labels[labels];
    values.resize(metrics().size());
    for (std::size_t index = 0; index < values.size(); ++index)
      values[index] += metrics()[index].of(p, row.figures(p));
  }
  std::vector<prometheus_row> rows;
  rows.reserve(by_labels.size());
  for (auto& [labels, values] : by_labels) rows.push_back({labels, std::move(values)});
  std::stable_sort(rows.begin(), rows.end(), [](const prometheus_row& a, const prometheus_row& b) {
    return a.values[0] > b.values[0];
  });
  if (rows.size() > most) {
    prometheus_row rest{"function=\"(all others)\",file=\"\",line=\"0\",type=\"\"",
                        std::vector<double>(metrics().size())};
    for (std::size_t index = most; index < rows.size(); ++index) {
      for (std::size_t each = 0; each < rest.values.size(); ++each)
        rest.values[each] += rows[index].values[each];
    }
    rows.resize(most);
    rows.push_back(std::move(rest));
  }
  return rows;
}

}  // namespace

void export_collapsed(const profile& p, const metric& what,
                      const std::function<void(std::string_view)>& take) {
  name_paths paths(p);
  for (const metric_row& row : metric_rows(p)) paths.add(row, what.of(p, row.figures(p)));
  piece_writer out(take);
  paths.write(out);
  out.flush();
}

std::string export_prometheus(const profile& p, std::size_t most) {
  const std::vector<prometheus_row> rows = prometheus_rows(p, most);
  const std::string program = text_in(p.meta, "program");
  std::string text;
  for (std::size_t index = 0; index < metrics().size(); ++index) {
    const metric& what = metrics()[index];
    const std::string name = prometheus_name(what);
    const double unit = what.unit == base_unit::ns ? 1e-9 : 1;
    fmt::format_to(std::back_inserter(text), "# HELP {} {}\n# TYPE {} gauge\n", name, what.meaning, name);
    for (const prometheus_row& row : rows) {
      fmt::format_to(std::back_inserter(text), "{}{{program=\"{}\",{}}} {}\n", name, label_value(program),
                     row.labels, row.values[index] * unit);
    }
  }
  return text;
}

}  // namespace tarn::profiler
