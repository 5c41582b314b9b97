// SPDX-License-Identifier: MIT
#include "cli/show/output_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/show/cli_error.hpp"

namespace tarn::cli {

namespace {

[[noreturn]] void throw_not_written(const std::string& where, int error) {
  if (error == EPIPE) throw closed_pipe();
  throw not_written(where, error);
}

}  // namespace

cli_error not_written(const std::string& where, int error) {
  return {exit_code::refused,
          fmt::format("{}: the output cannot be written completely: {}", where, std::strerror(error)),
          "Make room, or give another file name."};
}

void flush_standard_output() {
  // An earlier write may have failed without being noticed, and its error number is lost by now.
  const bool failed_before = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) != 0 || failed_before)
    throw_not_written("standard output", errno != 0 ? errno : EIO);
}

void require_file_name(const std::string& option, const std::string& path) {
  if (path == "-") {
    throw cli_error(exit_code::usage,
                    fmt::format("{} -: a profile is not written to standard output", option),
                    fmt::format("Give a file name: {} FILE.prof", option));
  }
}

output_file::output_file(std::string option, const std::string& path)
    : option_(std::move(option)), path_(path), exceptions_(std::uncaught_exceptions()) {
  if (path == "-") {
    descriptor_ = STDOUT_FILENO;
    return;
  }
  descriptor_ = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  created_ = descriptor_ >= 0;
  if (!created_ && errno == EEXIST) descriptor_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor_ < 0) {
    throw cli_error(exit_code::refused,
                    fmt::format("{} {}: cannot write there: {}", option_, path_, std::strerror(errno)),
                    "Give a file in a folder that you may write to. Nothing was done.");
  }
}

output_file::output_file(std::string option, const fresh_name& name)
    : option_(std::move(option)), exceptions_(std::uncaught_exceptions()) {
  constexpr int most_numbers = 1000;
  for (int number = 1; descriptor_ < 0 && number <= most_numbers; ++number) {
    path_ = fmt::format("{}{}{}", name.beginning, number, name.ending);
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  created_ = descriptor_ >= 0;
  if (!created_) {
    throw cli_error(exit_code::refused, fmt::format("{}: cannot be made: {}", path_, std::strerror(errno)),
                    fmt::format("Name a file in a folder that you may write to: {} FILE", option_));
  }
}

output_file::~output_file() {
  if (descriptor_ >= 0 && descriptor_ != STDOUT_FILENO) close(descriptor_);
  const bool is_whole = written_ && std::uncaught_exceptions() == exceptions_;
  if (created_ && !is_whole) unlink(path_.c_str());
}

void output_file::write(std::string_view text) {
  if (descriptor_ == STDOUT_FILENO) flush_standard_output();
  // Fails for anything but a regular file, where there is nothing to truncate.
  if (!written_ && descriptor_ != STDOUT_FILENO && ftruncate(descriptor_, 0) != 0) errno = 0;
  written_ = true;
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t size = ::write(descriptor_, text.data() + done, text.size() - done);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) throw_not_written(option_ + " " + path_, errno);
    done += static_cast<std::size_t>(size);
  }
}

}  // namespace tarn::cli
