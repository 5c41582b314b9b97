// SPDX-License-Identifier: MIT
#include "cli/show/output_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/show/cli_error.hpp"

namespace tarn::cli {

namespace {

constexpr std::size_t copied_bytes = 1 << 16;

[[noreturn]] void throw_not_written(const std::string& where, int error) {
  if (error == EPIPE) throw closed_pipe();
  throw not_written(where, error);
}

// With the time of its last change: a file that is made later may have the number of one that is gone.
using file_identity = std::tuple<dev_t, ino_t, time_t, long>;

file_identity identity_of(const struct ::stat& file) {
  return {file.st_dev, file.st_ino, file.st_ctim.tv_sec, file.st_ctim.tv_nsec};
}

std::vector<file_identity>& inputs() {
  static std::vector<file_identity> all;
  return all;
}

bool is_without_room(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

// Where links lead to a descriptor of this process, as /dev/stdout does: its number; below 0: they do not.
int descriptor_at(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int most_links = 40;
  std::error_code error;
  const fs::path own = fs::canonical("/proc/self/fd", error);
  fs::path at = path;
  for (int link = 0; !error && link < most_links; ++link) {
    const fs::path folder = fs::canonical(at.has_parent_path() ? at.parent_path() : ".", error);
    if (error) return -1;
    if (folder == own) {
      const std::string number = at.filename();
      return !number.empty() && number.find_first_not_of("0123456789") == std::string::npos
                 ? std::atoi(number.c_str())
                 : -1;
    }
    at = folder / fs::read_symlink(folder / at.filename(), error);
  }
  return -1;
}

}  // namespace

void note_input(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) == 0) inputs().push_back(identity_of(file));
}

cli_error not_written(const std::string& where, int error) {
  return {exit_code::refused,
          fmt::format("{}: the output cannot be written completely: {}", where, std::strerror(error)),
          is_without_room(error) ? "Make room, or give another file name." : "Give another file name."};
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
    : option_(std::move(option)), path_(path) {
  if (path == "-") {
    descriptor_ = STDOUT_FILENO;
    is_stream_ = true;
    return;
  }
  const int given = descriptor_at(path);
  is_stream_ = given >= 0;
  if (is_stream_) {
    take(given);
  } else {
    open_path(path);
  }
  if (descriptor_ < 0) {
    throw cli_error(exit_code::refused,
                    fmt::format("{} {}: cannot be written: {}", option_, path_, std::strerror(errno)),
                    "Give a file in a folder that you may write to. Nothing was done.");
  }
  struct stat old = {};
  if (!created_.empty() || fstat(descriptor_, &old) != 0) return;
  if (std::find(inputs().begin(), inputs().end(), identity_of(old)) != inputs().end()) {
    close(descriptor_);
    throw cli_error(exit_code::usage, fmt::format("{} {}: this is the file that is read", option_, path_),
                    "Give another file name. Nothing was done.");
  }
  if (!is_stream_ && S_ISREG(old.st_mode)) write_beside(old);
}

void output_file::take(int given) {
  descriptor_ = fcntl(given, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (descriptor_ < 0 || (fcntl(descriptor_, F_GETFL) & O_ACCMODE) != O_RDONLY) return;
  close(std::exchange(descriptor_, -1));
  errno = EBADF;
}

// A link to a file that is not there yet creates it.
void output_file::open_path(const std::string& path) {
  descriptor_ = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ >= 0) created_ = path;
  if (descriptor_ >= 0 || errno != EEXIST) return;
  descriptor_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor_ >= 0 || errno != ENOENT) return;
  descriptor_ = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  std::error_code error;
  if (descriptor_ >= 0) created_ = std::filesystem::canonical(path, error);
}

// Where no file can be made beside it, or not with its owner, the file itself is written to. Where the file system can, it has
// a name only when it is complete, so that a command that is killed leaves none.
void output_file::write_beside(const struct ::stat& old) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path_, error);
  std::string name;
  int beside = error ? -1 : open(real.parent_path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (!error && beside < 0) {
    name = real.string() + ".XXXXXX";
    beside = mkostemp(name.data(), O_CLOEXEC);
  }
  if (beside < 0) return;
  const bool is_alike =
      fchown(beside, old.st_uid, old.st_gid) == 0 && fchmod(beside, old.st_mode & 07777U) == 0;
  if (!is_alike || old.st_nlink > 1) {
    if (!name.empty()) unlink(name.c_str());
    close(beside);
    return;
  }
  old_ = std::exchange(descriptor_, beside);
  written_to_ = name;
  replaced_ = real;
}

output_file::output_file(std::string option, const fresh_name& name) : option_(std::move(option)) {
  constexpr int most_numbers = 1000;
  for (int number = 1; descriptor_ < 0 && number <= most_numbers; ++number) {
    path_ = fmt::format("{}{}{}", name.beginning, number, name.ending);
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ >= 0) {
    created_ = path_;
  } else {
    throw cli_error(exit_code::refused, fmt::format("{}: cannot be made: {}", path_, std::strerror(errno)),
                    fmt::format("Name a file in a folder that you may write to: {} FILE", option_));
  }
}

output_file::~output_file() {
  if (descriptor_ >= 0 && descriptor_ != STDOUT_FILENO) close(descriptor_);
  if (old_ >= 0) close(old_);
  if (!created_.empty() && !finished_) unlink(created_.c_str());
  if (!written_to_.empty()) unlink(written_to_.c_str());
}

void output_file::finish() {
  if (!written_) write({});
  if (!replaced_.empty()) replace();
  finished_ = true;
}

// linkat does not replace a file, rename does. A file that is mounted on its own, as into a container, cannot be replaced.
void output_file::replace() {
  if (written_to_.empty()) {
    const std::string name = fmt::format("{}.{}", replaced_, getpid());
    const std::string from = fmt::format("/proc/self/fd/{}", descriptor_);
    if (linkat(AT_FDCWD, from.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
      throw_not_written(option_ + " " + path_, errno);
    written_to_ = name;
  }
  if (rename(written_to_.c_str(), replaced_.c_str()) == 0) {
    written_to_.clear();
    return;
  }
  if (errno != EBUSY && errno != EXDEV) throw_not_written(option_ + " " + path_, errno);
  const std::unique_ptr<char[]> buffer(new char[copied_bytes]);
  const int beside = std::exchange(descriptor_, std::exchange(old_, -1));
  old_ = beside;
  written_ = false;
  ssize_t size = 0;
  for (off_t at = 0; (size = pread(beside, buffer.get(), copied_bytes, at)) > 0; at += size)
    write({buffer.get(), static_cast<std::size_t>(size)});
  if (size < 0) throw_not_written(option_ + " " + path_, errno);
  if (!written_) write({});
}

void output_file::write(std::string_view text) {
  if (is_stream_) flush_standard_output();
  // Fails for anything but a regular file, where there is nothing to truncate.
  if (!written_ && !is_stream_ && ftruncate(descriptor_, 0) != 0) errno = 0;
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
