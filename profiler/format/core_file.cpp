// SPDX-License-Identifier: MIT
#include "profiler/format/core_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <iterator>
#include <sstream>

#include "profiler/format/build_id.hpp"
#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

namespace {

constexpr std::size_t most_note_bytes = std::size_t{64} << 20;
constexpr std::uint64_t most_searched_bytes = std::uint64_t{4} << 30;
constexpr std::size_t searched_at_once = std::size_t{1} << 20;
constexpr std::size_t most_segments = std::size_t{4} << 20;
constexpr std::size_t most_parts_of_file = 1000;
constexpr unsigned most_parts_of_module = 64;
constexpr std::size_t most_module_note_bytes = 16 << 10;
constexpr std::size_t longest_build_id = 64;

bool is_core_head(const Elf64_Ehdr& head) {
  return std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_type == ET_CORE;
}

// Signals by which the kernel makes a core file. gcore names the one that it stopped the process with.
bool makes_core(int signal) {
  constexpr int all[] = {SIGQUIT, SIGILL,  SIGTRAP, SIGABRT, SIGBUS,
                         SIGFPE,  SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS};
  return std::find(std::begin(all), std::end(all), signal) != std::end(all);
}

template <class T>
bool take(std::string_view bytes, std::size_t at, T& into) {
  if (at > bytes.size() || bytes.size() - at < sizeof into) return false;
  std::memcpy(&into, bytes.data() + at, sizeof into);
  return true;
}

std::string text_at(const char* room, std::size_t size) { return {room, strnlen(room, size)}; }

constexpr std::size_t aligned(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Calls visit(type, name, content) for each note that is whole; it returns whether to go on.
template <class Visit>
void each_note(std::string_view bytes, std::size_t unit, const Visit& visit) {
  Elf64_Nhdr head;
  for (std::size_t at = 0; take(bytes, at, head);) {
    at += sizeof head;
    const std::size_t name = at;
    at += aligned(head.n_namesz, 4);
    at = aligned(at, unit);
    if (at > bytes.size() || head.n_descsz > bytes.size() - at) return;
    const std::string_view content = bytes.substr(at, head.n_descsz);
    if (!visit(head.n_type, text_at(bytes.data() + name, head.n_namesz), content)) return;
    at += aligned(head.n_descsz, unit);
  }
}

}  // namespace

bool core_file::is_one(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  Elf64_Ehdr head{};
  struct stat kind {};
  const bool is_core = fstat(file, &kind) == 0 && S_ISREG(kind.st_mode) &&
                       pread(file, &head, sizeof head, 0) >= static_cast<ssize_t>(EI_NIDENT + 2) &&
                       is_core_head(head);
  close(file);
  return is_core;
}

core_file::core_file(const std::string& path) : path_(path) {
  file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat kind {};
  if (file_ < 0 || fstat(file_, &kind) != 0) throw profile_error(path + ": " + std::strerror(errno));
  file_bytes_ = static_cast<std::uint64_t>(kind.st_size);
  try {
    read_segments();
  } catch (...) {
    close(file_);
    throw;
  }
}

core_file::~core_file() { close(file_); }

// Returns how many bytes there are.
std::size_t core_file::read_file(std::uint64_t offset, void* into, std::size_t bytes) const {
  if (offset >= file_bytes_) return 0;
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        pread(file_, static_cast<char*>(into) + done, bytes - done, static_cast<off_t>(offset + done));
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void core_file::read_segments() {
  Elf64_Ehdr head{};
  const std::string cut =
      "the core file " + path_ +
      " is cut off before its table of memory ends, so nothing can be read from it; allow more where it was "
      "made: ulimit -c unlimited, and ProcessSizeMax and ExternalSizeMax of systemd-coredump";
  if (read_file(0, &head, sizeof head) != sizeof head) throw profile_error(cut);
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB)
    throw profile_error(
        "the core file " + path_ +
        " is of a process of 32 bits or of another order of bytes, for which there is no tarn");
  std::uint64_t count = head.e_phnum;
  Elf64_Shdr first{};
  if (count == PN_XNUM) {
    if (read_file(head.e_shoff, &first, sizeof first) != sizeof first) throw profile_error(cut);
    count = first.sh_info;
  }
  if (head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phoff > file_bytes_ || count > most_segments ||
      count > (file_bytes_ - head.e_phoff) / sizeof(Elf64_Phdr))
    throw profile_error(cut);
  std::vector<Elf64_Phdr> table(count);
  if (read_file(head.e_phoff, table.data(), count * sizeof(Elf64_Phdr)) != count * sizeof(Elf64_Phdr))
    throw profile_error(cut);
  const auto notes =
      std::find_if(table.begin(), table.end(), [](const Elf64_Phdr& one) { return one.p_type == PT_NOTE; });
  if (notes != table.end()) read_notes(notes->p_offset, notes->p_filesz);
  for (const Elf64_Phdr& one : table) {
    if (one.p_type != PT_LOAD) continue;
    address_bytes_ += static_cast<double>(one.p_memsz);
    const std::uint64_t there = file_bytes_ - std::min(file_bytes_, one.p_offset);
    is_cut_ = is_cut_ || one.p_filesz > there;
    const std::uint64_t bytes = std::min({one.p_filesz, there, one.p_memsz});
    if (bytes > 0 && bytes <= UINT64_MAX - one.p_vaddr)
      segments_.push_back({one.p_vaddr, bytes, one.p_offset, (one.p_flags & PF_W) != 0});
  }
  std::sort(segments_.begin(), segments_.end(),
            [](const segment& left, const segment& right) { return left.start < right.start; });
  if (const core_mapping* const own = mapping_at(entry_)) program_ = own->path;
}

void core_file::read_notes(std::uint64_t offset, std::uint64_t bytes) {
  std::string notes(std::min<std::uint64_t>({bytes, most_note_bytes, file_bytes_}), '\0');
  notes.resize(read_file(offset, notes.data(), notes.size()));
  is_cut_ = is_cut_ || notes.size() < bytes;
  each_note(notes, 4, [this](std::uint32_t type, std::string_view name, std::string_view content) {
    if (name == "CORE") take_note(type, content);
    return true;
  });
}

void core_file::take_note(std::uint32_t type, std::string_view content) {
  if (type == NT_PRSTATUS && !has_thread_) {  // the first one is of the thread that the signal came to
    short signal = 0;
    has_thread_ = take(content, offsetof(prstatus_t, pr_cursig), signal);
    if (makes_core(signal)) signal_ = signal;
  } else if (type == NT_PRPSINFO) {
    prpsinfo_t about{};
    if (!take(content, 0, about)) return;
    process_ = static_cast<std::uint32_t>(about.pr_pid);
    if (program_.empty()) program_ = text_at(about.pr_fname, sizeof about.pr_fname);
    std::istringstream line(text_at(about.pr_psargs, sizeof about.pr_psargs));
    for (std::string word; line >> word;) words_.push_back(word);
    // The kernel keeps 79 characters, and the last word may be cut.
    if (strnlen(about.pr_psargs, sizeof about.pr_psargs) + 1 >= sizeof about.pr_psargs && words_.size() > 1)
      words_.pop_back();
  } else if (type == NT_AUXV) {
    Elf64_auxv_t one{};
    for (std::size_t at = 0; take(content, at, one); at += sizeof one)
      if (one.a_type == AT_ENTRY) entry_ = one.a_un.a_val;
  } else if (type == NT_FILE) {
    take_mappings(content);
  }
}

// How many, the unit of offsets, that many rows, and their paths.
void core_file::take_mappings(std::string_view content) {
  std::uint64_t head[2];
  std::uint64_t row[3];
  if (!take(content, 0, head) || head[0] > content.size() / sizeof row) return;
  std::size_t path_at = sizeof head + head[0] * sizeof row;
  for (std::uint64_t index = 0; index < head[0] && path_at < content.size(); ++index) {
    if (!take(content, sizeof head + index * sizeof row, row)) return;
    std::string path = text_at(content.data() + path_at, content.size() - path_at);
    path_at += path.size() + 1;
    constexpr std::string_view mark = " (deleted)";
    if (path.ends_with(mark)) path.resize(path.size() - mark.size());
    if (row[0] < row[1]) mappings_.push_back({row[0], row[1], row[2] * head[1], path});
  }
  std::sort(mappings_.begin(), mappings_.end(),
            [](const core_mapping& left, const core_mapping& right) { return left.start < right.start; });
}

bool core_file::read(std::uint64_t address, void* into, std::size_t bytes) const {
  char* to = static_cast<char*>(into);
  while (bytes > 0) {
    auto next = std::upper_bound(segments_.begin(), segments_.end(), address,
                                 [](std::uint64_t value, const segment& each) { return value < each.start; });
    if (next == segments_.begin()) return false;
    const segment& one = *(next - 1);
    const std::uint64_t into_it = address - one.start;
    if (into_it >= one.bytes) return false;
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, one.bytes - into_it));
    if (read_file(one.offset + into_it, to, part) != part) return false;
    to += part;
    address += part;
    bytes -= part;
  }
  return true;
}

const core_mapping* core_file::mapping_at(std::uint64_t address) const {
  const auto next =
      std::upper_bound(mappings_.begin(), mappings_.end(), address,
                       [](std::uint64_t value, const core_mapping& each) { return value < each.start; });
  return next != mappings_.begin() && address < (next - 1)->end ? &*(next - 1) : nullptr;
}

bool core_file::overlaps_mapping(const segment& part) const {
  const auto next =
      std::upper_bound(mappings_.begin(), mappings_.end(), part.start + part.bytes - 1,
                       [](std::uint64_t value, const core_mapping& each) { return value < each.start; });
  return next != mappings_.begin() && part.start < (next - 1)->end;
}

void core_file::find_in(const segment& part, std::string_view text, std::size_t unit,
                        const std::function<void(std::uint64_t)>& visit) const {
  std::string bytes;
  for (std::uint64_t at = 0; at < part.bytes; at += searched_at_once) {
    // What begins in this piece may end in the next one.
    bytes.resize(std::min<std::uint64_t>(searched_at_once + text.size() - 1, part.bytes - at));
    bytes.resize(read_file(part.offset + at, bytes.data(), bytes.size()));
    for (std::size_t found = bytes.find(text); found != std::string::npos;
         found = bytes.find(text, found + 1))
      if (found < searched_at_once && (part.start + at + found) % unit == 0) visit(part.start + at + found);
  }
}

void core_file::find(std::string_view text, std::size_t unit,
                     const std::function<void(std::uint64_t)>& visit) const {
  std::vector<segment> parts;
  for (const segment& one : segments_)
    if (one.is_writable && (mappings_.empty() || overlaps_mapping(one))) parts.push_back(one);
  std::stable_sort(parts.begin(), parts.end(),
                   [](const segment& left, const segment& right) { return left.bytes < right.bytes; });
  std::uint64_t left = most_searched_bytes;
  for (const segment& one : parts) {
    if (one.bytes > left) return;
    left -= one.bytes;
    find_in(one, text, unit, visit);
  }
}

std::string core_file::build_id_of(const core_mapping& part) const {
  // The nearest mapping before it that has the file's beginning.
  const core_mapping* first = &part;
  for (std::size_t back = 0; first->path != part.path || first->offset != 0; ++back, --first)
    if (first == mappings_.data() || back == most_parts_of_file) return "";
  Elf64_Ehdr head{};
  if (!read(first->start, head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr))
    return "";
  std::string id;
  for (unsigned index = 0; index < std::min<unsigned>(head.e_phnum, most_parts_of_module) && id.empty();
       ++index) {
    Elf64_Phdr header{};
    if (!read(first->start + head.e_phoff + index * sizeof header, header)) return "";
    // Notes lie in the first segment, at the same distance from its beginning as in the file.
    if (header.p_type != PT_NOTE || header.p_filesz > most_module_note_bytes) continue;
    std::string notes(header.p_filesz, '\0');
    if (!read(first->start + header.p_offset, static_cast<void*>(notes.data()), notes.size())) continue;
    each_note(notes, header.p_align == 8 ? 8 : 4,
              [&id](std::uint32_t type, std::string_view name, std::string_view content) {
                if (type != NT_GNU_BUILD_ID || name != "GNU" || content.size() > longest_build_id)
                  return true;
                id = build_id_text(content);
                return false;
              });
  }
  return id;
}

}  // namespace tarn::profiler
