// SPDX-License-Identifier: MIT
#include "profiler/record/exported_symbol.hpp"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstring>

namespace tarn::profiler {

namespace {

struct symbol_table {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const std::uint32_t* hash = nullptr;      // of GNU's kind
  const std::uint32_t* old_hash = nullptr;  // of System V's
};

symbol_table table_of(const link_map& module) {
  symbol_table table;
  // glibc has turned these into addresses, except in modules whose dynamic section is read-only (the vDSO).
  const auto address = [&module](const ElfW(Dyn) & entry) {
    return entry.d_un.d_ptr < module.l_addr ? module.l_addr + entry.d_un.d_ptr : entry.d_un.d_ptr;
  };
  for (const ElfW(Dyn)* entry = module.l_ld; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB) table.symbols = reinterpret_cast<const ElfW(Sym)*>(address(*entry));
    if (entry->d_tag == DT_STRTAB) table.names = reinterpret_cast<const char*>(address(*entry));
    if (entry->d_tag == DT_GNU_HASH) table.hash = reinterpret_cast<const std::uint32_t*>(address(*entry));
    if (entry->d_tag == DT_HASH) table.old_hash = reinterpret_cast<const std::uint32_t*>(address(*entry));
  }
  return table;
}

std::uint32_t gnu_hash(const char* name) {
  std::uint32_t hash = 5381;
  for (; *name != 0; ++name) hash = 33 * hash + static_cast<unsigned char>(*name);
  return hash;
}

bool is_definition(const symbol_table& table, std::uint32_t index, const char* name) {
  const ElfW(Sym)& symbol = table.symbols[index];
  return symbol.st_shndx != SHN_UNDEF && std::strcmp(table.names + symbol.st_name, name) == 0;
}

// The symbol's index; 0: there is none.
std::uint32_t find_in_old_hash(const symbol_table& table, const char* name) {
  const std::uint32_t count = table.old_hash[1];
  for (std::uint32_t index = 1; index < count; ++index) {
    if (is_definition(table, index, name)) return index;
  }
  return 0;
}

std::uint32_t find_in_hash(const symbol_table& table, const char* name) {
  const std::uint32_t buckets = table.hash[0];
  const std::uint32_t first = table.hash[1];
  const std::uint32_t* const bucket = table.hash + 4 + std::size_t{table.hash[2]} * (sizeof(ElfW(Addr)) / 4);
  if (buckets == 0) return 0;
  const std::uint32_t hash = gnu_hash(name);
  std::uint32_t index = bucket[hash % buckets];
  if (index < first) return 0;
  const std::uint32_t* const chain = bucket + buckets;
  for (;; ++index) {
    const std::uint32_t here = chain[index - first];
    if ((here | 1) == (hash | 1) && is_definition(table, index, name)) return index;
    if ((here & 1) != 0) return 0;
  }
}

}  // namespace

std::uintptr_t exported_symbol(const link_map& module, const char* name) {
  const symbol_table table = table_of(module);
  if (table.symbols == nullptr || table.names == nullptr) return 0;
  std::uint32_t index = 0;
  if (table.hash != nullptr) {
    index = find_in_hash(table, name);
  } else if (table.old_hash != nullptr) {
    index = find_in_old_hash(table, name);
  }
  return index != 0 ? module.l_addr + table.symbols[index].st_value : 0;
}

}  // namespace tarn::profiler
