// SPDX-License-Identifier: MIT
// loaded_modules: the executable parts of the program and its libraries at one moment, with their files and build ids.
//
// The kernel lists them (/proc/thread-self/maps), not the dynamic linker: its list has a lock of libc, which does not
// exclude the control thread (os/own_threads/thread.hpp), and under which a thread that loads a library allocates. A library may be
// unmapped meanwhile: build ids are read by the kernel, too (/proc/thread-self/mem), which then refuses, and checked as
// any bytes. These calls are openat, read, pread64 and close, which the dynamic linker makes, too; after a program has
// installed a seccomp filter of its own, they are not made. Without these files, or where the process is not dumpable,
// modules or build ids are missing.
//
// Owner: a local variable. Thread safety: used by one thread, also one that libc does not know. No lock.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn {

// What is executable and has a file (also a deleted one) or is the kernel's own ("[vdso]"); adjacent parts of a file are
// one segment.
struct loaded_segment {
  static constexpr std::size_t longest_build_id = 32;

  std::uintptr_t start;
  std::uintptr_t end;
  std::uint64_t file_offset;
  // As the kernel shows it, so absolute, and with "\012" for an end of line. Without the " (deleted)" behind it: a
  // reader of the profile finds by the build id whether the file at the path is this one.
  const char* path;
  std::uint8_t build_id[longest_build_id];
  std::size_t build_id_length;  // 0: none
};

class loaded_modules {
 public:
  // `list`: another one in tests.
  explicit loaded_modules(const char* list = "/proc/thread-self/maps");
  ~loaded_modules();
  loaded_modules(const loaded_modules&) = delete;
  loaded_modules& operator=(const loaded_modules&) = delete;

  // False: there was no memory. If the list cannot be read, it is empty. The program's segment is the first one.
  [[nodiscard]] bool valid() const { return segments_ != nullptr; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] const loaded_segment& operator[](std::size_t i) const { return segments_[i]; }
  // The segment that contains the address; count(): none does.
  [[nodiscard]] std::size_t index_of(std::uintptr_t address) const {
    std::size_t i = 0;
    while (i < count_ && (address < segments_[i].start || address >= segments_[i].end)) ++i;
    return i;
  }

 private:
  struct collector;

  loaded_segment* segments_ = nullptr;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace tarn
