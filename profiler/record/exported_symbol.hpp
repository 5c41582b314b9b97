// SPDX-License-Identifier: MIT
// exported_symbol: the address of a symbol that a module exports. Any thread: reads the module's own symbol table;
// takes no lock and allocates nothing, unlike dlsym.
#pragma once

#include <cstdint>

struct link_map;

namespace tarn::profiler {

// 0: the module defines no such function or object, or does not export it.
std::uintptr_t exported_symbol(const link_map& module, const char* name);

}  // namespace tarn::profiler
