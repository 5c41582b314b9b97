// SPDX-License-Identifier: MIT
#include "profiler/attach/remote_module.hpp"

#include <elf.h>
#include <link.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>

#include "profiler/proc/proc_status.hpp"
#include "profiler/proc/process_maps.hpp"

namespace tarn::profiler {

namespace {

constexpr std::size_t most_symbols = 1 << 20;
constexpr std::size_t most_string_bytes = std::size_t{64} << 20;
constexpr std::size_t most_buckets = 1 << 20;

template <class type>
std::optional<type> read_one(pid_t process, std::uint64_t address) {
  type value;
  if (read_memory(process, address, &value, sizeof value) != sizeof value) return std::nullopt;
  return value;
}

template <class type>
std::vector<type> read_some(pid_t process, std::uint64_t address, std::size_t count) {
  std::vector<type> values(count);
  values.resize(read_memory(process, address, values.data(), count * sizeof(type)) / sizeof(type));
  return values;
}

struct tables {
  std::uint64_t symbols = 0;
  std::uint64_t strings = 0;
  std::uint64_t string_bytes = 0;
  std::uint64_t hash = 0;
  std::uint64_t old_hash = 0;
  std::uint64_t name = 0;  // offsets of names in the strings
  std::vector<std::uint64_t> needed;
};

class module_reader {
 public:
  module_reader(pid_t process, std::uint64_t start, std::uint64_t end)
      : process_(process), start_(start), end_(end) {}

  void read_into(remote_module& module) {
    const auto header = read_one<ElfW(Ehdr)>(process_, start_);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return;
    if (header->e_phnum > 256 || header->e_phentsize != sizeof(ElfW(Phdr))) return;
    const auto parts = read_some<ElfW(Phdr)>(process_, start_ + header->e_phoff, header->e_phnum);
    std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max();
    for (const ElfW(Phdr) & part : parts) {
      if (part.p_type == PT_LOAD) lowest = std::min<std::uint64_t>(lowest, part.p_vaddr);
    }
    module.is_program = header->e_type == ET_EXEC;
    base_ = start_ - (lowest & ~std::uint64_t{4095});
    for (const ElfW(Phdr) & part : parts) {
      if (part.p_type == PT_DYNAMIC)
        return read(tables_at(base_ + part.p_vaddr, part.p_memsz, module), module);
    }
  }

 private:
  // The loader turns most entries into absolute addresses, and leaves some as in the file, relative to the base.
  [[nodiscard]] std::uint64_t absolute(std::uint64_t value) const {
    return value >= start_ && value < end_ ? value : base_ + value;
  }

  tables tables_at(std::uint64_t dynamic, std::uint64_t bytes, remote_module& module) {
    tables found;
    for (const ElfW(Dyn) & entry :
         read_some<ElfW(Dyn)>(process_, dynamic, std::min<std::uint64_t>(bytes / sizeof(ElfW(Dyn)), 1024))) {
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE) != 0) module.is_program = true;
      if (entry.d_tag == DT_SYMTAB) found.symbols = absolute(entry.d_un.d_ptr);
      if (entry.d_tag == DT_STRTAB) found.strings = absolute(entry.d_un.d_ptr);
      if (entry.d_tag == DT_STRSZ) found.string_bytes = entry.d_un.d_val;
      if (entry.d_tag == DT_GNU_HASH) found.hash = absolute(entry.d_un.d_ptr);
      if (entry.d_tag == DT_HASH) found.old_hash = absolute(entry.d_un.d_ptr);
      if (entry.d_tag == DT_SONAME) found.name = entry.d_un.d_val;
      if (entry.d_tag == DT_NEEDED) found.needed.push_back(entry.d_un.d_val);
    }
    return found;
  }

  // The number of symbols, which only a hash table reveals. One of the two is there, or the linker finds no symbol.
  std::size_t symbol_count(const tables& from) {
    const std::uint64_t hash = from.hash;
    if (hash == 0 && from.old_hash == 0) return 0;
    if (hash == 0) {  // the number of buckets, and that of symbols
      const auto count = read_one<std::uint32_t>(process_, from.old_hash + 4);
      return std::min<std::size_t>(count.value_or(0), most_symbols);
    }
    const auto head = read_some<std::uint32_t>(process_, hash, 4);
    if (head.size() != 4 || head[0] > most_buckets || head[2] > most_buckets) return 0;
    const std::uint64_t buckets_at = hash + 16 + std::uint64_t{head[2]} * 8;
    std::uint32_t last = 0;
    for (const std::uint32_t first : read_some<std::uint32_t>(process_, buckets_at, head[0]))
      last = std::max(last, first);
    if (last < head[1]) return head[1];
    while (last < most_symbols) {
      const auto link =
          read_one<std::uint32_t>(process_, buckets_at + 4 * (std::uint64_t{head[0]} + last - head[1]));
      if (!link || (*link & 1) != 0) break;
      ++last;
    }
    return last + std::size_t{1};
  }

  void read(const tables& from, remote_module& module) {
    if (from.symbols == 0 || from.strings == 0) return;
    const auto names =
        read_some<char>(process_, from.strings, std::min(from.string_bytes, most_string_bytes));
    const auto name_at = [&names](std::uint64_t offset) {
      if (offset >= names.size()) return std::string_view();
      return std::string_view(names.data() + offset, strnlen(names.data() + offset, names.size() - offset));
    };
    if (from.name != 0) module.name = name_at(from.name);
    for (const std::uint64_t place : from.needed) module.needed.emplace_back(name_at(place));
    for (const ElfW(Sym) & symbol : read_some<ElfW(Sym)>(process_, from.symbols, symbol_count(from))) {
      const auto type = ELF64_ST_TYPE(symbol.st_info);
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names.size()) continue;
      const std::string_view name = name_at(symbol.st_name);
      // A function written in assembly may have no type.
      const bool is_function = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
      if (!is_function && (type != STT_OBJECT || name != rtld_global)) continue;
      module.functions.push_back({std::string(name), base_ + symbol.st_value, symbol.st_size});
    }
  }

  pid_t process_;
  std::uint64_t start_;
  std::uint64_t end_;
  std::uint64_t base_ = 0;
};

}  // namespace

std::uint64_t remote_module::address_of(std::string_view function) const {
  for (const remote_symbol& one : functions) {
    if (one.name == function) return one.address;
  }
  return 0;
}

std::size_t read_memory(pid_t process, std::uint64_t address, void* into, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    iovec here = {static_cast<char*>(into) + done, bytes - done};
    iovec there = {reinterpret_cast<void*>(address + done), bytes - done};
    const ssize_t got = process_vm_readv(process, &here, 1, &there, 1, 0);
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

bool write_memory(pid_t process, std::uint64_t address, const void* from, std::size_t bytes) {
  iovec here = {const_cast<void*>(from), bytes};
  iovec there = {reinterpret_cast<void*>(address), bytes};
  return process_vm_writev(process, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
}

std::vector<remote_module> modules_of_process(pid_t process) {
  std::vector<remote_module> found;
  for (const mapping& line : parse_mappings(proc_text(static_cast<std::uint32_t>(process), "maps"))) {
    if (!line.is_file()) continue;
    if (line.offset == 0 &&
        (found.empty() || found.back().path != line.name || line.start > found.back().end + (1U << 30))) {
      remote_module& added = found.emplace_back();
      added.path = line.name;
      added.start = line.start;
      added.end = line.end;
    } else if (!found.empty() && found.back().path == line.name) {
      found.back().end = line.end;
    }
  }
  for (remote_module& one : found) {
    one.name = std::filesystem::path(one.path).filename().string();
    module_reader(process, one.start, one.end).read_into(one);
  }
  return found;
}

std::vector<executable_range> code_of_process(pid_t process, const remote_module& module) {
  std::vector<executable_range> found;
  for (const mapping& line : parse_mappings(proc_text(static_cast<std::uint32_t>(process), "maps"))) {
    if (line.executable && (module.contains(line.start) || line.name == "[vdso]"))
      found.push_back({line.start, line.end});
  }
  return found;
}

}  // namespace tarn::profiler
