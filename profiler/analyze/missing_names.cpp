// SPDX-License-Identifier: MIT
#include "profiler/analyze/missing_names.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "profiler/analyze/site_label.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::profiler {

namespace {

constexpr double least_share = 0.05;
constexpr std::size_t most_files = 3;

bool is_nameless(const source_frame& frame) {
  return frame.kind == frame_kind::native && frame.function.starts_with("?? (");
}

// The file of the innermost code without a name up to the place of the call path; "": all of it has names, or no file.
std::string nameless_file(const profile& p, std::uint32_t stack) {
  const std::vector<source_frame> frames = frames_of(p, stack);
  if (frames.empty()) return {};
  const auto end = frames.begin() + static_cast<std::ptrdiff_t>(own_frame(frames)) + 1;
  const auto found = std::find_if(frames.begin(), end, is_nameless);
  return found != end ? file_of(p, *found) : std::string();
}

}  // namespace

std::string missing_names(const profile& p) {
  std::map<std::string, double> cost_of_file;
  double total = 0;
  double nameless = 0;
  for (const site& one : p.sites) {
    const double cost = cost_of(p, one.figures).total();
    total += cost;
    const std::string file = nameless_file(p, one.stack);
    if (file.empty()) continue;
    nameless += cost;
    cost_of_file[file] += cost;
  }
  if (nameless <= 0 || nameless < least_share * total) return {};
  std::vector<std::pair<double, std::string>> files;
  for (const auto& [file, cost] : cost_of_file) files.emplace_back(-cost, file);
  std::sort(files.begin(), files.end());
  std::string text = say_share(nameless, total) + " of the cost of allocations is in code without names: ";
  for (std::size_t index = 0; index < files.size() && index < most_files; ++index) {
    text += (index == 0 ? "" : ", ") + files[index].second.substr(files[index].second.rfind('/') + 1);
  }
  if (files.size() > most_files) text += ", …";
  return text +
         ". The package with their debug symbols has the names, or a server that DEBUGINFOD_URLS names, or a folder for "
         "--debug-path; then record again";
}

}  // namespace tarn::profiler
