// SPDX-License-Identifier: MIT
// real_functions: finds the program's own malloc family and where its code lies; and the small early store that
// serves until they are known. Thread safety: any thread; the first one to look them up does so alone.
#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <link.h>

#include <cstring>

#include "profiler/record/exported_symbol.hpp"
#include "profiler/record/real_functions.hpp"
#include "profiler/record/recorder.hpp"
#include "profiler/record/recorder_state.hpp"

namespace tarn::profiler::recorder {

constinit real_functions real = {};

namespace {

// ---- the program's functions ----

std::uintptr_t allocator_start = 0;
std::uintptr_t allocator_end = 0;
std::uintptr_t new_start = 0;
std::uintptr_t new_end = 0;
std::uintptr_t own_start = 0;  // the recorder's
std::uintptr_t own_end = 0;
std::atomic<std::uint32_t> functions_found{0};  // 0 no, 1 lookup in progress, 2 yes

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
// program needs, such as libc. Libraries loaded later come after them. So the recorder was preloaded if it comes
// before libc.
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

template <class function>
void look_up(function& into, const char* name) {
  into = reinterpret_cast<function>(find_next(name));
}

// ---- the early store ----

std::atomic<std::size_t> early_used{0};

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

bool find_real_functions() {
  // acquire: partner of the release below: `real` is filled
  if (functions_found.load(std::memory_order_acquire) == 2) return true;
  // dlsym may itself allocate: until the functions are known, the early store serves this thread and all others.
  if (functions_found.exchange(1, std::memory_order_acquire) != 0) return false;
  const std::uint8_t before = self.busy;
  self.busy = calling;
  const int error = errno;
  real_functions found;
  look_up(found.malloc, "malloc");
  look_up(found.calloc, "calloc");
  look_up(found.realloc, "realloc");
  look_up(found.reallocarray, "reallocarray");
  look_up(found.free, "free");
  look_up(found.free_sized, "free_sized");
  look_up(found.free_aligned_sized, "free_aligned_sized");
  look_up(found.posix_memalign, "posix_memalign");
  look_up(found.aligned_alloc, "aligned_alloc");
  look_up(found.memalign, "memalign");
  look_up(found.valloc, "valloc");
  look_up(found.pvalloc, "pvalloc");
  look_up(found.malloc_usable_size, "malloc_usable_size");
  look_up(found.prctl, "prctl");
  look_up(found.syscall, "syscall");
  look_up(found.pthread_setname_np, "pthread_setname_np");
  look_up(found.dlclose, "dlclose");
  look_up(found.mmap, "mmap");
  look_up(found.mmap64, "mmap64");
  look_up(found.munmap, "munmap");
  look_up(found.mremap, "mremap");
  look_up(found.exit_now, "_exit");
  look_up(found.c_exit_now, "_Exit");
  real = found;
  loaded_module module;
  if (find_module(reinterpret_cast<std::uintptr_t>(real.malloc), module)) {
    allocator_start = module.start;
    allocator_end = module.end;
  }
  functions_found.store(2, std::memory_order_release);
  errno = error;
  self.busy = before;
  return true;
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

void set_new_module(std::uintptr_t address_within) {
  loaded_module module;
  if (!find_module(address_within, module)) return;
  new_start = module.start;
  new_end = module.end;
}

bool is_inner_call(std::uintptr_t return_address, bool consume) {
  if (self.in_new == 0) return false;
  // operator new[] may end in a jump to operator new, which then returns to the recorder itself.
  if (!is_recorders(return_address) && (return_address < new_start || return_address >= new_end))
    return false;
  if (consume) self.in_new = 0;
  return true;
}

alignas(64) constinit unsigned char early_store[early_bytes] = {};

void* early_allocate(std::size_t size, std::size_t alignment) {
  if (alignment < 16) alignment = 16;
  if (size > early_bytes || alignment > early_bytes) return nullptr;
  std::size_t used = early_used.load(std::memory_order_relaxed);
  for (;;) {
    // The size is stored in the 8 bytes before the block.
    const auto base = reinterpret_cast<std::uintptr_t>(early_store);
    const std::size_t start = ((base + used + 16 + alignment - 1) & ~(alignment - 1)) - base;
    if (start + size > early_bytes) return nullptr;
    // relaxed: the store's memory is zero from the start, and each block has one owner
    if (!early_used.compare_exchange_weak(used, start + size, std::memory_order_relaxed)) continue;
    std::memcpy(early_store + start - 8, &size, sizeof size);
    return early_store + start;
  }
}

std::size_t early_size(const void* block) {
  std::size_t size = 0;
  std::memcpy(&size, static_cast<const unsigned char*>(block) - 8, sizeof size);
  return size;
}

bool is_allocators(const call_origin& origin) {
  return origin.return_address >= allocator_start && origin.return_address < allocator_end;
}

}  // namespace tarn::profiler::recorder
