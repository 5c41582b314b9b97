// SPDX-License-Identifier: MIT
#include "samples/guarded/symbol.hpp"

#include <elf.h>
#include <link.h>

#include <cstddef>

namespace tarn {

namespace {

struct symbol_table {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  std::size_t count = 0;
};

// The number of symbols by a GNU hash table: one more than the largest index in its chains.
std::size_t count_of(const std::uint32_t* hash) {
  const std::uint32_t buckets = hash[0];
  const std::uint32_t first = hash[1];
  const std::uint32_t* const bucket = hash + 4 + std::size_t{hash[2]} * (sizeof(ElfW(Addr)) / 4);
  const std::uint32_t* const chain = bucket + buckets;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < buckets; ++i) last = bucket[i] > last ? bucket[i] : last;
  if (last < first) return first;
  while ((chain[last - first] & 1) == 0) ++last;
  return std::size_t{last} + 1;
}

bool find_table(const link_map& map, symbol_table& out) {
  // glibc has relocated these to addresses, except in modules with a read-only dynamic section (the vDSO).
  const auto address = [&map](const ElfW(Dyn) & entry) {
    return entry.d_un.d_ptr < map.l_addr ? map.l_addr + entry.d_un.d_ptr : entry.d_un.d_ptr;
  };
  for (const ElfW(Dyn)* entry = map.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB) out.symbols = reinterpret_cast<const ElfW(Sym)*>(address(*entry));
    if (entry->d_tag == DT_STRTAB) out.names = reinterpret_cast<const char*>(address(*entry));
    if (entry->d_tag == DT_HASH) out.count = reinterpret_cast<const std::uint32_t*>(address(*entry))[1];
    if (entry->d_tag == DT_GNU_HASH && out.count == 0) {
      out.count = count_of(reinterpret_cast<const std::uint32_t*>(address(*entry)));
    }
  }
  return out.symbols != nullptr && out.names != nullptr;
}

}  // namespace

bool find_symbol(const unwind::loaded_module& module, std::uintptr_t address, symbol& out) {
  symbol_table table;
  if (module.map == nullptr || !find_table(*module.map, table)) return false;
  for (std::size_t i = 0; i < table.count; ++i) {
    const ElfW(Sym)& one = table.symbols[i];
    const std::uintptr_t start = module.map->l_addr + one.st_value;
    if (ELF64_ST_TYPE(one.st_info) != STT_FUNC || one.st_shndx == SHN_UNDEF) continue;
    if (address < start || address - start >= one.st_size) continue;
    out = {table.names + one.st_name, start};
    return true;
  }
  return false;
}

}  // namespace tarn
