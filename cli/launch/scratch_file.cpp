// SPDX-License-Identifier: MIT
#include "cli/launch/scratch_file.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "cli/show/cli_error.hpp"

namespace tarn::cli {

open_file::~open_file() {
  if (number_ >= 0) close(number_);
}

open_file::open_file(open_file&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

open_file& open_file::operator=(open_file&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

scratch_file::scratch_file(const std::string& text) {
  const char* folder = std::getenv("TMPDIR");
  path_ = fmt::format("{}/tarn-XXXXXX", folder != nullptr && *folder == '/' ? folder : "/tmp");
  const open_file file(mkstemp(path_.data()));
  const ssize_t size = file.number() >= 0 ? write(file.number(), text.data(), text.size()) : -1;
  const int error = size >= 0 ? ENOSPC : errno;  // a write that stops early sets no error
  if (size == static_cast<ssize_t>(text.size())) return;
  if (file.number() >= 0) unlink(path_.c_str());
  throw cli_error(exit_code::refused, fmt::format("cannot make {}: {}", path_, std::strerror(error)),
                  "Make room there, or set TMPDIR to a folder that you may write to.");
}

scratch_file::~scratch_file() { unlink(path_.c_str()); }

}  // namespace tarn::cli
