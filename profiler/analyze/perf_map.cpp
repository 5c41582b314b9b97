// SPDX-License-Identifier: MIT
#include "profiler/analyze/perf_map.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "profiler/format/printable.hpp"
#include "profiler/model/script_address.hpp"

namespace tarn::profiler {

namespace {

constexpr std::uint64_t most_bytes = std::uint64_t{256} << 20;  // of a file; the rest is not read
constexpr std::size_t part_bytes = std::size_t{1} << 20;
constexpr std::size_t longest_line = 1024;  // longer ones are cut: generic types have long names
constexpr std::size_t most_names = std::size_t{1} << 18;
// Entries that overlap name an address again and again: so many times in all.
constexpr std::uint64_t most_hits = std::uint64_t{1} << 26;
constexpr std::uint64_t no_line = ~std::uint64_t{0};

bool take_number(std::string_view& text, std::uint64_t& number) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.empty() || text.front() != ' ') return false;
  text.remove_prefix(1);
  return true;
}

struct entry {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::string_view name;
};

bool parse_entry(std::string_view line, entry& into) {
  std::uint64_t size = 0;
  if (!take_number(line, into.start) || !take_number(line, size)) return false;
  into.end = into.start + std::min(size, ~into.start);
  into.name = line;
  return into.end > into.start && !line.empty();
}

// Calls visit(place in the file, line) for each line that ends in a line feed.
template <class Visit>
void for_each_line(int file, Visit visit) {
  std::vector<char> part(part_bytes + longest_line);
  std::size_t kept = 0;  // bytes of a line that has begun
  bool is_rest = false;  // of a line that was cut
  for (std::uint64_t at = 0; at < most_bytes;) {
    const ssize_t got = pread(file, part.data() + kept, part_bytes, static_cast<off_t>(at));
    if (got <= 0) return;
    const std::uint64_t begin = at - kept;
    const std::string_view text(part.data(), kept + static_cast<std::size_t>(got));
    std::size_t line = 0;
    for (std::size_t end = 0; (end = text.find('\n', line)) != std::string_view::npos; line = end + 1) {
      if (!std::exchange(is_rest, false) && !visit(begin + line, text.substr(line, end - line))) return;
    }
    at += static_cast<std::uint64_t>(got);
    kept = text.size() - line;
    if (kept >= longest_line) {
      if (!std::exchange(is_rest, true) && !visit(begin + line, text.substr(line))) return;
      kept = 0;
    }
    std::memmove(part.data(), text.data() + line, kept);
  }
}

std::string line_at(int file, std::uint64_t place) {
  std::string text(longest_line, 0);
  const ssize_t got = pread(file, text.data(), text.size(), static_cast<off_t>(place));
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text.substr(0, text.find('\n'));
}

// The addresses in no module, sorted; of their instructions, that is, of what is before the return address.
std::vector<std::uint64_t> nameless_instructions(const profile& p) {
  range_map<char> modules;
  for (const module_info& each : p.modules) {
    if (!each.path.starts_with("/memfd:")) modules.add(each.start, each.end, 0);
  }
  std::vector<std::uint64_t> found;
  for (const stack_node& node : p.stacks) {
    if (node.address != 0 && !is_script_address(node.address) && modules.at(node.address - 1) == nullptr)
      found.push_back(node.address - 1);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// For each instruction, the place of the last line that is about it.
std::vector<std::uint64_t> find_lines(int file, const std::vector<std::uint64_t>& instructions) {
  std::vector<std::uint64_t> lines(instructions.size(), no_line);
  std::uint64_t hits = 0;
  for_each_line(file, [&](std::uint64_t place, std::string_view line) {
    entry here;
    if (!parse_entry(line, here)) return true;
    auto at = std::lower_bound(instructions.begin(), instructions.end(), here.start);
    for (; at != instructions.end() && *at < here.end && hits < most_hits; ++at, ++hits)
      lines[static_cast<std::size_t>(at - instructions.begin())] = place;
    return hits < most_hits;
  });
  return lines;
}

// Where the file's name begins in "load /srv/app.js"; npos: there is none. Names of functions may have blanks ("get size").
std::size_t file_in(std::string_view text) {
  for (const char* begin : {" /", " file:", " node:"})
    if (const std::size_t at = text.find(begin); at != std::string_view::npos) return at + 1;
  const std::size_t blank = text.rfind(' ');
  return blank == std::string_view::npos ? blank : blank + 1;
}

// Removes ":12" from the end. False: there is no such number.
bool drop_number(std::string_view& text, std::uint32_t& number) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == text.size()) return false;
  const auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  text.remove_suffix(text.size() - colon);
  return true;
}

}  // namespace

source_frame generated_function(std::string_view name) {
  source_frame frame;
  std::string_view text = name;
  const auto is_of_script = [&text](std::string_view kind) {
    if (!text.starts_with(kind)) return false;
    text.remove_prefix(kind.size());
    return true;
  };
  std::uint32_t column = 0;
  const bool is_script = is_of_script("JS:") || is_of_script("LazyCompile:") || is_of_script("Function:") ||
                         is_of_script("Script:") || is_of_script("Eval:");
  // How far it is optimised.
  if (is_script && !text.empty() && std::string_view("~^+*").find(text.front()) != std::string_view::npos)
    text.remove_prefix(1);
  if (!is_script || !drop_number(text, column) || !drop_number(text, frame.line)) {
    frame.function = printable(name);
    frame.line = 0;
    return frame;
  }
  const std::size_t file =
      text.starts_with(' ') || text.starts_with('/') ? text.find_first_not_of(' ') : file_in(text);
  if (file == std::string_view::npos) {
    frame.file = printable(text);
  } else {
    frame.file = printable(text.substr(file));
    frame.function = printable(text.substr(0, file == 0 ? 0 : file - 1));
  }
  if (frame.file.starts_with("file://")) frame.file.erase(0, 7);
  if (frame.function.find_first_not_of(' ') == std::string::npos)
    frame.function = name.starts_with("Script:") ? "(script)" : "(anonymous)";
  return frame;
}

perf_map::~perf_map() {
  if (file_ >= 0) close(file_);
}
perf_map::perf_map(perf_map&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
perf_map& perf_map::operator=(perf_map&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

perf_map perf_map::open(const std::string& folder, std::uint32_t number, uid_t user,
                        std::int64_t not_before) {
  const std::string path = folder + "/perf-" + std::to_string(number) + ".map";
  // Not to wait for the other end of a pipe.
  perf_map map(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat status = {};
  const bool is_own = map.is_open() && fstat(map.file_, &status) == 0 && S_ISREG(status.st_mode) &&
                      status.st_uid == user && status.st_mtime >= not_before;
  return is_own ? std::move(map) : perf_map();
}

void perf_map::name_code(profile& p, const range_map<char>& generated) const {
  const std::vector<std::uint64_t> instructions = nameless_instructions(p);
  if (instructions.empty()) return;
  std::vector<std::uint64_t> lines(instructions.size(), no_line);
  if (is_open()) lines = find_lines(file_, instructions);
  std::unordered_map<std::uint64_t, std::uint64_t> script_of_line;  // many addresses are of one function
  std::unordered_map<std::uint64_t, std::uint64_t> renamed;
  for (std::size_t index = 0; index < instructions.size(); ++index) {
    const std::uint64_t address = instructions[index] + 1;
    entry named;
    if (lines[index] != no_line && script_of_line.size() < most_names) {
      const auto [script, is_new] = script_of_line.try_emplace(lines[index]);
      if (is_new) {
        const std::string line = line_at(file_, lines[index]);
        if (parse_entry(line, named)) {
          source_frame frame = generated_function(named.name);
          script->second = script_address(frame.function, frame.file, frame.line);
          p.symbols.try_emplace(script->second, 1, std::move(frame));
        }
      }
      if (script->second != 0) renamed[address] = script->second;
    } else if (generated.at(instructions[index]) != nullptr) {
      p.symbols[address] = {{generated_code, "", 0, false}};
    }
  }
  for (stack_node& node : p.stacks) {
    if (const auto script = renamed.find(node.address); script != renamed.end())
      node.address = script->second;
  }
  p.stacks_changed = p.stacks_changed || !renamed.empty();
}

}  // namespace tarn::profiler
