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
    if (is_head && take_head(line, head)) {
      // The kernel tells a mapping again, as a whole, that has grown or merged with the next between two parts of the text.
      while (!all.empty() && all.back().end > head.start) all.pop_back();
      all.push_back(std::move(head));
    }
    if (is_head || all.empty()) continue;
    mapping& now = all.back();
    if (line.starts_with("Rss:")) now.resident_bytes = kib_of(line);
    if (line.starts_with("Anonymous:")) now.anonymous_bytes = kib_of(line);
    if (line.starts_with("VmFlags:")) now.undumped = line.find(" dd") != std::string_view::npos;
  }
  return all;
}

const mapping* file_of_static_data(const std::vector<mapping>& all, std::size_t index) {
  const auto follows = [&all](std::size_t at) { return at > 0 && all[at - 1].end == all[at].start; };
  const auto is_part = [&all](std::size_t at) {
    return all[at].name.empty() && !all[at].shared && all[at].readable;
  };
  // A program may have protected parts of its static data; a longer row is not looked at for each of its mappings.
  constexpr std::size_t most_parts = 32;
  if (!is_part(index)) return nullptr;
  for (std::size_t parts = 1; parts < most_parts && follows(index) && is_part(index - 1); ++parts) --index;
  // A file with several parts is a program or a library. A mapping behind a file of one part is there by chance.
  if (!follows(index) || !all[index - 1].is_file() || !follows(index - 1)) return nullptr;
  return all[index - 2].name == all[index - 1].name ? &all[index - 1] : nullptr;
}

stack_pointers stack_pointers_of(std::uint32_t process) {
  stack_pointers found;
  const std::vector<std::uint32_t> threads = threads_of(process);
  for (std::size_t index = 1; index < threads.size(); ++index) {
    // "0 0x0 ... STACK-POINTER PLACE", or "running"
    const std::string text =
        proc_text(process, ("task/" + std::to_string(threads[index]) + "/syscall").c_str());
    const std::size_t place = text.rfind(" 0x");
    const std::size_t pointer = place == 0 ? std::string::npos : text.rfind(" 0x", place - 1);
    if (pointer == std::string::npos || place == std::string::npos)
      ++found.unknown;
    else
      found.known.push_back(std::strtoull(text.c_str() + pointer, nullptr, 16));
  }
  return found;
}

std::uint64_t usual_stack_bytes(std::uint32_t process) {
  // "Max stack size   SOFT   HARD   bytes"
  const std::string text = proc_text(process, "limits");
  const std::size_t line = text.find("Max stack size");
  const std::size_t number = line == std::string::npos ? line : text.find_first_of("0123456789\n", line);
  return number == std::string::npos
             ? 0
             : std::strtoull(text.c_str() + number, nullptr, 10);  // "unlimited": the line ends
}

std::vector<bool> stacks_among(const std::vector<mapping>& all, const stack_pointers& of,
                               const std::vector<bool>& may_be, std::set<std::uint64_t>& lengths) {
  const auto length = [&all](std::size_t index) { return all[index].end - all[index].start; };
  const auto has_guard = [&](std::size_t index) {
    return index > 0 && may_be[index] && all[index].name.empty() && !all[index].shared &&
           all[index].writable && all[index - 1].end == all[index].start && !all[index - 1].readable;
  };
  std::vector<bool> stacks(all.size());
  std::size_t unknown = of.unknown;
  for (const std::uint64_t pointer : of.known) {
    const auto above =
        std::upper_bound(all.begin(), all.end(), pointer,
                         [](std::uint64_t address, const mapping& one) { return address < one.start; });
    const auto index = static_cast<std::size_t>(above - all.begin()) - 1;
    if (above != all.begin() && pointer < all[index].end && has_guard(index) && !stacks[index]) {
      stacks[index] = true;
      lengths.insert(length(index));
    } else {
      ++unknown;
    }
  }
  std::vector<std::size_t> others;
  for (std::size_t index = 0; index < all.size(); ++index)
    if (!stacks[index] && has_guard(index) && lengths.count(length(index)) != 0) others.push_back(index);
  std::stable_sort(others.begin(), others.end(), [&all](std::size_t left, std::size_t right) {
    return all[left].resident_bytes > all[right].resident_bytes;
  });
  others.resize(std::min(others.size(), unknown));
  for (const std::size_t index : others) stacks[index] = true;
  return stacks;
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
