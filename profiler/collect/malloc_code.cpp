// SPDX-License-Identifier: MIT
#include "profiler/collect/malloc_code.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "profiler/proc/malloc_functions.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::profiler {

namespace {

constexpr std::string_view further_functions =
    " cfree reallocarray free_sized free_aligned_sized __default_morecore malloc_get_state malloc_set_state ";

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
  return is_listed(malloc_functions, name) || is_listed(further_functions, name);
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

}  // namespace

std::vector<code_range> malloc_ranges(std::vector<elf_symbol> functions) {
  std::sort(functions.begin(), functions.end(),
            [](const elf_symbol& left, const elf_symbol& right) { return left.start < right.start; });
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

std::vector<code_range> operator_ranges(const std::vector<elf_symbol>& functions) {
  std::vector<code_range> ranges;
  for (const elf_symbol& each : functions) {
    if (is_operator(each.name)) ranges.push_back({each.start, each.start + each.size});
  }
  return ranges;
}

malloc_code_reader::file_code malloc_code_reader::code_in(const opened_elf& file) {
  file_code code;
  for (const GElf_Phdr& part : file.segments(PT_LOAD)) {
    if ((part.p_flags & PF_X) == 0) continue;
    code.segments.push_back({page_floor(part.p_offset), part.p_offset + part.p_filesz});
    code.addresses.push_back(page_floor(part.p_vaddr));
  }
  const std::vector<elf_symbol> functions = file.functions(SHT_DYNSYM);
  code.mallocs = malloc_ranges(functions);
  code.operators = operator_ranges(functions);
  return code;
}

// Looks below the process's own root directory first, as it may differ from ours (container, chroot).
const malloc_code_reader::file_code* malloc_code_reader::code_of(std::uint32_t process,
                                                                 const std::string& path) {
  auto file = opened_elf::at("/proc/" + std::to_string(process) + "/root" + path);
  if (!file) file = opened_elf::at(path);
  if (!file) return nullptr;
  struct stat status = {};
  fstat(file->file, &status);
  if (known_.size() >= most_known_files) known_.clear();
  const auto [known, is_new] = known_.try_emplace({status.st_dev, status.st_ino});
  if (is_new) known->second = code_in(*file);
  return &known->second;
}

void malloc_code_reader::add_library(const mapping& mapped, std::uint32_t process, bool has_allocator,
                                     malloc_code& code) {
  const bool libc = is_libc(mapped.name);
  const bool whole = !libc && has_allocator;
  if (libc) code.set_libc({mapped.start, mapped.end});
  if (whole) return code.add({mapped.start, mapped.end});
  if (!libc && !is_cpp_library(mapped.name)) return;
  const file_code* file = code_of(process, mapped.name);
  if (file == nullptr) return;
  for (std::size_t index = 0; index < file->segments.size(); ++index) {
    if (!file->segments[index].holds(mapped.offset)) continue;
    const std::uint64_t address = file->addresses[index] + (mapped.offset - file->segments[index].start);
    for (const code_range& range : libc ? file->mallocs : file->operators)
      code.add({range.start - address + mapped.start, range.end - address + mapped.start});
  }
}

malloc_code malloc_code_reader::read(std::uint32_t process, const code_range& allocator) {
  malloc_code code;
  std::error_code error;
  const std::string program =
      std::filesystem::read_symlink("/proc/" + std::to_string(process) + "/exe", error).string();
  for (const mapping& mapped : parse_mappings(proc_text(process, "maps"))) {
    if (!mapped.executable || !mapped.is_file()) continue;
    const bool has_allocator = allocator.overlaps({mapped.start, mapped.end});
    const bool is_too_much = mapped.name == program || mapped.end - mapped.start > most_allocator;
    if (has_allocator && !is_libc(mapped.name) && is_too_much) {
      malloc_code unknown;
      unknown.set_inseparable();
      return unknown;
    }
    add_library(mapped, process, has_allocator, code);
  }
  // Malloc's file was deleted, as by an update, or this user may not read it.
  return code.has_code_in(allocator) ? code : malloc_code{};
}

}  // namespace tarn::profiler
