// SPDX-License-Identifier: MIT
#include "os/report.hpp"

#include <fcntl.h>
#include <signal.h>

#include "base/compiler.hpp"
#include "os/syscall.hpp"

namespace tarn::os {
namespace {

bool has_standard_error = false;

// What is descriptor 2 later may be the program's own file, and is not written to if there was no standard
// error at the start. Not on the first allocation: a sandbox may be closed by then.
[[gnu::constructor]] void note_standard_error() {
  has_standard_error = system_call(SYS_fcntl, 2, F_GETFD) >= 0;
}

bool write_all(long descriptor, const char* text, std::size_t size) {
  while (size != 0) {
    const long written =
        system_call(SYS_write, descriptor, reinterpret_cast<long>(text), static_cast<long>(size));
    if (written == -4) continue;  // EINTR
    if (written <= 0) return false;
    text += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

}  // namespace

void write_line(const text_writer& line) {
  if (has_standard_error) write_all(2, line.data(), line.stored());
}

TARN_COLD void fatal(const char* what, const void* pointer) {
  text_buffer<1400> line;
  line.put("tarn: ").put(what).put(": ").pointer(pointer).put('\n');
  write_line(line);
  // abort() of libc takes locks and runs handlers; the signal alone is what a debugger and a core dump need.
  const long process = system_call(SYS_getpid);
  system_call(SYS_tgkill, process, system_call(SYS_gettid), SIGABRT);
  // Ignored or blocked: the default action cannot be.
  system_call(SYS_kill, process, SIGKILL);
  __builtin_trap();
}

bool append_to_file(const char* path, const text_writer& text) {
  const long descriptor = system_call(SYS_openat, AT_FDCWD, reinterpret_cast<long>(path),
                                      O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return false;
  const bool written = write_all(descriptor, text.data(), text.stored());
  system_call(SYS_close, descriptor);
  return written;
}

}  // namespace tarn::os
