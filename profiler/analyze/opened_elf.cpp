// SPDX-License-Identifier: MIT
#include "profiler/analyze/opened_elf.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tarn::profiler {

namespace {

constexpr std::size_t most_segments = 1000;
constexpr std::uint64_t most_note_bytes = 65536;
constexpr ssize_t most_build_id_bytes = 64;  // linkers make 20 at most unless they are told otherwise
constexpr std::uint64_t map_page = 4096;     // segments are mapped from a multiple of this

// libelf reads notes whole.
bool has_long_notes(const opened_elf& file) {
  const std::vector<GElf_Phdr> notes = file.segments(PT_NOTE);
  if (std::any_of(notes.begin(), notes.end(), [](const auto& one) { return one.p_filesz > most_note_bytes; }))
    return true;
  GElf_Shdr header;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(file.elf, section)) != nullptr;) {
    if (gelf_getshdr(section, &header) != nullptr && header.sh_type == SHT_NOTE &&
        header.sh_size > most_note_bytes)
      return true;
  }
  return false;
}

}  // namespace

opened_elf::~opened_elf() {
  if (elf != nullptr) elf_end(elf);
  if (file >= 0) close(file);
}

std::unique_ptr<opened_elf> opened_elf::at(const std::string& path) {
  elf_version(EV_CURRENT);
  auto result = std::make_unique<opened_elf>();
  // A pipe or a device must not block.
  result->file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (result->file < 0) return nullptr;
  struct stat about;
  errno = EINVAL;
  if (fstat(result->file, &about) != 0 || !S_ISREG(about.st_mode)) return nullptr;
  // Not mapped: truncating the file meanwhile would end this process by SIGBUS.
  result->elf = elf_begin(result->file, ELF_C_READ, nullptr);
  errno = ENOEXEC;
  if (result->elf == nullptr || elf_kind(result->elf) != ELF_K_ELF) return nullptr;
  return result;
}

std::vector<GElf_Phdr> opened_elf::segments(unsigned type) const {
  std::vector<GElf_Phdr> found;
  std::size_t count = 0;
  if (elf_getphdrnum(elf, &count) != 0) return found;
  for (std::size_t index = 0; index < std::min(count, most_segments); ++index) {
    GElf_Phdr header;
    if (gelf_getphdr(elf, static_cast<int>(index), &header) != nullptr && header.p_type == type)
      found.push_back(header);
  }
  return found;
}

std::string opened_elf::build_id() const {
  const void* bytes = nullptr;
  const ssize_t size = has_long_notes(*this) ? 0 : dwelf_elf_gnu_build_id(elf, &bytes);
  std::string text;
  for (ssize_t index = 0; index < size && size <= most_build_id_bytes; ++index) {
    constexpr const char* digits = "0123456789abcdef";
    const unsigned byte = static_cast<const unsigned char*>(bytes)[index];
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::vector<module_info> modules_of(const std::string& path, std::uint64_t base, std::uint64_t start,
                                    std::uint64_t end) {
  const auto file = opened_elf::at(path);
  const std::string build_id = file ? file->build_id() : "";
  std::vector<module_info> modules;
  for (const GElf_Phdr& segment : file ? file->segments(PT_LOAD) : std::vector<GElf_Phdr>()) {
    if ((segment.p_flags & PF_X) == 0) continue;
    const std::uint64_t lead = segment.p_vaddr & (map_page - 1);
    const std::uint64_t begin = base + segment.p_vaddr - lead;
    modules.push_back({path, build_id, begin, begin + lead + segment.p_memsz, segment.p_offset - lead});
  }
  if (modules.empty()) modules.push_back({path, build_id, start, end, 0});
  return modules;
}

std::string build_id_of(const std::string& path) {
  const auto file = opened_elf::at(path);
  return file ? file->build_id() : "";
}

}  // namespace tarn::profiler
