// SPDX-License-Identifier: MIT
// elf_file: how the dynamic loader will see a file: architecture, interpreter, and whether it defines a given
// dynamic symbol (by libelf). Headers are read through bounds-checked views, so a damaged or hostile file gives
// "damaged", never a crash. Not thread-safe; maps the file read-only for its lifetime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tarn::cli {

enum class file_kind { empty, script, elf, damaged_elf, other };

struct elf_summary {
  file_kind kind = file_kind::other;
  std::string problem;      // for damaged_elf: what is wrong
  std::string script_line;  // for script: what follows "#!", as the kernel would see it
  unsigned bits = 0;        // 32 or 64
  bool big_endian = false;
  std::uint16_t type = 0;     // ET_EXEC, ET_DYN …
  std::uint16_t machine = 0;  // EM_X86_64 …
  std::string interpreter;    // PT_INTERP; empty for static programs and most libraries
  bool has_dynamic = false;   // PT_DYNAMIC present
};

// `image` is the whole file.
elf_summary summarize_file(std::span<const std::byte> image);
// Whether `symbol` is among the file's dynamic symbols and defined. False for anything but a valid native 64-bit ELF
// file with section headers.
bool defines_symbol(std::span<const std::byte> image, std::string_view symbol);

std::string machine_name(std::uint16_t machine, unsigned bits, bool big_endian);
// The architecture this command was built for.
bool is_native(const elf_summary& summary);

// Read-only mapping of a file; data() is empty when the file is.
class mapped_file {
 public:
  // Throws std::system_error when the file cannot be opened or mapped.
  explicit mapped_file(const std::string& path);
  ~mapped_file();
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;

  std::span<const std::byte> data() const noexcept { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tarn::cli
