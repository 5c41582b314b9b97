// SPDX-License-Identifier: MIT
#include "engine/parent_process.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/text.hpp"
#include "os/input_file.hpp"

namespace tarn {
namespace {

// Whether a file of the parent's folder in /proc contains `word`.
bool parent_file_contains(const char* file, std::string_view word) {
  char text[2048];
  if (word.size() > sizeof text / 2) return false;
  text_buffer<48> path;
  path.put("/proc/").number(static_cast<std::size_t>(os::system_call(SYS_getppid))).put(file).put('\0');
  os::input_file input(path.data());
  bool found = false;
  std::size_t kept = 0;  // the end of the previous part: the word may lie across two parts
  std::size_t got = 0;
  while (!found && (got = input.read(text + kept, sizeof text - kept)) != 0) {
    const std::size_t length = kept + got;
    found = std::string_view(text, length).find(word) != std::string_view::npos;
    kept = std::min(length, word.size() - 1);
    std::memmove(text, text + length - kept, kept);
  }
  return found;
}

}  // namespace

bool parent_has_reported(const char* variable) {
  const std::string_view with_its_end(variable, std::strlen(variable) + 1);
  return parent_file_contains("/environ", with_its_end) && parent_file_contains("/maps", "/libtarn");
}

}  // namespace tarn
