// SPDX-License-Identifier: MIT
// scratch_file: a file in memory (memfd) with a path under /proc/self/fd; it ends with this object.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

namespace tarn::profiler {

class scratch_file {
 public:
  scratch_file() : file_(memfd_create("tarn-test", MFD_CLOEXEC)) {
    if (file_ < 0) std::abort();
  }
  ~scratch_file() { close(file_); }
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

  std::vector<std::uint8_t> contents() const {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(lseek(file_, 0, SEEK_END)));
    if (pread(file_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
    return bytes;
  }

  void set(std::span<const std::uint8_t> bytes) {
    if (ftruncate(file_, 0) != 0) std::abort();
    if (pwrite(file_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
  }

 private:
  int file_;
};

}  // namespace tarn::profiler
