// SPDX-License-Identifier: MIT
#include "cli/launch/scratch_file.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cli/show/cli_error.hpp"

namespace tarn::cli {

scratch_file::scratch_file(const std::string& text) {
  const char* folder = std::getenv("TMPDIR");
  path_ = fmt::format("{}/tarn-XXXXXX", folder != nullptr && *folder == '/' ? folder : "/tmp");
  const int file = mkstemp(path_.data());
  const ssize_t size = file >= 0 ? write(file, text.data(), text.size()) : -1;
  const bool written = size == static_cast<ssize_t>(text.size());
  const int error = size >= 0 ? ENOSPC : errno;  // a write that stops early sets no error
  if (file >= 0) close(file);
  if (written) return;
  if (file >= 0) unlink(path_.c_str());
  throw cli_error(exit_code::refused, fmt::format("cannot make {}: {}", path_, std::strerror(error)),
                  "Make room there, or set TMPDIR to a folder that you may write to.");
}

scratch_file::~scratch_file() { unlink(path_.c_str()); }

}  // namespace tarn::cli
