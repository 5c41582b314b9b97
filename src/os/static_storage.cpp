// SPDX-License-Identifier: MIT
#include "os/static_storage.hpp"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

namespace tarn::os {

bool is_in_static_storage(const void* address) {
  return dl_iterate_phdr(
             [](dl_phdr_info* module, std::size_t /*size*/, void* wanted) {
               for (std::size_t i = 0; i < module->dlpi_phnum; ++i) {
                 const ElfW(Phdr)& segment = module->dlpi_phdr[i];
                 const auto offset =
                     reinterpret_cast<std::uintptr_t>(wanted) - (module->dlpi_addr + segment.p_vaddr);
                 if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) != 0 && offset < segment.p_memsz)
                   return 1;
               }
               return 0;
             },
             const_cast<void*>(address)) != 0;
}

}  // namespace tarn::os
