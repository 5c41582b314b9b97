// SPDX-License-Identifier: MIT
// input_file: a file of the system, opened for reading; line_reader and lines_in: the same, line by line.
//
// A file that the system opens as standard input, output or error is moved to another number at once: a program that has
// closed one of these is about to open another file in its place.
// Owner: a local variable. Thread safety: used by one thread; errno is left alone, and nothing is allocated.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "os/syscall.hpp"

namespace tarn::os {

class input_file {
 public:
  // Null: reads as an empty file.
  explicit input_file(const char* path) {
    if (path == nullptr) return;
    descriptor_ = system_call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    constexpr long first_other = 3;
    if (descriptor_ < 0 || descriptor_ >= first_other) return;
    const long low = descriptor_;
    descriptor_ = system_call(SYS_fcntl, low, F_DUPFD_CLOEXEC, first_other);
    system_call(SYS_close, low);
  }
  ~input_file() {
    if (descriptor_ >= 0) system_call(SYS_close, descriptor_);
  }
  input_file(const input_file&) = delete;
  input_file& operator=(const input_file&) = delete;

  // How many bytes were read; 0 at the end of the file, and if it cannot be read.
  std::size_t read(char* out, std::size_t most) {
    if (descriptor_ < 0) return 0;
    long got = -EINTR;
    while (got == -EINTR) got = system_call(SYS_read, descriptor_, out, most);
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }

  // False: these bytes cannot all be read.
  bool read_at(std::uint64_t offset, void* out, std::size_t bytes) {
    return descriptor_ >= 0 &&
           system_call(SYS_pread64, descriptor_, out, bytes, offset) == static_cast<long>(bytes);
  }

 private:
  long descriptor_ = -1;
};

// Reads into arrays of its owner. The part of a line that exceeds `longest` bytes is dropped.
class lines_in {
 public:
  lines_in(const char* path, char* chunk, std::size_t chunk_bytes, char* line, std::size_t longest)
      : file_(path), chunk_(chunk), chunk_bytes_(chunk_bytes), line_(line), longest_(longest) {}

  // Reads the next line, which stays valid until the next call. False: end of the file.
  bool next(std::string_view& line) {
    std::size_t length = 0;
    for (;;) {
      if (at_ == end_ && !fill()) break;
      // The kernel has filled these bytes, which the analyzer cannot see.
      const char c = chunk_[at_++];  // NOLINT(clang-analyzer-core.uninitialized.Assign)
      if (c == '\n') {
        line = {line_, length};
        return true;
      }
      if (length < longest_) line_[length++] = c;
    }
    line = {line_, length};
    return length != 0;
  }

 private:
  bool fill() {
    at_ = 0;
    end_ = file_.read(chunk_, chunk_bytes_);
    return end_ != 0;
  }

  input_file file_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  char* chunk_;
  std::size_t chunk_bytes_;
  char* line_;
  std::size_t longest_;
};

// The same with arrays of its own.
template <std::size_t Longest>
class line_reader {
 public:
  explicit line_reader(const char* path) : lines_(path, chunk_, sizeof chunk_, line_, Longest) {}
  bool next(std::string_view& line) { return lines_.next(line); }

 private:
  lines_in lines_;
  char chunk_[std::min<std::size_t>(Longest / 2, 4096)];
  char line_[Longest];
};

}  // namespace tarn::os
