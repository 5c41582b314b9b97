// SPDX-License-Identifier: MIT
#include "os/clock.hpp"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <cstddef>
#include <cstring>
#include <ctime>

#include "base/architecture.hpp"
#include "os/sealed.hpp"
#include "os/syscall.hpp"

namespace tarn::os {
namespace {

using clock_function = int (*)(clockid_t, timespec*);

constinit sealed<clock_function> vdso_clock;

// The vDSO, the kernel's library in each process: one loaded segment.
struct vdso_image {
  const char* base;           // the address that corresponds to 0 in the image
  const ElfW(Sym) * symbols;  // up to `names`: the vDSO's linker script puts the names after the symbols
  const char* names;
  std::size_t names_bytes;
};

// False: the image has no symbol table.
bool read_dynamic(const ElfW(Dyn) * entry, vdso_image& image) {
  for (; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB)
      image.symbols = reinterpret_cast<const ElfW(Sym)*>(image.base + entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) image.names = image.base + entry->d_un.d_ptr;
    if (entry->d_tag == DT_STRSZ) image.names_bytes = entry->d_un.d_val;
  }
  return image.symbols != nullptr && image.names > reinterpret_cast<const char*>(image.symbols);
}

bool read_image(const char* start, vdso_image& image) {
  const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(start);
  const auto* segment = reinterpret_cast<const ElfW(Phdr)*>(start + header->e_phoff);
  const ElfW(Dyn)* dynamic = nullptr;
  for (unsigned i = 0; i < header->e_phnum; ++i, ++segment) {
    if (segment->p_type == PT_LOAD && image.base == nullptr)
      image.base = start + segment->p_offset - segment->p_vaddr;
    if (segment->p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(start + segment->p_offset);
  }
  return image.base != nullptr && dynamic != nullptr && read_dynamic(dynamic, image);
}

clock_function find_in_vdso() {
  const auto* const start = reinterpret_cast<const char*>(getauxval(AT_SYSINFO_EHDR));
  vdso_image image{};
  if (start == nullptr || !read_image(start, image)) return nullptr;
  for (const auto* s = image.symbols; reinterpret_cast<const char*>(s + 1) <= image.names; ++s) {
    if (s->st_shndx == SHN_UNDEF || s->st_name >= image.names_bytes) continue;
    if (std::strcmp(image.names + s->st_name, arch::vdso_clock) != 0) continue;
    return reinterpret_cast<clock_function>(const_cast<char*>(image.base + s->st_value));
  }
  return nullptr;
}

[[gnu::constructor(101)]] void at_load() { vdso_clock.seal(find_in_vdso()); }

timespec read(clockid_t clock) {
  timespec now{};
  const clock_function quick = *vdso_clock;
  if (quick == nullptr || quick(clock, &now) != 0) system_call(SYS_clock_gettime, clock, &now);
  return now;
}

}  // namespace

std::int64_t now_ms() {
  const timespec now = read(CLOCK_MONOTONIC_COARSE);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

std::int64_t now_us() { return now_ns() / 1000; }

std::int64_t now_ns() {
  const timespec now = read(has_counter() ? CLOCK_MONOTONIC : CLOCK_MONOTONIC_COARSE);
  return static_cast<std::int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

std::int64_t thread_us() {
  timespec now{};
  system_call(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000000 + now.tv_nsec / 1000;
}

}  // namespace tarn::os
