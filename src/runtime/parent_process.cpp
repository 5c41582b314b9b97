// SPDX-License-Identifier: MIT
#include "runtime/parent_process.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/text.hpp"
#include "os/syscall.hpp"

namespace tarn {
namespace {

// Whether a file of the parent's folder in /proc contains `word`.
bool parent_file_contains(const char* file, std::string_view word) {
  char text[2048];
  if (word.size() > sizeof text / 2) return false;
  text_buffer<48> path;
  path.put("/proc/").number(static_cast<std::size_t>(os::system_call(SYS_getppid))).put(file).put('\0');
  const long descriptor =
      os::system_call(SYS_openat, AT_FDCWD, reinterpret_cast<long>(path.data()), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  bool found = false;
  std::size_t kept = 0;  // the end of the previous part: the word may lie across two parts
  long got = 0;
  while (!found && (got = os::system_call(SYS_read, descriptor, reinterpret_cast<long>(text + kept),
                                          static_cast<long>(sizeof text - kept))) > 0) {
    const std::size_t length = kept + static_cast<std::size_t>(got);
    found = std::string_view(text, length).find(word) != std::string_view::npos;
    kept = std::min(length, word.size() - 1);
    std::memmove(text, text + length - kept, kept);
  }
  os::system_call(SYS_close, descriptor);
  return found;
}

}  // namespace

bool parent_has_reported(const char* variable) {
  const std::string_view with_its_end(variable, std::strlen(variable) + 1);
  return parent_file_contains("/environ", with_its_end) && parent_file_contains("/maps", "/libtarn");
}

}  // namespace tarn
