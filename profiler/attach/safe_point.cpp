// SPDX-License-Identifier: MIT
#include "profiler/attach/safe_point.hpp"

#include <elfutils/libdwfl.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace tarn::profiler {

namespace {

// Exported functions of libc's malloc. All code from the lowest to the highest of them counts as malloc, as it is
// one object file; its local functions lie up to unnamed_bytes before the lowest.
constexpr std::string_view mallocs[] = {"malloc",
                                        "free",
                                        "calloc",
                                        "realloc",
                                        "memalign",
                                        "aligned_alloc",
                                        "valloc",
                                        "pvalloc",
                                        "mallopt",
                                        "malloc_info",
                                        "malloc_trim",
                                        "malloc_stats",
                                        "malloc_usable_size",
                                        "posix_memalign",
                                        "mallinfo",
                                        "mallinfo2"};
constexpr std::uint64_t unnamed_bytes = 16 << 10;
constexpr unsigned most_frames = 512;

int no_debug_information(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word,
                         char**) {
  return -1;  // the unwind tables in memory suffice
}

constexpr Dwfl_Callbacks callbacks = {dwfl_linux_proc_find_elf, no_debug_information, nullptr, nullptr};

struct walk {
  std::vector<std::uint64_t> addresses;  // innermost first
};

int take_frame(Dwfl_Frame* frame, void* context) {
  auto& path = *static_cast<walk*>(context);
  Dwarf_Addr address = 0;
  bool is_innermost = false;
  if (!dwfl_frame_pc(frame, &address, &is_innermost)) return DWARF_CB_ABORT;
  path.addresses.push_back(is_innermost ? address : address - 1);
  return path.addresses.size() < most_frames ? DWARF_CB_OK : DWARF_CB_ABORT;
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
    : unwinder_(std::make_unique<unwinder>()) {
  for (const remote_module& module : modules) {
    if (is_libc(module)) libc_ = {module.start, module.end};
    range allocator = {~std::uint64_t{0}, 0};
    for (const remote_symbol& one : module.functions) {
      if (std::find(std::begin(mallocs), std::end(mallocs), one.name) == std::end(mallocs)) continue;
      allocator.start = std::min(allocator.start, one.address - unnamed_bytes);
      allocator.end = std::max(allocator.end, one.address + std::max<std::uint64_t>(1, one.bytes));
    }
    if (is_dynamic_linker(module)) {
      forbidden_.push_back({module.start, module.end});
    } else if (allocator.end != 0) {
      forbidden_.push_back(is_libc(module) ? allocator : range{module.start, module.end});
    }
  }
  unwinder_->session = dwfl_begin(&callbacks);
  dwfl_report_begin(unwinder_->session);
  dwfl_linux_proc_report(unwinder_->session, process);
  dwfl_report_end(unwinder_->session, nullptr, nullptr);
  dwfl_linux_proc_attach(unwinder_->session, process, true);
  Dwarf_Addr bias = 0;
  for (const std::uint64_t address : {libc_.start, modules.empty() ? 0 : modules.front().start}) {
    Dwfl_Module* module = dwfl_addrmodule(unwinder_->session, address);
    if (module != nullptr) dwfl_module_eh_cfi(module, &bias);
  }
}

safe_point::~safe_point() = default;

bool safe_point::is_forbidden(std::uint64_t address) const {
  return std::any_of(forbidden_.begin(), forbidden_.end(),
                     [address](const range& one) { return address >= one.start && address < one.end; });
}

bool safe_point::is_at_one(pid_t thread) {
  walk path;
  dwfl_getthread_frames(unwinder_->session, thread, take_frame, &path);
  if (path.addresses.empty()) return false;
  if (std::any_of(path.addresses.begin(), path.addresses.end(),
                  [this](std::uint64_t address) { return is_forbidden(address); })) {
    return false;
  }
  // The path may be truncated. As long as all its frames are in libc, the missing outer ones may be malloc's. Once
  // it has left libc they cannot be, as malloc calls nothing outside of libc.
  return std::any_of(path.addresses.begin(), path.addresses.end(),
                     [this](std::uint64_t address) { return address < libc_.start || address >= libc_.end; });
}

}  // namespace tarn::profiler
