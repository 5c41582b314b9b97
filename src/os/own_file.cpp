// SPDX-License-Identifier: MIT
#include "os/own_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/report.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"

namespace tarn::os {

// A filter that is made for the program need not allow the question.
bool may_write(std::size_t bytes) {
  if (is_filtered()) return true;
  rlimit limit{};
  const long result = system_call(SYS_prlimit64, 0, RLIMIT_FSIZE, static_cast<rlimit*>(nullptr), &limit);
  return !is_error(result) && limit.rlim_cur >= bytes;
}

bool append_to_file(const char* path, const text_writer& text) {
  // Of a FIFO that nobody reads the opening fails then, and would else wait.
  constexpr int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK;
  const long descriptor = system_call(SYS_openat, AT_FDCWD, path, flags, 0644);
  if (descriptor < 0) return false;
  struct stat now {};
  const bool is_bounded =
      !is_filtered() && system_call(SYS_fstat, descriptor, &now) == 0 && S_ISREG(now.st_mode);
  const bool fits = !is_bounded || may_write(static_cast<std::size_t>(now.st_size) + text.stored());
  const bool written = fits && write_all(descriptor, text.data(), text.stored()) == 0;
  system_call(SYS_close, descriptor);
  return written;
}

}  // namespace tarn::os
