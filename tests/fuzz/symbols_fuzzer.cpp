// SPDX-License-Identifier: MIT
// libFuzzer over the code that finds the names of addresses. The input is the ELF file of a module in a profile; the
// known inputs have DWARF and a build-id, or a link to a file with debugging information. Most mutations change the
// content of one section and leave the section table intact, so that the code that reads sections is reached.
#include <elf.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "profiler/analyze/elf_module.hpp"
#include "profiler/analyze/symbols.hpp"
#include "profiler/model/profile.hpp"
#include "tests/profiler/mutate.hpp"
#include "tests/profiler/scratch_file.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tarn::profiler;
  static scratch_file file;
  file.set({data, size});
  std::string problem;
  symbol_settings settings;
  settings.ask_servers = false;
  debug_files debug(settings);
  if (const auto module = elf_module::open(file.path(), "", debug, problem)) {
    for (std::uint64_t offset = 0; offset < 0x4000; offset += 0x3f1) {
      if (const auto address = module->address_at(offset)) {
        module->function_at(*address);
        module->code_at(*address, 16);
      }
    }
  }
  profile p;
  constexpr std::uint64_t start = 0x10000;
  p.modules.push_back({file.path(), "", start, start + 0x8000, 0});
  p.stacks.emplace_back();
  for (std::uint64_t offset = 0x1000; offset < 0x1400; offset += 0x1d) {
    p.stacks.push_back({static_cast<std::uint32_t>(p.stacks.size() - 1), start + offset});
    p.sites.emplace_back();
    p.sites.back().stack = static_cast<std::uint32_t>(p.stacks.size() - 1);
    p.sites.back().figures.allocations = 1;
  }
  add_symbols(p);
  return 0;
}

// Mutates a section in place: its size stays.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  tarn::profiler::mutator random(seed + 1);
  Elf64_Ehdr header = {};
  if (size >= sizeof header) std::memcpy(&header, data, sizeof header);
  if (header.e_shnum == 0 || header.e_shoff > size || random.below(8) == 0)
    return LLVMFuzzerMutate(data, size, most);
  Elf64_Shdr section = {};
  const std::uint64_t at = header.e_shoff + random.below(header.e_shnum) * sizeof section;
  if (at > size || size - at < sizeof section) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(&section, data + at, sizeof section);
  const std::uint64_t offset = section.sh_offset;
  if (offset >= size) return LLVMFuzzerMutate(data, size, most);
  const std::size_t length = std::min<std::uint64_t>(section.sh_size, size - offset);
  if (length != 0) LLVMFuzzerMutate(data + offset, length, length);
  return size;
}
