// SPDX-License-Identifier: MIT
// real_functions: where the functions are that the hooks stand in front of. Thread safety: any thread.
#pragma once

namespace tarn::profiler::recorder {

// Whether the program's symbols are bound to the hooks, as where the recorder is preloaded. False where it was loaded
// into a running process.
bool is_preloaded();

// The function of this name that the program has without the recorder; null: it has none. A program in C may have loaded
// C++ libraries without libstdc++ being in a scope that dlsym searches: operator new and delete are then asked of it by
// its name.
void* find_next(const char* name);

}  // namespace tarn::profiler::recorder
