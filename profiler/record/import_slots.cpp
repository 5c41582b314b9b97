// SPDX-License-Identifier: MIT
#include "profiler/record/import_slots.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/architecture.hpp"
#include "os/syscall.hpp"
#include "profiler/record/call_path.hpp"
#include "profiler/record/changed_slots.hpp"
#include "profiler/record/symbol_search.hpp"

// Data of dlopen's hook. dlopen searches libraries depending on its return address, so the hook must not change it:
// it counts the call and jumps to the real function. The increment is not atomic: a lost count does no harm, as the
// word changes all the same.
extern "C" {
[[gnu::visibility("hidden")]] void* tarn_real_dlopen = nullptr;
[[gnu::visibility("hidden")]] std::uint32_t tarn_dlopen_calls = 0;
[[gnu::visibility("hidden")]] void tarn_dlopen_hook();
}

#if defined(__x86_64__)
asm(R"(
  .text
  .hidden tarn_dlopen_hook
  .globl tarn_dlopen_hook
  .type tarn_dlopen_hook, @function
tarn_dlopen_hook:
  .cfi_startproc
  addl $1, tarn_dlopen_calls(%rip)
  jmp *tarn_real_dlopen(%rip)
  .cfi_endproc
  .size tarn_dlopen_hook, .-tarn_dlopen_hook
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .hidden tarn_dlopen_hook
  .globl tarn_dlopen_hook
  .type tarn_dlopen_hook, %function
tarn_dlopen_hook:
  .cfi_startproc
  adrp x16, tarn_dlopen_calls
  ldr w17, [x16, #:lo12:tarn_dlopen_calls]
  add w17, w17, #1
  str w17, [x16, #:lo12:tarn_dlopen_calls]
  adrp x16, tarn_real_dlopen
  ldr x16, [x16, #:lo12:tarn_real_dlopen]
  br x16
  .cfi_endproc
  .size tarn_dlopen_hook, .-tarn_dlopen_hook
)");
#endif

namespace tarn::profiler::recorder {

namespace {

using arch::slot_of_address;
using arch::slot_of_call;
using arch::word_of_address;

constexpr std::size_t most_hooks = 128;
constexpr std::size_t most_modules = 8192;

struct hook {
  const char* name;
  std::uintptr_t address;
  std::uintptr_t real;  // 0: the program has no such function
};

hook hooks[most_hooks];
std::size_t hook_count = 0;
std::uintptr_t lowest_real = 0;
std::uintptr_t highest_real = 0;
std::uintptr_t libc_module = 0;  // start address of libc
bool allocator_is_libcs = false;

constinit changed_slots changed;

// ---- a loaded module, as its dynamic section describes it ----

struct module_view {
  std::uintptr_t base = 0;
  std::uintptr_t low = 0;  // of all its segments
  std::uintptr_t high = 0;
  std::uintptr_t relro_low = 0;  // pages that are read-only after relocation (RELRO)
  std::uintptr_t relro_high = 0;
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const ElfW(Rela) * calls = nullptr;
  std::size_t call_count = 0;
  const ElfW(Rela) * others = nullptr;
  std::size_t other_count = 0;
  const std::uint32_t* gnu_hash = nullptr;

  [[nodiscard]] bool contain(std::uintptr_t address) const { return address >= low && address < high; }
};

// The loader has turned most entries into absolute addresses; the others are relative to the base.
template <class type>
void take(const type*& into, const module_view& module, ElfW(Addr) value) {
  into = reinterpret_cast<const type*>(module.contain(value) ? value : module.base + value);
}

void read_dynamic(module_view& module, const ElfW(Dyn) * entry) {
  bool calls_have_addends = true;
  for (; entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_SYMTAB: take(module.symbols, module, entry->d_un.d_ptr); break;
      case DT_STRTAB: take(module.strings, module, entry->d_un.d_ptr); break;
      case DT_JMPREL: take(module.calls, module, entry->d_un.d_ptr); break;
      case DT_PLTRELSZ: module.call_count = entry->d_un.d_val / sizeof(ElfW(Rela)); break;
      case DT_PLTREL: calls_have_addends = entry->d_un.d_val == DT_RELA; break;
      case DT_RELA: take(module.others, module, entry->d_un.d_ptr); break;
      case DT_RELASZ: module.other_count = entry->d_un.d_val / sizeof(ElfW(Rela)); break;
      case DT_GNU_HASH: take(module.gnu_hash, module, entry->d_un.d_ptr); break;
      default: break;
    }
  }
  if (!calls_have_addends || module.calls == nullptr) module.call_count = 0;
  if (module.others == nullptr) module.other_count = 0;
}

// False: the module has no dynamic symbols, so no import slots.
bool view_of(const dl_phdr_info& info, module_view& module) {
  const std::uintptr_t page = static_cast<std::uintptr_t>(getpagesize());
  const ElfW(Dyn)* dynamic = nullptr;
  module.base = info.dlpi_addr;
  module.low = ~std::uintptr_t{0};
  for (unsigned index = 0; index < info.dlpi_phnum; ++index) {
    const ElfW(Phdr)& part = info.dlpi_phdr[index];
    const std::uintptr_t start = module.base + part.p_vaddr;
    if (part.p_type == PT_LOAD) {
      if (start < module.low) module.low = start;
      if (start + part.p_memsz > module.high) module.high = start + part.p_memsz;
    } else if (part.p_type == PT_DYNAMIC) {
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(start);
    } else if (part.p_type == PT_GNU_RELRO) {
      module.relro_low = start & ~(page - 1);
      module.relro_high = (start + part.p_memsz) & ~(page - 1);
    }
  }
  if (dynamic == nullptr || module.low >= module.high) return false;
  read_dynamic(module, dynamic);
  return module.symbols != nullptr && module.strings != nullptr;
}

bool is_own(const module_view& module) {
  return module.contain(reinterpret_cast<std::uintptr_t>(&lead_slots_back));
}

// ---- what is hooked ----

std::size_t symbol_count(const std::uint32_t* table) {
  const std::uint32_t buckets = table[0];
  const std::uint32_t first = table[1];
  const std::uint32_t* bucket = table + 4 + std::size_t{table[2]} * 2;
  const std::uint32_t* chain = bucket + buckets;
  std::uint32_t last = 0;
  for (std::uint32_t index = 0; index < buckets; ++index) {
    if (bucket[index] > last) last = bucket[index];
  }
  if (last < first) return first;
  while ((chain[last - first] & 1) == 0) ++last;
  return last + 1;
}

void add_hook(const char* name, std::uintptr_t address) {
  if (hook_count == most_hooks) return;
  hooks[hook_count++] = {name, address, 0};
}

// Every function that the recorder exports is a hook of the program's function of that name.
int list_own_exports(dl_phdr_info* info, std::size_t, void*) {
  module_view module;
  if (!view_of(*info, module) || !is_own(module) || module.gnu_hash == nullptr) return 0;
  const std::size_t count = symbol_count(module.gnu_hash);
  for (std::size_t index = 1; index < count; ++index) {
    const ElfW(Sym)& symbol = module.symbols[index];
    if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
    add_hook(module.strings + symbol.st_name, module.base + symbol.st_value);
  }
  return 1;
}

void list_hooks() {
  if (hook_count == 0) {
    dl_iterate_phdr(list_own_exports, nullptr);
    add_hook("dlopen", reinterpret_cast<std::uintptr_t>(&tarn_dlopen_hook));
  }
  lowest_real = ~std::uintptr_t{0};
  highest_real = 0;
  for (std::size_t index = 0; index < hook_count; ++index) {
    hook& one = hooks[index];
    one.real = reinterpret_cast<std::uintptr_t>(find_next(one.name));
    if (one.real == 0) continue;
    if (one.real < lowest_real) lowest_real = one.real;
    if (one.real > highest_real) highest_real = one.real;
    if (one.address == reinterpret_cast<std::uintptr_t>(&tarn_dlopen_hook)) {
      tarn_real_dlopen = reinterpret_cast<void*>(one.real);
    }
  }
  loaded_module allocator;
  loaded_module libc;
  find_module(reinterpret_cast<std::uintptr_t>(find_next("malloc")), allocator);
  find_module(reinterpret_cast<std::uintptr_t>(find_next("dlopen")), libc);
  libc_module = libc.start;
  allocator_is_libcs = allocator.start == libc.start;
}

const hook* hook_named(const char* name) {
  for (std::size_t index = 0; index < hook_count; ++index) {
    if (hooks[index].real != 0 && std::strcmp(hooks[index].name, name) == 0) return &hooks[index];
  }
  return nullptr;
}

// ---- changing them ----

// Makes a module's RELRO pages writable when a slot needs it; its destructor makes them read-only again.
class writable_relro {
 public:
  explicit writable_relro(const module_view& module) : module_(module) {}
  ~writable_relro() {
    if (state_ == open) static_cast<void>(protect(PROT_READ));
  }
  writable_relro(const writable_relro&) = delete;
  writable_relro& operator=(const writable_relro&) = delete;

  // Whether the slot can be written now.
  bool allows(const std::uintptr_t* slot) {
    const auto address = reinterpret_cast<std::uintptr_t>(slot);
    if (address < module_.relro_low || address >= module_.relro_high) return true;
    if (state_ == untouched) state_ = protect(PROT_READ | PROT_WRITE) ? open : refused;
    return state_ == open;
  }

 private:
  enum states { untouched, open, refused };

  [[nodiscard]] bool protect(int protection) const {
    return os::system_call(SYS_mprotect, static_cast<long>(module_.relro_low),
                           static_cast<long>(module_.relro_high - module_.relro_low), protection) == 0;
  }

  const module_view& module_;
  states state_ = untouched;
};

struct pass {
  std::uintptr_t* modules = nullptr;  // start addresses of the modules loaded when the pass began
  std::size_t module_count = 0;
  bool is_main = true;  // the program itself is the first
  slot_count count;
};

void change(std::uintptr_t* slot, std::uintptr_t before, const hook& to, writable_relro& relro,
            slot_count& count) {
  if (!changed.make_room() || !relro.allows(slot)) {
    ++count.refused;
    return;
  }
  // relaxed: the slot holds an address of code that has long been mapped
  if (!__atomic_compare_exchange_n(slot, &before, to.address, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    return;
  }
  changed.add({slot, before, to.address});
  ++count.changed;
}

// With lazy binding, an unbound slot points into its own module. If the program's malloc is not libc's, a library's
// unbound slot may still be bound to libc's malloc later (RTLD_DEEPBIND), so only those of the program itself and
// of libc are changed then.
bool is_unbound(const module_view& module, std::uint32_t kind, std::uintptr_t value, bool is_main) {
  return kind == slot_of_call && module.contain(value) &&
         (allocator_is_libcs || is_main || module.low == libc_module);
}

void change_slots(const module_view& module, const ElfW(Rela) * relocations, std::size_t number, pass& now) {
  writable_relro relro(module);
  for (std::size_t index = 0; index < number; ++index) {
    const ElfW(Rela)& relocation = relocations[index];
    const auto kind = static_cast<std::uint32_t>(ELF64_R_TYPE(relocation.r_info));
    if (kind != slot_of_call && kind != slot_of_address && kind != word_of_address) continue;
    if (kind == word_of_address && relocation.r_addend != 0) continue;
    auto* slot = reinterpret_cast<std::uintptr_t*>(module.base + relocation.r_offset);
    const std::uintptr_t value = __atomic_load_n(slot, __ATOMIC_RELAXED);
    const bool unbound = is_unbound(module, kind, value, now.is_main);
    if (!unbound && (value < lowest_real || value > highest_real)) continue;
    const ElfW(Sym)& symbol = module.symbols[ELF64_R_SYM(relocation.r_info)];
    const hook* to = hook_named(module.strings + symbol.st_name);
    if (to == nullptr || (!unbound && value != to->real)) continue;
    change(slot, value, *to, relro, now.count);
  }
}

int list_module(dl_phdr_info* info, std::size_t, void* context) {
  auto& now = *static_cast<pass*>(context);
  module_view module;
  if (view_of(*info, module) && now.module_count < most_modules) now.modules[now.module_count++] = module.low;
  return 0;
}

int change_module(dl_phdr_info* info, std::size_t, void* context) {
  auto& now = *static_cast<pass*>(context);
  module_view module;
  bool was_there = false;
  if (view_of(*info, module) && !is_own(module)) {
    for (std::size_t index = 0; index < now.module_count; ++index)
      was_there = was_there || now.modules[index] == module.low;
  }
  if (was_there) {
    change_slots(module, module.calls, module.call_count, now);
    change_slots(module, module.others, module.other_count, now);
  }
  now.is_main = false;
  return 0;
}

int restore_module(dl_phdr_info* info, std::size_t, void* context) {
  auto& count = *static_cast<slot_count*>(context);
  module_view module;
  if (!view_of(*info, module)) return 0;
  writable_relro relro(module);
  for (const changed_slot& one : changed) {
    if (!module.contain(reinterpret_cast<std::uintptr_t>(one.address))) continue;
    std::uintptr_t expected = one.hook;
    if (__atomic_load_n(one.address, __ATOMIC_RELAXED) != expected) continue;
    if (!relro.allows(one.address)) {
      ++count.refused;
      continue;
    }
    // relaxed: see change
    __atomic_compare_exchange_n(one.address, &expected, one.before, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
    ++count.changed;
  }
  return 0;
}

}  // namespace

slot_count lead_slots_to_hooks() {
  pass now;
  now.modules = static_cast<std::uintptr_t*>(map_pages(most_modules * sizeof(std::uintptr_t)));
  if (now.modules == nullptr) return now.count;
  list_hooks();
  dl_iterate_phdr(list_module, &now);
  // Takes the loader's lock once, and so waits until modules that another thread is loading are relocated: the
  // loader lists them before that.
  dlopen(nullptr, RTLD_LAZY | RTLD_NOLOAD);
  dl_iterate_phdr(change_module, &now);
  unmap_pages(now.modules, most_modules * sizeof(std::uintptr_t));
  return now.count;
}

const std::uint32_t& dlopen_calls() { return tarn_dlopen_calls; }

slot_count lead_slots_back() {
  slot_count count;
  dl_iterate_phdr(restore_module, &count);
  if (count.refused == 0) changed.clear();
  return count;
}

}  // namespace tarn::profiler::recorder
