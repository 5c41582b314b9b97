// SPDX-License-Identifier: MIT
#include "profiler/record/symbol_search.hpp"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>

#include <atomic>
#include <cstring>

#include "profiler/record/exported_symbol.hpp"
#include "unwind/frame_rule.hpp"

namespace tarn::profiler::recorder {

namespace {

using unwind::find_module;
using unwind::loaded_module;

std::uintptr_t own_start = 0;  // of this library
std::uintptr_t own_end = 0;

enum standing : std::uint8_t { unknown, preloaded, loaded_later };
std::atomic<standing> how_it_stands{unknown};

// A non-PIE executable that takes a function's address contains a PLT stub, which is then the function's address
// for everyone, dlsym included. Returns the real definition behind such a stub.
void* behind_stub(void* found, const char* name) {
  loaded_module holder;
  if (!find_module(reinterpret_cast<std::uintptr_t>(found), holder) || holder.map == nullptr) return found;
  if (exported_symbol(*holder.map, name) != 0) return found;
  const link_map* each = holder.map;
  while (each->l_prev != nullptr) each = each->l_prev;
  for (; each != nullptr; each = each->l_next) {
    const std::uintptr_t defined = exported_symbol(*each, name);
    if (defined != 0) return reinterpret_cast<void*>(defined);
  }
  return found;
}

// Libraries loaded at the program's start are listed in symbol search order: preloaded ones before those that the
// program needs, such as libc. Libraries loaded later come after them. So this library was preloaded if it
// comes before libc.
struct order {
  std::uintptr_t own;
  std::uintptr_t libc;
  standing found;
};

int look_at_module(dl_phdr_info* info, std::size_t, void* context) {
  auto& result = *static_cast<order*>(context);
  for (unsigned index = 0; index < info->dlpi_phnum; ++index) {
    const ElfW(Phdr)& part = info->dlpi_phdr[index];
    const std::uintptr_t start = info->dlpi_addr + part.p_vaddr;
    if (part.p_type != PT_LOAD) continue;
    if (result.own - start < part.p_memsz) result.found = preloaded;
    if (result.libc - start < part.p_memsz) result.found = loaded_later;
  }
  return result.found != unknown ? 1 : 0;
}

standing find_standing() {
  // Finds libc by a function whose address no program takes: see behind_stub.
  order result = {reinterpret_cast<std::uintptr_t>(&find_standing),
                  reinterpret_cast<std::uintptr_t>(&gnu_get_libc_version), unknown};
  loaded_module own;
  if (find_module(result.own, own)) {
    own_start = own.start;
    own_end = own.end;
  }
  dl_iterate_phdr(look_at_module, &result);
  return result.found == loaded_later ? loaded_later : preloaded;
}

}  // namespace

bool is_preloaded() {
  // relaxed: every thread finds the same
  standing known = how_it_stands.load(std::memory_order_relaxed);
  if (known == unknown) {
    known = find_standing();
    how_it_stands.store(known, std::memory_order_relaxed);
  }
  return known == preloaded;
}

// RTLD_NEXT works only from a library that is in the global search order.
void* find_next(const char* name) {
  void* found = is_preloaded() ? dlsym(RTLD_NEXT, name) : behind_stub(dlsym(RTLD_DEFAULT, name), name);
  if (is_recorders(reinterpret_cast<std::uintptr_t>(found))) found = nullptr;
  const bool is_operator = name[0] == '_' && name[1] == 'Z';
  if (found != nullptr || !is_operator) return found;
  static std::atomic<void*> standard_library{nullptr};
  // relaxed: two threads may both look it up, with the same result
  void* library = standard_library.load(std::memory_order_relaxed);
  if (library == nullptr) library = dlopen("libstdc++.so.6", RTLD_NOLOAD | RTLD_LAZY);
  standard_library.store(library, std::memory_order_relaxed);
  return library != nullptr ? dlsym(library, name) : nullptr;
}

std::uintptr_t find_first(const char* name) {
  return reinterpret_cast<std::uintptr_t>(behind_stub(dlsym(RTLD_DEFAULT, name), name));
}

bool is_recorders(std::uintptr_t address) { return address >= own_start && address < own_end; }

bool is_of_libstdcxx(std::uintptr_t address) {
  loaded_module module;
  if (!find_module(address, module) || module.path == nullptr) return false;
  const char* name = module.path;
  for (const char* at = name; *at != '\0'; ++at) {
    if (*at == '/') name = at + 1;
  }
  return std::strncmp(name, "libstdc++.so.", 13) == 0;
}

}  // namespace tarn::profiler::recorder
