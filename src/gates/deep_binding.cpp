// SPDX-License-Identifier: MIT
// deep_binding: warns when the program opens a library with RTLD_DEEPBIND. Such a library takes malloc and free from
// its own dependencies, that is from libc, while the blocks that libc allocates for it (strdup, getline) come from
// tarn. A block that goes to the other allocator's free() ends the process, as with any preloaded malloc; as the cause
// is hard to find then, the warning names it beforehand.
//
// Only libtarn.so exports dlopen (cmake/libtarn.map).
// Invariant: this dlopen ends in a jump (a tail call) to the next definition. libc's dlopen finds libraries by the
// RUNPATH of its caller, which it identifies by the return address; a plain call would change that.
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

// Writes the name with all but printable ASCII characters replaced, as it comes from the program and may go to a
// terminal.
void put_plain(text_writer& line, const char* name) {
  for (; *name != '\0'; ++name) line.put(*name >= ' ' && *name <= '~' ? *name : '?');
}

[[gnu::noinline]] void warn_of_deep_binding(const char* file) {
  static std::atomic<bool> told{false};
  if (told.exchange(true, std::memory_order_relaxed)) return;
  text_buffer<1024> line;
  line.put("tarn: ");
  put_plain(line, file);
  line.put(
          " is opened with RTLD_DEEPBIND. Unless it is linked with tarn, it passes blocks of tarn (from strdup, ")
      .put("for example) to libc's free, which ends the process (docs/how-to/linking.md)\n");
  os::write_line(line);
}

// The next definition of dlopen. Looked up at each call, which takes far less time than dlopen.
opener* next_opener() { return reinterpret_cast<opener*>(dlsym(RTLD_NEXT, "dlopen")); }

}  // namespace

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's are reserved names.
extern "C" TARN_API void* dlopen(const char* file, int mode) noexcept {
  const bool loads = (mode & RTLD_NOLOAD) == 0 && file != nullptr;
  if ((mode & RTLD_DEEPBIND) != 0 && loads) warn_of_deep_binding(file);
  TARN_JUMP next_opener()(file, mode);
}
