// SPDX-License-Identifier: MIT
// exported_symbol: where a module has what it exports under a name. Any thread: reads the module's own table; takes no lock
// and allocates nothing, which dlsym does.
#pragma once

#include <cstdint>

struct link_map;

namespace tarn::profiler {

// 0: the module defines no such function or object, or does not export it.
std::uintptr_t exported_symbol(const link_map& module, const char* name);

}  // namespace tarn::profiler
