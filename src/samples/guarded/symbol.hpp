// SPDX-License-Identifier: MIT
// symbol: the function that contains an address, by the dynamic symbol table of its module. Finds only functions that a
// program or a library exports; the names of others are in files that only a debugger reads.
//
// Thread safety: any thread, also in a signal handler: takes no lock, allocates nothing.
#pragma once

#include <cstdint>

#include "unwind/frame_rule.hpp"

namespace tarn {

struct symbol {
  const char* name = nullptr;
  std::uintptr_t start = 0;
};

// False: the module exports no function that contains the address.
bool find_symbol(const unwind::loaded_module& module, std::uintptr_t address, symbol& out);

}  // namespace tarn
