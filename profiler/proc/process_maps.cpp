// SPDX-License-Identifier: MIT
#include "profiler/proc/process_maps.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "profiler/proc/proc_status.hpp"

namespace tarn::profiler {

namespace {

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::uint64_t hexadecimal_at(std::string_view& line) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value, 16);
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  return value;
}

// "55d0c000-55d0d000 rw-p 00001000 fd:01 1234    /path"
bool take_head(std::string_view line, mapping& into) {
  into = {};
  into.start = hexadecimal_at(line);
  if (line.empty() || line.front() != '-') return false;
  line.remove_prefix(1);
  into.end = hexadecimal_at(line);
  if (line.size() < 6 || line[0] != ' ' || into.end <= into.start) return false;
  into.readable = line[1] == 'r';
  into.writable = line[2] == 'w';
  into.executable = line[3] == 'x';
  into.shared = line[4] == 's';
  for (int field = 0; field < 4; ++field) {  // rights, offset, device, inode
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (field == 1) into.offset = hexadecimal_at(line);
    line.remove_prefix(std::min(line.find(' '), line.size()));
  }
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  into.name = line;
  return true;
}

double kib_of(std::string_view line) {
  const std::size_t at = line.find_first_of("0123456789");
  return at == std::string_view::npos ? 0 : 1024 * std::strtod(std::string(line.substr(at)).c_str(), nullptr);
}

}  // namespace

std::vector<mapping> parse_mappings(const std::string& text) {
  std::vector<mapping> all;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = next_line(rest);
    // Lines of figures begin with a capital letter, the first line of a mapping with its address in lower-case
    // hexadecimal.
    const bool is_head = !line.empty() && (line.front() < 'A' || line.front() > 'Z');
    mapping head;
    if (is_head && take_head(line, head)) all.push_back(std::move(head));
    if (is_head || all.empty()) continue;
    mapping& now = all.back();
    if (line.starts_with("Rss:")) now.resident_bytes = kib_of(line);
    if (line.starts_with("Anonymous:")) now.anonymous_bytes = kib_of(line);
    if (line.starts_with("VmFlags:")) now.undumped = line.find(" dd") != std::string_view::npos;
  }
  return all;
}

std::optional<std::vector<mapping>> read_mappings(std::uint32_t process) {
  const std::string text = proc_text(process, "smaps");
  if (text.empty()) return std::nullopt;
  return parse_mappings(text);
}

resident_pages::resident_pages(int pagemap, std::uint64_t start, std::uint64_t end, double resident_bytes)
    : start_(start), end_(end), page_(static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))) {
  const auto length = static_cast<double>(end - start);
  all_ = true;
  share_ = std::min(1.0, resident_bytes / length);
  if (resident_bytes <= 0 || resident_bytes >= length || end - start > most_bytes) return;
  read(pagemap);
  if (there_.empty()) return;
  all_ = false;
  const auto count =
      static_cast<double>(std::count(there_.begin(), there_.end(), true)) * static_cast<double>(page_);
  share_ = count > 0 ? std::min(1.0, resident_bytes / count) : 0;
}

void resident_pages::read(int pagemap) {
  constexpr std::uint64_t is_present = std::uint64_t{1} << 63;
  std::array<std::uint64_t, 8192> entries{};
  std::vector<bool> there((end_ - start_) / page_);
  for (std::size_t first = 0; first < there.size();) {
    const std::size_t wanted = std::min(entries.size(), there.size() - first);
    const auto place = static_cast<off_t>((start_ / page_ + first) * sizeof entries[0]);
    const ssize_t got = pread(pagemap, entries.data(), wanted * sizeof entries[0], place);
    if (got <= 0) return;
    const std::size_t count = static_cast<std::size_t>(got) / sizeof entries[0];
    for (std::size_t index = 0; index < count; ++index)
      there[first + index] = (entries[index] & is_present) != 0;
    first += count;
  }
  there_ = std::move(there);
}

double resident_pages::bytes_in(std::uint64_t from, std::uint64_t to) const {
  from = std::max(from, start_);
  to = std::min(to, end_);
  if (from >= to) return 0;
  if (all_) return share_ * static_cast<double>(to - from);
  std::uint64_t sum = 0;
  while (from < to) {
    const std::uint64_t next = std::min(to, (from / page_ + 1) * page_);
    if (there_[(from - start_) / page_]) sum += next - from;
    from = next;
  }
  return share_ * static_cast<double>(sum);
}

}  // namespace tarn::profiler
