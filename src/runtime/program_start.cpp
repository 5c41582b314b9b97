// SPDX-License-Identifier: MIT
// Fork handlers registered before all constructors, those of libraries included, for a program that is linked with an
// archive. The shared libraries are linked with -z initfirst instead: this section is not allowed in them, and so this file
// is an archive's member of its own, which only the linker's --undefined=tarn_program_start brings in (src/CMakeLists.txt).
#include "runtime/engine.hpp"

extern "C" {
extern void (*tarn_program_start)();
[[gnu::section(".preinit_array"),
  gnu::used]] void (*tarn_program_start)() = tarn::engine::register_fork_handlers;
}
