// SPDX-License-Identifier: MIT
// elf_file: how the dynamic loader will see a file: architecture, interpreter, and whether it defines a given
// dynamic symbol; and whether it has a malloc under another name. libelf reads the file, so a damaged or hostile one gives "damaged", never a crash. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tarn::cli {

enum class file_kind { empty, script, elf, damaged_elf, other };

struct elf_summary {
  file_kind kind = file_kind::other;
  std::string problem = {};      // for damaged_elf: what is wrong
  std::string script_line = {};  // for script: what follows "#!", as the kernel would see it
  int bits = 0;                  // 32 or 64
  bool big_endian = false;
  std::uint16_t type = 0;        // ET_EXEC, ET_DYN …
  std::uint16_t machine = 0;     // EM_X86_64 …
  std::string interpreter = {};  // PT_INTERP; empty for static programs and most libraries
  bool has_dynamic = false;      // PT_DYNAMIC present

  bool is_native() const;            // the architecture this command was built for
  std::string machine_name() const;  // "x86-64"
};

// Throws std::system_error when the file cannot be read, or is no regular file.
elf_summary summarize_file(const std::string& path);

// Whether the file contains these bytes. False if it cannot be read.
bool contains_bytes(const std::string& path, std::string_view bytes);

// Whether `symbol` is among the file's dynamic symbols and defined. False for anything but a valid native 64-bit ELF
// file with section headers.
bool defines_symbol(const std::string& path, std::string_view symbol);

// The function of an allocator that the program has beside malloc, as "mi_malloc" of a Rust program: it defines it, or takes it
// from a library. "": none is found, as in a program without symbol tables.
std::string prefixed_malloc_of(const std::string& program);

}  // namespace tarn::cli
