// SPDX-License-Identifier: MIT
#include "profiler/proc/proc_status.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <sstream>

#include "profiler/format/printable.hpp"

namespace fs = std::filesystem;

namespace tarn::profiler {

namespace {

// Empty if the file is gone, also if that happens during the read: a process may end at any moment.
std::string file_text(const fs::path& path) {
  std::string text;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  std::array<char, 4096> part{};
  for (ssize_t size = 0; (size = read(file, part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(size));
  }
  close(file);
  return text;
}

}  // namespace

std::optional<process_figures> parse_process(std::string_view text, double ticks_per_second,
                                             double page_bytes) {
  const std::size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  process_figures figures;
  const char* const end_of_id = text.data() + open;
  if (const auto id = std::from_chars(text.data(), end_of_id, figures.id);
      id.ec != std::errc() || id.ptr + 1 != end_of_id || *id.ptr != ' ')
    return std::nullopt;
  // By the numbers of proc(5): the state is field 3; those that are used are counts.
  std::istringstream fields{std::string(text.substr(close + 1))};
  std::array<double, 25> numbers{};
  if (!(fields >> figures.state)) return std::nullopt;
  for (std::size_t field = 4; field < numbers.size(); ++field) {
    std::string word;
    if (!(fields >> word)) return std::nullopt;
    const auto number = std::from_chars(word.data(), word.data() + word.size(), numbers[field]);
    if (number.ec != std::errc() || number.ptr != word.data() + word.size()) return std::nullopt;
  }
  const double ns_per_tick = 1e9 / ticks_per_second;
  static_cast<process_counters&>(figures) = {numbers[10], numbers[12], numbers[14] * ns_per_tick,
                                             numbers[15] * ns_per_tick};
  figures.ended_children = {numbers[11], numbers[13], numbers[16] * ns_per_tick, numbers[17] * ns_per_tick};
  figures.name = printable(text.substr(open + 1, close - open - 1));
  figures.start_ticks = static_cast<std::uint64_t>(std::max(0.0, numbers[22]));
  figures.resident_bytes = numbers[24] * page_bytes;
  return figures;
}

std::string image_addresses(std::string_view text) {
  const std::size_t close = text.rfind(')');
  if (close == std::string_view::npos) return "";
  std::istringstream fields{std::string(text.substr(close + 1))};
  std::string found;
  std::string word;
  for (int field = 3; fields >> word; ++field) {
    const bool is_address = (field >= 26 && field <= 28) || (field >= 45 && field <= 51);  // proc(5)
    if (is_address) found += word + ' ';
  }
  return found;
}

std::optional<process_figures> read_process(std::uint32_t process) {
  return parse_process(proc_text(process, "stat"), static_cast<double>(sysconf(_SC_CLK_TCK)),
                       static_cast<double>(sysconf(_SC_PAGESIZE)));
}

std::string proc_text(std::uint32_t process, const char* name) {
  return file_text("/proc/" + std::to_string(process) + "/" + name);
}

namespace {

double status_bytes(std::uint32_t process, const char* name) {
  return 1024 * std::strtod(status_line(proc_text(process, "status"), name).c_str(), nullptr);
}

}  // namespace

double resident_bytes_of(std::uint32_t process) { return status_bytes(process, "VmRSS"); }
double peak_resident_of(std::uint32_t process) { return status_bytes(process, "VmHWM"); }
double peak_address_space_of(std::uint32_t process) { return status_bytes(process, "VmPeak"); }

std::string status_line(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with(name) || !line.substr(name.size()).starts_with(':')) continue;
    line.remove_prefix(std::min(line.find_first_not_of(" \t", name.size() + 1), line.size()));
    return std::string(line);
  }
  return "";
}

std::vector<std::uint32_t> numbers_in(const std::string& folder) {
  std::vector<std::uint32_t> numbers;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::uint32_t number = 0;
    const auto [rest, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (problem == std::errc() && rest == name.data() + name.size()) numbers.push_back(number);
  }
  return numbers;
}

std::vector<std::uint32_t> threads_of(std::uint32_t process) {
  return numbers_in("/proc/" + std::to_string(process) + "/task");
}

std::vector<std::uint32_t> children_of(std::uint32_t process) {
  std::vector<std::uint32_t> children;
  // Each thread has its own list of children.
  for (const std::uint32_t thread : threads_of(process)) {
    std::istringstream list(proc_text(process, ("task/" + std::to_string(thread) + "/children").c_str()));
    for (std::uint32_t child = 0; list >> child;) children.push_back(child);
  }
  return children;
}

std::vector<std::pair<std::uint32_t, std::string>> thread_names(std::uint32_t process) {
  std::vector<std::pair<std::uint32_t, std::string>> names;
  for (const std::uint32_t thread : threads_of(process)) {
    std::string name = proc_text(process, ("task/" + std::to_string(thread) + "/comm").c_str());
    if (!name.empty() && name.back() == '\n') name.pop_back();
    if (!name.empty()) names.emplace_back(thread, name);
  }
  return names;
}

std::vector<std::string> command_line_of(std::uint32_t process) {
  const std::string text = proc_text(process, "cmdline");
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

}  // namespace tarn::profiler
