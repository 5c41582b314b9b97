// SPDX-License-Identifier: MIT
// opened_elf: an ELF file that libelf reads, its build-id, segments and functions. The path comes from a recorded
// process and may name anything; the file may contain any bytes. Any thread, but each object for one.
#pragma once

#include <elfutils/libdwelf.h>
#include <gelf.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/format/build_id.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

struct elf_symbol {
  std::uint64_t start = 0;
  std::uint64_t size = 0;
  const char* name = "";  // lives as long as the opened_elf
};

struct opened_elf {
  int file = -1;
  Elf* elf = nullptr;

  opened_elf() = default;
  ~opened_elf();
  opened_elf(const opened_elf&) = delete;
  opened_elf& operator=(const opened_elf&) = delete;

  // Null, with errno: it is no regular file that can be read, or no ELF file.
  static std::unique_ptr<opened_elf> at(const std::string& path);
  // The segments of this type, of which there are a thousand at most.
  std::vector<GElf_Phdr> segments(unsigned type) const;
  // The functions that a symbol table of this type (SHT_SYMTAB, SHT_DYNSYM) defines, in its order.
  std::vector<elf_symbol> functions(unsigned section_type) const;
  // Lower-case hexadecimal; empty: there is none, or it is longer than linkers make them.
  std::string build_id() const;
};

struct loaded_elf {
  std::string path;
  std::string build_id;    // of what is in memory, as opened_elf::build_id has it; empty: not known
  std::uint64_t base = 0;  // run-time address minus address in the headers
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};
// The executable segments of what was loaded. If the file cannot be read, or is another one now: one part, [start, end).
std::vector<module_info> modules_of(const loaded_elf& loaded);
std::string build_id_of(const std::string& path);  // empty also if the file cannot be read

}  // namespace tarn::profiler
