// SPDX-License-Identifier: MIT
#include "os/own_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include "base/units.hpp"

// Defined in src/background/rights, and so in tarn's own shared libraries.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] const bool tarn_has_gates;

namespace tarn::os {
namespace {

bool contains(const dl_phdr_info& module, std::uintptr_t address) {
  for (unsigned i = 0; i < module.dlpi_phnum; ++i) {
    const auto& part = module.dlpi_phdr[i];
    if (part.p_type == PT_LOAD && address - (module.dlpi_addr + part.p_vaddr) < part.p_memsz) return true;
  }
  return false;
}

// The name of the library that contains this function; empty in a program.
int find_own(dl_phdr_info* module, std::size_t, void* name) {
  if (!contains(*module, address_of(reinterpret_cast<const void*>(&find_own)))) return 0;
  *static_cast<const char**>(name) = module->dlpi_name;
  return 1;
}

}  // namespace

void keep_own_library_loaded() {
  if (&tarn_has_gates != nullptr) return;
  const char* name = nullptr;
  dl_iterate_phdr(find_own, &name);
  if (name == nullptr || *name == '\0') return;
  // Not by name: the linker of a static program would warn of dlopen.
  using opener = void*(const char*, int);
  if (auto* const open = reinterpret_cast<opener*>(dlsym(RTLD_DEFAULT, "dlopen")))
    open(name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace tarn::os
