// SPDX-License-Identifier: MIT
// remote_module: the ELF modules that another process has loaded, and their symbols, read from its memory: so they are
// those that it runs with, also where the files have been replaced or removed since.
// Thread safety: any thread. Invariant: what was read is checked against the size that was read; a process may hold
// anything.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
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
  std::string path;  // as the kernel tells it, with " (deleted)" where the file has gone
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::vector<remote_symbol> functions;  // that it defines for others

  [[nodiscard]] bool contains(std::uint64_t address) const { return address >= start && address < end; }
  // 0: it does not define it.
  [[nodiscard]] std::uint64_t address_of(std::string_view function) const;
};

// How many bytes could be read.
std::size_t read_memory(pid_t process, std::uint64_t address, void* into, std::size_t bytes);
bool write_memory(pid_t process, std::uint64_t address, const void* from, std::size_t bytes);

// Nothing where the process cannot be looked into.
std::vector<remote_module> modules_of_process(pid_t process);

}  // namespace tarn::profiler
