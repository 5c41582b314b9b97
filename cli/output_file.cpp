// SPDX-License-Identifier: MIT
#include "output_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli_error.hpp"

namespace tarn::cli {

output_file::output_file(std::string option, const std::string& path)
    : option_(std::move(option)), path_(path) {
  if (path == "-") {
    descriptor_ = STDOUT_FILENO;
    return;
  }
  descriptor_ = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  created_ = descriptor_ >= 0;
  if (!created_ && errno == EEXIST) descriptor_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor_ < 0) {
    throw cli_error(exit_code::usage,
                    fmt::format("{} {}: cannot write there: {}", option_, path_, std::strerror(errno)),
                    "Name a file in a folder that you may write to. Nothing was done.");
  }
}

output_file::~output_file() {
  if (descriptor_ >= 0 && descriptor_ != STDOUT_FILENO) close(descriptor_);
  if (created_ && !written_) unlink(path_.c_str());
}

void output_file::write(const std::string& text) {
  if (descriptor_ == STDOUT_FILENO) std::fflush(stdout);
  // Fails for what is no regular file, where there is nothing to cut off.
  if (!written_ && descriptor_ != STDOUT_FILENO && ftruncate(descriptor_, 0) != 0) errno = 0;
  written_ = true;
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t size = ::write(descriptor_, text.data() + done, text.size() - done);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      throw cli_error(exit_code::refused,
                      fmt::format("{} {}: cannot write all of it: {}", option_, path_, std::strerror(errno)),
                      "Make room, or name another file.");
    }
    done += static_cast<std::size_t>(size);
  }
}

}  // namespace tarn::cli
