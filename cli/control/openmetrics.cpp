// SPDX-License-Identifier: MIT
#include "cli/control/openmetrics.hpp"

#include <cstdlib>
#include <map>
#include <sstream>

namespace tarn::cli {

namespace {

std::string quoted(const std::string& value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

std::string labels_of(const labelled_metrics& part) {
  std::string out;
  for (const auto& [name, value] : part.labels) out += (out.empty() ? "" : ",") + name + "=" + quoted(value);
  return out;
}

// `line`: NAME VALUE or NAME{LABELS} VALUE.
std::string with_labels(const std::string& line, const std::string& labels) {
  const std::size_t end = line.find_first_of("{ ");
  if (labels.empty() || end == std::string::npos) return line;
  if (line[end] == ' ') return line.substr(0, end) + "{" + labels + "}" + line.substr(end);
  const bool has_more = line[end + 1] != '}';
  return line.substr(0, end + 1) + labels + (has_more ? "," : "") + line.substr(end + 1);
}

// The families in the order in which they first appear.
class family_list {
 public:
  void add(const labelled_metrics& part) {
    const std::string labels = labels_of(part);
    std::istringstream lines(part.text);
    std::string line;
    family* current = nullptr;
    bool is_first = false;
    while (std::getline(lines, line) && line != "# EOF") {
      if (line.starts_with("# TYPE ")) {
        const std::string name = line.substr(7, line.find(' ', 7) - 7);
        const auto [place, added] = places_.try_emplace(name, families_.size());
        if (added) families_.emplace_back();
        current = &families_[place->second];
        is_first = added;
      }
      if (current == nullptr || line.empty()) continue;
      if (line[0] != '#') {
        current->samples += with_labels(line, labels) + "\n";
      } else if (is_first) {
        current->heading += line + "\n";
      }
    }
  }

  std::string text() const {
    std::string out;
    for (const family& each : families_) out += each.heading + each.samples;
    return out + "# EOF\n";
  }

 private:
  struct family {
    std::string heading;
    std::string samples;
  };
  std::vector<family> families_;
  std::map<std::string, std::size_t> places_;
};

}  // namespace

std::string merge_openmetrics(const std::vector<labelled_metrics>& parts) {
  family_list families;
  for (const labelled_metrics& part : parts) families.add(part);
  return families.text();
}

std::string as_plain_metrics(const std::string& openmetrics) {
  std::istringstream lines(openmetrics);
  std::string line;
  std::string out;
  // There the name of a counter ends with _total.
  std::string counter = " ";
  while (std::getline(lines, line)) {
    if (line == "# EOF" || line.starts_with("# UNIT ")) continue;
    if (line.starts_with("# TYPE ") && line.ends_with(" counter")) {
      counter = line.substr(7, line.find(' ', 7) - 7);
      line.insert(7 + counter.size(), "_total");
    } else if (line.starts_with("# HELP " + counter + " ")) {
      line.insert(7 + counter.size(), "_total");
    }
    out += line + "\n";
  }
  return out;
}

double sample_in(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.starts_with(name) || line.size() <= name.size()) continue;
    if (line[name.size()] != ' ' && line[name.size()] != '{') continue;
    return std::strtod(line.c_str() + line.rfind(' '), nullptr);
  }
  return 0;
}

}  // namespace tarn::cli
