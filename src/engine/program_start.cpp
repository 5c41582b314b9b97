// SPDX-License-Identifier: MIT
// Registers the fork handlers before all constructors, including those of libraries, in a program linked with an
// archive. The shared libraries are linked with -z initfirst instead, since .preinit_array is not allowed in them. So
// this file is a separate member of the archive, which only the linker option --undefined=tarn_program_start brings in
// (src/CMakeLists.txt).
//
// A static program has _dl_find_object if its compiler's unwinder needs that, as C++ does.
#include <dlfcn.h>

#include "engine/engine.hpp"
#include "unwind/frame_rule.hpp"

#pragma weak _dl_find_object

namespace {

void at_program_start() {
  tarn::unwind::set_object_finder(_dl_find_object);
  tarn::engine::register_fork_handlers();
}

}  // namespace

extern "C" {
extern void (*tarn_program_start)();
[[gnu::section(".preinit_array"), gnu::used]] void (*tarn_program_start)() = at_program_start;
}
