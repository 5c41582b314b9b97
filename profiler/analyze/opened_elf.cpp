// SPDX-License-Identifier: MIT
#include "profiler/analyze/opened_elf.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace tarn::profiler {

namespace {

using namespace std::string_view_literals;

constexpr std::string_view gnu_name = "GNU\0"sv;
constexpr std::size_t most_segments = 1000;
constexpr std::uint64_t most_table_bytes = std::uint64_t{256} << 20;  // of symbols
constexpr std::uint64_t most_note_bytes = 65536;
constexpr std::uint64_t most_bytes_of_all_notes = 1 << 20;
constexpr std::size_t most_build_id_bytes = 64;  // linkers make 20 at most unless they are told otherwise
constexpr std::uint64_t map_page = 4096;         // segments are mapped from a multiple of this

// The build-id among the notes of a part of the file; empty if there is none. libelf reads the part whole and keeps it,
// so a part that is longer than `left` is skipped, and `left` is reduced by the others.
std::string_view build_id_in(Elf* elf, std::uint64_t offset, std::uint64_t size, std::uint64_t alignment,
                             std::uint64_t& left) {
  if (size > std::min(left, most_note_bytes)) return {};
  left -= size;
  Elf_Data* const data = elf_getdata_rawchunk(elf, static_cast<std::int64_t>(offset), size,
                                              alignment == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
  if (data == nullptr) return {};
  GElf_Nhdr note;
  std::size_t name = 0;
  std::size_t content = 0;
  for (std::size_t at = 0; (at = gelf_getnote(data, at, &note, &name, &content)) != 0;) {
    const char* const bytes = static_cast<const char*>(data->d_buf);
    if (note.n_type == NT_GNU_BUILD_ID && std::string_view(bytes + name, note.n_namesz) == gnu_name &&
        note.n_descsz <= most_build_id_bytes)
      return {bytes + content, note.n_descsz};
  }
  return {};
}

// By the segments, and by the sections of a file whose segments have none, such as one of debug information.
std::string_view find_build_id(const opened_elf& file) {
  std::uint64_t left = most_bytes_of_all_notes;
  std::string_view found;
  for (const GElf_Phdr& one : file.segments(PT_NOTE)) {
    if (found.empty()) found = build_id_in(file.elf, one.p_offset, one.p_filesz, one.p_align, left);
  }
  GElf_Shdr header;
  for (Elf_Scn* section = nullptr; found.empty() && (section = elf_nextscn(file.elf, section)) != nullptr;) {
    if (gelf_getshdr(section, &header) != nullptr && header.sh_type == SHT_NOTE)
      found = build_id_in(file.elf, header.sh_offset, header.sh_size, header.sh_addralign, left);
  }
  return found;
}

}  // namespace

opened_elf::~opened_elf() {
  if (elf != nullptr) elf_end(elf);
  if (file >= 0) close(file);
}

std::unique_ptr<opened_elf> opened_elf::at(const std::string& path) {
  elf_version(EV_CURRENT);
  auto result = std::make_unique<opened_elf>();
  // The path may come from a profile: to open a pipe could block, and some devices act when they are opened.
  struct stat about;
  if (stat(path.c_str(), &about) != 0) return nullptr;
  errno = EINVAL;
  if (!S_ISREG(about.st_mode)) return nullptr;
  result->file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (result->file < 0) return nullptr;
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

std::vector<elf_symbol> opened_elf::functions(unsigned section_type) const {
  std::vector<elf_symbol> found;
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr;
       section = elf_nextscn(elf, section)) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != section_type) continue;
    if (header.sh_entsize == 0 || header.sh_size > most_table_bytes) continue;
    Elf_Data* data = elf_getdata(section, nullptr);
    if (data == nullptr) continue;
    const auto count = static_cast<int>(data->d_size / header.sh_entsize);
    for (int index = 0; index < count; ++index) {
      GElf_Sym symbol;
      if (gelf_getsym(data, index, &symbol) == nullptr) continue;
      const auto type = GELF_ST_TYPE(symbol.st_info);
      if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF) continue;
      const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (name != nullptr && *name != 0) found.push_back({symbol.st_value, symbol.st_size, name});
    }
  }
  return found;
}

std::string opened_elf::build_id() const { return build_id_text(find_build_id(*this)); }

std::vector<module_info> modules_of(const loaded_elf& loaded) {
  auto file = opened_elf::at(loaded.path);
  std::string build_id = file ? file->build_id() : "";
  if (!loaded.build_id.empty() && build_id != loaded.build_id) {
    build_id = loaded.build_id;
    file.reset();
  }
  std::vector<module_info> modules;
  for (const GElf_Phdr& segment : file ? file->segments(PT_LOAD) : std::vector<GElf_Phdr>()) {
    if ((segment.p_flags & PF_X) == 0) continue;
    const std::uint64_t lead = segment.p_vaddr & (map_page - 1);
    const std::uint64_t begin = loaded.base + segment.p_vaddr - lead;
    modules.push_back(
        {loaded.path, build_id, begin, begin + lead + segment.p_memsz, segment.p_offset - lead});
  }
  if (modules.empty()) modules.push_back({loaded.path, build_id, loaded.start, loaded.end, 0});
  return modules;
}

std::string build_id_of(const std::string& path) {
  const auto file = opened_elf::at(path);
  return file ? file->build_id() : "";
}

}  // namespace tarn::profiler
