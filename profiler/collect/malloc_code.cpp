// SPDX-License-Identifier: MIT
#include "profiler/collect/malloc_code.hpp"

#include <fcntl.h>
#include <gelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

namespace tarn::profiler {

namespace {

constexpr std::array malloc_names = {"malloc",
                                     "free",
                                     "calloc",
                                     "realloc",
                                     "memalign",
                                     "aligned_alloc",
                                     "posix_memalign",
                                     "valloc",
                                     "pvalloc",
                                     "cfree",
                                     "reallocarray",
                                     "free_sized",
                                     "malloc_trim",
                                     "mallinfo",
                                     "mallinfo2",
                                     "mallopt",
                                     "malloc_usable_size",
                                     "malloc_info",
                                     "malloc_stats",
                                     "free_aligned_sized",
                                     "__default_morecore",
                                     "malloc_get_state",
                                     "malloc_set_state"};

// The local functions between two exported ones of malloc take up to 10 KiB in glibc 2.36; a longer gap is other
// code.
constexpr std::uint64_t most_between = std::uint64_t{32} << 10;
// A malloc library larger than this does other things as well; jemalloc has 0.6 MiB of code.
constexpr std::uint64_t most_allocator = std::uint64_t{2} << 20;
constexpr std::size_t most_known_files = 256;

std::uint64_t page_floor(std::uint64_t bytes) {
  static const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes / page * page;
}

bool is_mallocs(std::string_view name) {
  constexpr std::string_view libcs = "__libc_";
  if (name.starts_with(libcs)) name.remove_prefix(libcs.size());
  return std::find(malloc_names.begin(), malloc_names.end(), name) != malloc_names.end();
}

// _Znwm, _Znam, _ZdlPv, _ZdaPv and their variants.
bool is_operator(std::string_view name) {
  return name.starts_with("_Znw") || name.starts_with("_Zna") || name.starts_with("_Zdl") ||
         name.starts_with("_Zda");
}

bool is_named(const std::string& path, std::string_view name) {
  return std::filesystem::path(path).filename().string().starts_with(name);
}
bool is_libc(const std::string& path) {
  return is_named(path, "libc.so") || is_named(path, "libc-2") || is_named(path, "ld-musl") ||
         is_named(path, "libc.musl");
}
bool is_cpp_library(const std::string& path) {
  return is_named(path, "libstdc++.so") || is_named(path, "libc++.so") || is_named(path, "libc++abi.so");
}

// Another process names the file, so it may be a pipe or a device; only a regular file is opened.
int open_library(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat status = {};
  if (file >= 0 && (fstat(file, &status) != 0 || !S_ISREG(status.st_mode))) {
    close(file);
    return -1;
  }
  return file;
}

std::vector<exported_function> exports_of(Elf* elf) {
  std::vector<exported_function> functions;
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr;
       section = elf_nextscn(elf, section)) {
    GElf_Shdr header = {};
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_DYNSYM || header.sh_entsize == 0)
      continue;
    Elf_Data* data = elf_getdata(section, nullptr);
    if (data == nullptr) continue;
    const auto count = static_cast<int>(std::min<std::uint64_t>(data->d_size / header.sh_entsize, 1U << 20));
    for (int index = 0; index < count; ++index) {
      GElf_Sym symbol = {};
      if (gelf_getsym(data, index, &symbol) == nullptr || symbol.st_shndx == SHN_UNDEF) continue;
      const unsigned type = GELF_ST_TYPE(symbol.st_info);
      if (type != STT_FUNC && type != STT_GNU_IFUNC) continue;
      const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (name != nullptr) functions.push_back({symbol.st_value, symbol.st_size, name});
    }
  }
  return functions;
}

}  // namespace

std::vector<code_range> malloc_ranges(std::vector<exported_function> functions) {
  std::sort(
      functions.begin(), functions.end(),
      [](const exported_function& left, const exported_function& right) { return left.start < right.start; });
  std::vector<code_range> ranges;
  // Several names may share an address; `before` is the highest end of all functions that begin before this one.
  std::uint64_t before = 0;
  for (std::size_t index = 0; index < functions.size();) {
    const std::uint64_t start = functions[index].start;
    std::uint64_t end = start;
    bool wanted = false;
    for (; index < functions.size() && functions[index].start == start; ++index) {
      end = std::max(end, start + functions[index].size);
      wanted = wanted || is_mallocs(functions[index].name);
    }
    const std::uint64_t next = index < functions.size() ? functions[index].start : end;
    if (wanted) {
      const std::uint64_t from = start > before && start - before <= most_between ? before : start;
      const std::uint64_t to = next > end && next - end <= most_between ? next : end;
      if (!ranges.empty() && ranges.back().end >= from) {
        ranges.back().end = to;
      } else {
        ranges.push_back({from, to});
      }
    }
    before = std::max(before, end);
  }
  return ranges;
}

std::vector<code_range> operator_ranges(const std::vector<exported_function>& functions) {
  std::vector<code_range> ranges;
  for (const exported_function& each : functions) {
    if (is_operator(each.name)) ranges.push_back({each.start, each.start + each.size});
  }
  return ranges;
}

struct malloc_code_reader::mapped_file {
  code_range range;
  std::uint64_t offset = 0;
  std::string path;
};

std::optional<malloc_code_reader::file_code> malloc_code_reader::read_file(int file) {
  elf_version(EV_CURRENT);
  Elf* elf = elf_begin(file, ELF_C_READ_MMAP, nullptr);
  if (elf == nullptr) return std::nullopt;
  file_code code;
  std::size_t parts = 0;
  if (elf_kind(elf) == ELF_K_ELF && elf_getphdrnum(elf, &parts) == 0) {
    for (std::size_t index = 0; index < parts; ++index) {
      GElf_Phdr part = {};
      if (gelf_getphdr(elf, static_cast<int>(index), &part) == nullptr) continue;
      if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
      code.segments.push_back({page_floor(part.p_offset), part.p_offset + part.p_filesz});
      code.addresses.push_back(page_floor(part.p_vaddr));
    }
    code.functions = exports_of(elf);
  }
  elf_end(elf);
  if (code.segments.empty()) return std::nullopt;
  return code;
}

// Looks below the process's own root directory first, as it may differ from ours (container, chroot).
const malloc_code_reader::file_code* malloc_code_reader::code_of(std::uint32_t process,
                                                                 const std::string& path) {
  int file = open_library("/proc/" + std::to_string(process) + "/root" + path);
  if (file < 0) file = open_library(path);
  if (file < 0) return nullptr;
  struct stat status = {};
  fstat(file, &status);
  if (known_.size() >= most_known_files) known_.clear();
  const auto [known, is_new] = known_.try_emplace({status.st_dev, status.st_ino});
  if (is_new) known->second = read_file(file);
  close(file);
  return known->second ? &*known->second : nullptr;
}

void malloc_code_reader::add_library(const mapped_file& mapped, std::uint32_t process, bool has_allocator,
                                     malloc_code& code) {
  const bool libc = is_libc(mapped.path);
  const bool whole = !libc && has_allocator;
  if (libc) code.set_libc(mapped.range);
  if (whole) return code.add(mapped.range);
  if (!libc && !is_cpp_library(mapped.path)) return;
  const file_code* file = code_of(process, mapped.path);
  if (file == nullptr) return;
  for (std::size_t index = 0; index < file->segments.size(); ++index) {
    if (!file->segments[index].holds(mapped.offset)) continue;
    const std::uint64_t address = file->addresses[index] + (mapped.offset - file->segments[index].start);
    const std::vector<code_range> ranges =
        libc ? malloc_ranges(file->functions) : operator_ranges(file->functions);
    for (const code_range& range : ranges) {
      code.add({range.start - address + mapped.range.start, range.end - address + mapped.range.start});
    }
  }
}

malloc_code malloc_code_reader::read(std::uint32_t process, const code_range& allocator) {
  malloc_code code;
  const std::string place = "/proc/" + std::to_string(process);
  std::error_code error;
  const std::string program = std::filesystem::read_symlink(place + "/exe", error).string();
  std::ifstream maps(place + "/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    mapped_file mapped;
    std::string rights;
    std::string device;
    std::string file;
    char dash = 0;
    words >> std::hex >> mapped.range.start >> dash >> mapped.range.end >> rights >> mapped.offset >>
        device >> file >> std::ws;
    std::getline(words, mapped.path);
    if (rights.find('x') == std::string::npos || !mapped.path.starts_with('/')) continue;
    const bool has_malloc = mapped.range.overlaps(allocator) && !is_libc(mapped.path);
    if (has_malloc && (mapped.path == program || mapped.range.end - mapped.range.start > most_allocator)) {
      malloc_code unknown;
      unknown.set_inseparable();
      return unknown;
    }
    add_library(mapped, process, mapped.range.overlaps(allocator), code);
  }
  // Malloc's file was deleted, as by an update, or this user may not read it.
  return code.has_code_in(allocator) ? code : malloc_code{};
}

}  // namespace tarn::profiler
