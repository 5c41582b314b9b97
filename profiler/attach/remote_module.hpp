// SPDX-License-Identifier: MIT
// remote_module: the ELF modules that another process has loaded, and their symbols, read from its memory. So they
// are the ones that it executes, even if the files have been replaced or removed. Thread safety: any thread.
// Invariant: everything read is bounds-checked, as the other process may contain anything.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tarn::profiler {

struct remote_symbol {
  std::string name;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

struct remote_module {
  std::string path;  // from /proc/PID/maps, with " (deleted)" if the file was removed
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  // Those that the module exports, and rtld_global, the dynamic linker's data.
  std::vector<remote_symbol> functions;
  bool is_program = false;               // linked as a program, not as a library
  std::string name = {};                 // by which others need it (DT_SONAME), or its file name
  std::vector<std::string> needed = {};  // names of libraries with which it was linked

  [[nodiscard]] bool contains(std::uint64_t address) const { return address >= start && address < end; }
  // 0: the module does not define it.
  [[nodiscard]] std::uint64_t address_of(std::string_view function) const;
};

inline constexpr std::string_view rtld_global = "_rtld_global";

// Returns the number of bytes that could be read.
std::size_t read_memory(pid_t process, std::uint64_t address, void* into, std::size_t bytes);
bool write_memory(pid_t process, std::uint64_t address, const void* from, std::size_t bytes);

// Empty if the process's memory cannot be read.
std::vector<remote_module> modules_of_process(pid_t process);

// The parts of a module that may be executed, and the code that the kernel gives to each process (vdso).
struct executable_range {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};
std::vector<executable_range> code_of_process(pid_t process, const remote_module& module);

}  // namespace tarn::profiler
