// SPDX-License-Identifier: MIT
// A library to preload before an allocator: it tells that the system's pages have PAGE_KIB KiB, as those of some kernels for
// aarch64 have. Memory that is then given to the system in units of that size is given back in such units, too.
#include <dlfcn.h>
#include <sys/auxv.h>

extern "C" unsigned long getauxval(unsigned long type) noexcept {
  static const auto real = reinterpret_cast<unsigned long (*)(unsigned long)>(dlsym(RTLD_NEXT, "getauxval"));
  const unsigned long value = real(type);
  constexpr unsigned long told = PAGE_KIB * 1024UL;
  return type == AT_PAGESZ && value < told ? told : value;
}
