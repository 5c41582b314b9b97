// SPDX-License-Identifier: MIT
// elf_module: one ELF file on disk that a program had loaded: converts file offsets to addresses, finds functions
// by the symbol table, and gives access to the DWARF information in the file or beside it. Not thread-safe; but
// different modules may be used by different threads.
#pragma once

#include <elfutils/libdw.h>
#include <gelf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/analyze/debug_files.hpp"
#include "profiler/analyze/opened_elf.hpp"

namespace tarn::profiler {

class elf_module {
 public:
  // Null if the file cannot be used; `problem` then says why in a few words. `build_id` is that of the file that
  // ran; empty: not known. `debug` says where debugging information may lie, and outlives the module.
  static std::unique_ptr<elf_module> open(const std::string& path, std::string_view build_id,
                                          debug_files& debug, std::string& problem);
  ~elf_module();
  elf_module(const elf_module&) = delete;
  elf_module& operator=(const elf_module&) = delete;

  // The link-time address of a file offset.
  std::optional<std::uint64_t> address_at(std::uint64_t file_offset) const;
  // The function that contains the address; null: none.
  const elf_symbol* function_at(std::uint64_t address);
  // The function that begins at the address; null: none.
  const elf_symbol* function_from(std::uint64_t address);
  // Up to `count` bytes of code from `address` on.
  std::vector<std::uint8_t> code_at(std::uint64_t address, std::size_t count) const;
  unsigned machine() const noexcept { return machine_; }

  // Null where there is none.
  Dwarf* debug_information();

 private:
  struct segment {
    std::uint64_t offset, size, address;
  };

  elf_module(std::string path, std::unique_ptr<opened_elf> file, debug_files& debug);
  void read_segments();
  void read_symbols();
  std::unique_ptr<opened_elf> find_debug_file();

  std::string path_;
  std::string build_id_;
  debug_files& debug_files_;
  std::unique_ptr<opened_elf> file_;
  std::unique_ptr<opened_elf> debug_file_;
  std::vector<segment> segments_;
  std::vector<elf_symbol> symbols_;  // by start
  bool symbols_read_ = false;
  bool debug_looked_for_ = false;
  Dwarf* debug_ = nullptr;
  unsigned machine_ = 0;
};

}  // namespace tarn::profiler
