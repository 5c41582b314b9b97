// SPDX-License-Identifier: MIT
#include "profiler/collect/proc_status.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "profiler/format/printable.hpp"

namespace fs = std::filesystem;

namespace tarn::profiler {

namespace {

using elf_header = ElfW(Ehdr);
using program_header = ElfW(Phdr);
using note_header = ElfW(Nhdr);

constexpr std::size_t most_note_bytes = 65536;
constexpr std::size_t most_build_id_bytes = 64;  // linkers make 20 at most unless they are told otherwise
constexpr std::uint64_t map_page = 4096;         // segments are mapped from a multiple of this

struct elf_parts {
  std::vector<program_header> segments;
  std::string build_id;
};

std::string hexadecimal(const unsigned char* bytes, std::size_t count) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (std::size_t index = 0; index < count; ++index) {
    text += digits[bytes[index] >> 4];
    text += digits[bytes[index] & 15];
  }
  return text;
}

std::string find_build_id(const std::vector<unsigned char>& notes) {
  std::size_t at = 0;
  while (at + sizeof(note_header) <= notes.size()) {
    note_header header = {};
    std::memcpy(&header, notes.data() + at, sizeof header);
    const std::size_t name = at + sizeof header;
    const std::size_t content = name + ((std::size_t{header.n_namesz} + 3) & ~std::size_t{3});
    if (content + header.n_descsz > notes.size()) return "";
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && header.n_descsz <= most_build_id_bytes &&
        std::memcmp(notes.data() + name, "GNU", 4) == 0) {
      return hexadecimal(notes.data() + content, header.n_descsz);
    }
    at = content + ((std::size_t{header.n_descsz} + 3) & ~std::size_t{3});
  }
  return "";
}

// A regular file, opened for reading. The path comes from a recorded process and may name a pipe or a device, which
// could block.
class regular_file {
 public:
  explicit regular_file(const std::string& path)
      : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat about = {};
    is_there_ = file_ >= 0 && fstat(file_, &about) == 0 && S_ISREG(about.st_mode);
  }
  ~regular_file() {
    if (file_ >= 0) close(file_);
  }
  regular_file(const regular_file&) = delete;
  regular_file& operator=(const regular_file&) = delete;

  // False: there is no regular file, or it ends before offset + bytes.
  bool read_at(std::uint64_t offset, void* into, std::size_t bytes) const {
    return is_there_ && pread(file_, into, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  }

 private:
  int file_;
  bool is_there_ = false;
};

elf_parts read_elf(const std::string& path) {
  elf_parts parts;
  const regular_file file(path);
  elf_header header = {};
  if (!file.read_at(0, &header, sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_phentsize != sizeof(program_header) || header.e_phnum > 1000) {
    return parts;
  }
  parts.segments.resize(header.e_phnum);
  if (!file.read_at(header.e_phoff, parts.segments.data(), parts.segments.size() * sizeof(program_header)))
    return {};
  for (const program_header& segment : parts.segments) {
    if (segment.p_type != PT_NOTE || segment.p_filesz > most_note_bytes) continue;
    std::vector<unsigned char> notes(segment.p_filesz);
    if (!file.read_at(segment.p_offset, notes.data(), notes.size())) break;
    parts.build_id = find_build_id(notes);
    if (!parts.build_id.empty()) break;
  }
  return parts;
}

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

std::optional<process_figures> read_process(std::uint32_t process) {
  return parse_process(proc_text(process, "stat"), static_cast<double>(sysconf(_SC_CLK_TCK)),
                       static_cast<double>(sysconf(_SC_PAGESIZE)));
}

std::string proc_text(std::uint32_t process, const char* name) {
  return file_text("/proc/" + std::to_string(process) + "/" + name);
}

namespace {

double status_bytes(std::uint32_t process, const char* line) {
  const std::string text = proc_text(process, "status");
  const std::size_t at = text.find(line);
  return at == std::string::npos ? 0 : 1024 * std::strtod(text.c_str() + at + std::strlen(line), nullptr);
}

}  // namespace

double resident_bytes_of(std::uint32_t process) { return status_bytes(process, "\nVmRSS:"); }
double peak_resident_of(std::uint32_t process) { return status_bytes(process, "\nVmHWM:"); }

std::vector<std::pair<std::uint32_t, std::string>> thread_names(std::uint32_t process) {
  std::vector<std::pair<std::uint32_t, std::string>> names;
  std::error_code error;
  for (fs::directory_iterator entry("/proc/" + std::to_string(process) + "/task", error), end;
       !error && entry != end; entry.increment(error)) {
    std::string name = file_text(entry->path() / "comm");
    if (!name.empty() && name.back() == '\n') name.pop_back();
    if (!name.empty()) names.emplace_back(std::strtoul(entry->path().filename().c_str(), nullptr, 10), name);
  }
  return names;
}

std::vector<std::string> command_line_of(std::uint32_t process) {
  const std::string text = file_text("/proc/" + std::to_string(process) + "/cmdline");
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::vector<module_info> modules_of(const std::string& path, std::uint64_t base, std::uint64_t start,
                                    std::uint64_t end) {
  const elf_parts parts = read_elf(path);
  std::vector<module_info> modules;
  for (const program_header& segment : parts.segments) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    module_info& module = modules.emplace_back();
    const std::uint64_t lead = segment.p_vaddr & (map_page - 1);
    module.path = path;
    module.build_id = parts.build_id;
    module.start = base + segment.p_vaddr - lead;
    module.end = module.start + lead + segment.p_memsz;
    module.file_offset = segment.p_offset - lead;
  }
  if (modules.empty()) modules.push_back({path, parts.build_id, start, end, 0});
  return modules;
}

std::string build_id_of(const std::string& path) { return read_elf(path).build_id; }

}  // namespace tarn::profiler
