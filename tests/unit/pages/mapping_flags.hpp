// SPDX-License-Identifier: MIT
// mapping_flags: the kernel's flags of a mapping. Thread safety: any thread.
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace tarn {

// The VmFlags in /proc/self/smaps of the mapping that holds `address`, each between two blanks; empty if it has none.
inline std::string mapping_flags(std::uintptr_t address) {
  std::ifstream file("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    std::uintptr_t start = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> start >> dash >> end && dash == '-') {
      inside = start <= address && address < end;
    } else if (inside && line.rfind("VmFlags:", 0) == 0) {
      return line + ' ';
    }
  }
  return {};
}

}  // namespace tarn
