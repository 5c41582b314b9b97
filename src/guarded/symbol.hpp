// SPDX-License-Identifier: MIT
// symbol: the function that an address lies in, by the dynamic symbol table of its module: functions that a program or
// a library exports. Others have their names in files that only a debugger reads.
//
// Thread safety: any thread, and in a signal handler: no lock, no allocation.
#pragma once

#include <cstdint>

#include "os/frame_rule.hpp"

namespace tarn {

struct symbol {
  const char* name = nullptr;
  std::uintptr_t start = 0;
};

// False if the module exports no function that holds the address.
bool find_symbol(const unwind::loaded_module& module, std::uintptr_t address, symbol& out);

}  // namespace tarn
