// SPDX-License-Identifier: MIT
// deep_binding: says when the program opens a library with RTLD_DEEPBIND. Such a library takes malloc and free from its own
// dependencies, which means from libc, while what libc allocates for it (strdup, getline) is this library's. A block that
// goes to the other's free ends the process, with any preloaded malloc; the cause is hard to see then, so it is named first.
//
// libtarn.so alone exports dlopen (cmake/libtarn.map).
// Invariant: dlopen is a jump to the next one. dlopen finds libraries by its caller's RUNPATH, which it knows by the return
// address; a call from here would change that.
// Thread safety: any thread.
#include <dlfcn.h>

#include <atomic>

#include "base/text.hpp"
#include "os/report.hpp"
#include "tarn/malloc.h"

namespace {

using namespace tarn;
using opener = void*(const char*, int);

#if __has_cpp_attribute(clang::musttail)
#define TARN_JUMP [[clang::musttail]] return
#else
#define TARN_JUMP return  // -foptimize-sibling-calls: src/gates/CMakeLists.txt
#endif

// The name is the program's: nothing but plain characters goes to a terminal.
void put_plain(text_writer& line, const char* name) {
  for (; *name != '\0'; ++name) line.put(*name >= ' ' && *name <= '~' ? *name : '?');
}

[[gnu::noinline]] void tell_of_deep_binding(const char* file) {
  static std::atomic<bool> told{false};
  if (told.exchange(true, std::memory_order_relaxed)) return;
  text_buffer<1024> line;
  line.put("tarn: ");
  put_plain(line, file);
  line.put(
          " is opened with RTLD_DEEPBIND. Unless it is linked with tarn, it passes to libc's free what it has ")
      .put("from tarn, by strdup for instance, and the process ends (docs/linking.md)\n");
  os::write_line(line);
}

// Looked up at each call: dlopen takes far longer.
opener* next_opener() { return reinterpret_cast<opener*>(dlsym(RTLD_NEXT, "dlopen")); }

}  // namespace

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's are reserved names.
extern "C" TARN_API void* dlopen(const char* file, int mode) noexcept {
  const bool loads = (mode & RTLD_NOLOAD) == 0 && file != nullptr;
  if ((mode & RTLD_DEEPBIND) != 0 && loads) tell_of_deep_binding(file);
  TARN_JUMP next_opener()(file, mode);
}
