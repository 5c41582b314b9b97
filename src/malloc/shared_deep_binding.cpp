// SPDX-License-Identifier: MIT
// deep_binding: takes the flag RTLD_DEEPBIND away when the program opens a library, unless the option deep_binding keeps
// it. With the flag, the library would take malloc and free from its own dependencies, that is from libc, while the blocks
// that libc allocates for it (strdup, getline) come from tarn; the first such block that it frees would end the process.
// Without the flag, the library's other names, too, lead to the program's libraries before its own dependencies.
//
// Only libtarn.so exports dlopen (cmake/libtarn.map).
// Invariant: this dlopen ends in a jump (a tail call) to the next definition. libc's dlopen finds libraries by the
// RUNPATH of its caller, which it identifies by the return address; a plain call would change that.
// Thread safety: any thread.
#include <dlfcn.h>

#include "engine/options.hpp"
#include "tarn/malloc.h"

namespace {

using namespace tarn;
using opener = void*(const char*, int);

#if __has_cpp_attribute(clang::musttail)
#define TARN_JUMP [[clang::musttail]] return
#else
#define TARN_JUMP return  // -foptimize-sibling-calls: src/background/rights/CMakeLists.txt
#endif

// The next definition of dlopen. Looked up at each call, which takes far less time than dlopen.
opener* next_opener() { return reinterpret_cast<opener*>(dlsym(RTLD_NEXT, "dlopen")); }

}  // namespace

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's are reserved names.
extern "C" TARN_API void* dlopen(const char* file, int mode) noexcept {
  if (!options::deep_binding_is_kept()) mode &= ~RTLD_DEEPBIND;
  TARN_JUMP next_opener()(file, mode);
}
