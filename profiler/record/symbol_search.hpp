// SPDX-License-Identifier: MIT
// symbol_search: where the program's symbols are, behind this library's hooks. Takes the dynamic linker's lock. Thread safety:
// any thread.
#pragma once

#include <cstdint>

namespace tarn::profiler::recorder {

// Whether this library was preloaded, so that the program's symbols are bound to the hooks. False: it was loaded
// into a running process.
bool is_preloaded();

// The program's own function of this name; null: it has none. In a C program that loaded C++ libraries later, dlsym
// may not search libstdc++: operator new and delete are then looked up in libstdc++ by its file name.
void* find_next(const char* name);
// The function of this name that a library of the program would call; 0: there is none.
std::uintptr_t find_first(const char* name);

// Whether the address lies in this library, or in libstdc++.
bool is_recorders(std::uintptr_t address);
bool is_of_libstdcxx(std::uintptr_t address);

}  // namespace tarn::profiler::recorder
