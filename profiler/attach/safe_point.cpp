// SPDX-License-Identifier: MIT
#include "profiler/attach/safe_point.hpp"

#include <elfutils/libdwfl.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>

#include "profiler/attach/thread_state.hpp"
#include "profiler/proc/malloc_functions.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::profiler {

namespace {

// All code from the lowest to the highest function of libc's malloc counts as malloc; its local functions lie up to this
// many bytes before the lowest.
constexpr std::uint64_t unnamed_bytes = 16 << 10;

// Other functions of libc that hold a lock that a call of dlopen needs. What they call within libc has no names, but they
// are on the path.
constexpr std::string_view holders =
    // of malloc: fork holds all of them
    " fork __libc_fork _Fork forkpty daemon"
    // of the list of stacks
    " pthread_create pthread_detach pthread_exit pthread_getattr_np pthread_cancel thrd_create thrd_detach"
    " thrd_exit setuid setgid seteuid setegid setreuid setregid setresuid setresgid setgroups"
    // of the dynamic linker
    " dlopen dlmopen dlclose dlsym dlvsym dlerror dlinfo dladdr dladdr1 dl_iterate_phdr"
    // of the handlers of exit and fork
    " atexit at_quick_exit __cxa_atexit __cxa_at_quick_exit __cxa_thread_atexit_impl __cxa_finalize"
    " __register_atfork exit quick_exit abort __libc_freeres"
    // of messages and their conversion
    " setlocale newlocale duplocale freelocale textdomain bindtextdomain bind_textdomain_codeset gettext"
    " dgettext dcgettext __dcgettext ngettext dngettext dcngettext strerror strerror_r __xpg_strerror_r"
    " strerror_l perror strsignal psignal psiginfo gai_strerror hstrerror regerror iconv_open iconv"
    " iconv_close"
    // of the libraries that answer for names
    " getaddrinfo getnameinfo gethostbyname gethostbyname2 gethostbyaddr gethostbyname_r gethostbyname2_r"
    " gethostbyaddr_r getpwnam getpwuid getpwnam_r getpwuid_r getpwent getgrnam getgrgid getgrnam_r"
    " getgrgid_r getgrent initgroups getgrouplist getservbyname getservbyport getservbyname_r"
    " getservbyport_r getprotobyname getprotobynumber ";
constexpr unsigned most_frames = 512;

// Libraries that allocators need, and that are no part of them.
constexpr std::string_view common_libraries[] = {"libc.so",       "libm.so",   "libgcc_s.so",
                                                 "libstdc++.so",  "libc++.so", "libc++abi.so",
                                                 "libpthread.so", "libdl.so",  "librt.so"};

int no_debug_information(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word,
                         char**) {
  return -1;  // the unwind tables in memory suffice
}

constexpr Dwfl_Callbacks callbacks = {dwfl_linux_proc_find_elf, no_debug_information, nullptr, nullptr};

struct walk {
  Dwfl* session = nullptr;
  std::vector<std::uint64_t> addresses;  // innermost first
  bool is_whole = true;                  // up to the outermost frame, by unwind tables only
};

// Without a table for the address, libdwfl follows a frame pointer, which may be another function's.
bool has_table(Dwfl* session, Dwarf_Addr address) {
  Dwfl_Module* const module = dwfl_addrmodule(session, address);
  if (module == nullptr) return false;
  for (const auto tables : {dwfl_module_eh_cfi, dwfl_module_dwarf_cfi}) {
    Dwarf_Addr bias = 0;
    Dwarf_CFI* const cfi = tables(module, &bias);
    Dwarf_Frame* frame = nullptr;
    const bool found = cfi != nullptr && dwarf_cfi_addrframe(cfi, address - bias, &frame) == 0;
    std::free(frame);
    if (found) return true;
  }
  return false;
}

int take_frame(Dwfl_Frame* frame, void* context) {
  auto& path = *static_cast<walk*>(context);
  Dwarf_Addr address = 0;
  bool is_innermost = false;
  if (!dwfl_frame_pc(frame, &address, &is_innermost)) return DWARF_CB_ABORT;
  path.addresses.push_back(is_innermost ? address : address - 1);
  path.is_whole = path.is_whole && has_table(path.session, path.addresses.back());
  return path.addresses.size() < most_frames ? DWARF_CB_OK : DWARF_CB_ABORT;
}

// A process that has changed its rights keeps its auxiliary vector from its own user. Without it the kernel's code in the
// process (vdso) is unknown, and a thread in there is at no safe point.
void report_modules(Dwfl* session, pid_t process) {
  if (dwfl_linux_proc_report(session, process) == 0) return;
  std::string maps = proc_text(static_cast<std::uint32_t>(process), "maps");
  FILE* const text = maps.empty() ? nullptr : fmemopen(maps.data(), maps.size(), "r");
  if (text == nullptr) return;
  dwfl_linux_proc_maps_report(session, text);
  fclose(text);
}

bool needs(const remote_module& one, const remote_module& other) {
  const bool is_common =
      std::any_of(std::begin(common_libraries), std::end(common_libraries),
                  [&other](std::string_view common) { return other.name.starts_with(common); });
  return !is_common && std::find(one.needed.begin(), one.needed.end(), other.name) != one.needed.end();
}

// ---- the frame that the kernel makes for a signal's handler, where no call path leads there: the handler or its restorer
// has no unwind tables ----

constexpr std::size_t word_bytes = sizeof(std::uint64_t);
constexpr std::size_t most_stack_bytes = 1 << 20;

// A frame lies above the stack pointer of the stopped thread. It may be left of an earlier signal. Costs a copy of up to
// 1 MiB of the stack.
bool may_be_in_handler(pid_t process, std::uint64_t stack_pointer) {
  std::vector<std::uint64_t> words(most_stack_bytes / word_bytes);
  words.resize(
      read_memory(process, stack_pointer & ~std::uint64_t{word_bytes - 1}, words.data(), most_stack_bytes) /
      word_bytes);
  const handler_mark mark = mark_of_handlers();
  for (std::size_t at = 0; at + mark.index < words.size(); ++at) {
    const bool has_link = words[at + 1] != 0;  // uc_link
    if (words[at + mark.index] == mark.value && words[at] <= mark.most_flags && !has_link) return true;
  }
  return false;
}

}  // namespace

bool is_libc(const remote_module& module) {
  const std::string name = std::filesystem::path(module.path).filename().string();
  return name.starts_with("libc.so.") || (name.starts_with("libc-") && name.find(".so") != std::string::npos);
}

bool is_dynamic_linker(const remote_module& module) {
  const std::string name = std::filesystem::path(module.path).filename().string();
  return name.starts_with("ld-linux") || name.starts_with("ld-2") || name.starts_with("ld64.so") ||
         name.starts_with("ld.so");
}

struct safe_point::unwinder {
  Dwfl* session = nullptr;

  unwinder() = default;
  ~unwinder() {
    if (session != nullptr) dwfl_end(session);
  }
  unwinder(const unwinder&) = delete;
  unwinder& operator=(const unwinder&) = delete;
};

safe_point::safe_point(pid_t process, const std::vector<remote_module>& modules)
    : process_(process), unwinder_(std::make_unique<unwinder>()) {
  forbid(modules);
  std::sort(named_.begin(), named_.end(), [](const range& a, const range& b) { return a.start < b.start; });
  unwinder_->session = dwfl_begin(&callbacks);
  dwfl_report_begin(unwinder_->session);
  report_modules(unwinder_->session, process);
  dwfl_report_end(unwinder_->session, nullptr, nullptr);
  dwfl_linux_proc_attach(unwinder_->session, process, true);
  Dwarf_Addr bias = 0;
  for (const std::uint64_t address : {libc_.start, modules.empty() ? 0 : modules.front().start}) {
    Dwfl_Module* module = dwfl_addrmodule(unwinder_->session, address);
    if (module != nullptr) dwfl_module_eh_cfi(module, &bias);
  }
}

safe_point::~safe_point() = default;

// An allocator's functions may be jumps into a library that it needs, and are not on the path then.
void safe_point::forbid(const std::vector<remote_module>& modules) {
  std::vector<const remote_module*> allocators;
  for (const remote_module& module : modules) {
    if (is_libc(module)) libc_ = {module.start, module.end};
    range allocator = {~std::uint64_t{0}, 0};
    for (const remote_symbol& one : module.functions) {
      if (is_libc(module)) add_function_of_libc(one);
      if (!is_listed(malloc_functions, one.name)) continue;
      allocator.start = std::min(allocator.start, one.address - unnamed_bytes);
      allocator.end = std::max(allocator.end, one.address + std::max<std::uint64_t>(1, one.bytes));
    }
    if (is_dynamic_linker(module)) {
      forbidden_.push_back({module.start, module.end});
    } else if (allocator.end != 0 && is_libc(module)) {
      forbidden_.push_back(allocator);
    } else if (allocator.end != 0) {
      allocators.push_back(&module);
    }
  }
  for (std::size_t at = 0; at < allocators.size(); ++at) {
    const remote_module& one = *allocators[at];
    forbidden_.push_back({one.start, one.end});
    for (const remote_module& other : modules) {
      const bool is_known = std::find(allocators.begin(), allocators.end(), &other) != allocators.end();
      if (!is_known && needs(one, other)) allocators.push_back(&other);
    }
  }
}

void safe_point::add_function_of_libc(const remote_symbol& function) {
  const range code = {function.address, function.address + std::max<std::uint64_t>(1, function.bytes)};
  named_.push_back(code);
  if (function.name == "__libc_start_main") start_ = code;
  if (is_listed(holders, function.name)) forbidden_.push_back(code);
}

bool safe_point::is_named(std::uint64_t address) const {
  const auto after =
      std::upper_bound(named_.begin(), named_.end(), address,
                       [](std::uint64_t value, const range& one) { return value < one.start; });
  return after != named_.begin() && address < std::prev(after)->end;
}

// Functions without a name are called by others of libc, which may leave no frame (a call at their end is a jump): so is
// the lock of the stacks held below pthread_join. The outermost ones only start the program or a thread.
bool safe_point::runs_unnamed_code(const std::vector<std::uint64_t>& path) const {
  std::size_t end = path.size();
  if (end > 1 && start_.holds(path[end - 2])) --end;  // the program's _start, below which libc calls main
  while (end > 0 && libc_.holds(path[end - 1])) --end;
  return std::any_of(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(end),
                     [this](std::uint64_t address) { return libc_.holds(address) && !is_named(address); });
}

bool safe_point::is_within(const std::vector<range>& ranges, const std::vector<std::uint64_t>& path) {
  return std::any_of(ranges.begin(), ranges.end(), [&path](const range& one) {
    return std::any_of(path.begin(), path.end(),
                       [&one](std::uint64_t address) { return address >= one.start && address < one.end; });
  });
}

bool safe_point::is_at_one(pid_t thread) {
  walk path;
  path.session = unwinder_->session;
  if (dwfl_getthread_frames(unwinder_->session, thread, take_frame, &path) != 0) path.is_whole = false;
  if (path.addresses.empty()) return false;
  if (is_within(forbidden_, path.addresses)) return false;
  // A thread that sleeps in the kernel waits for something, or for a lock, of which libc's functions hold no other then.
  register_set registers = {};
  const bool sleeps = get_registers(thread, registers) && sleeps_in_call(process_, registers);
  if (!sleeps && runs_unnamed_code(path.addresses)) return false;
  // Frames may be missing, or wrong. As long as all of them are in libc, the missing outer ones may be malloc's. Once the
  // path has left libc, only a signal can have led there from malloc, which calls nothing outside of libc. A thread that
  // ends, which holds the lock of the stacks, has no other frames than libc's.
  if (!path.is_whole && may_be_in_handler(process_, stack_pointer(registers))) return false;
  return std::any_of(path.addresses.begin(), path.addresses.end(),
                     [this](std::uint64_t address) { return !libc_.holds(address); });
}

}  // namespace tarn::profiler
