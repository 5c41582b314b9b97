// SPDX-License-Identifier: MIT
// memory_group: a control group with a memory limit, a child of the calling process's own group, for tests of what
// happens at the limit. Both versions of control groups, as they are usually mounted.
//
// Thread safety: one thread. Failure: exists() is false; this user may not make one.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

class memory_group {
 public:
  explicit memory_group(std::size_t limit) {
    exists_ = make("0::/", "/sys/fs/cgroup", "memory.max", "memory.swap.max", limit, "0") ||
              make(":memory:/", "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                   "memory.memsw.limit_in_bytes", limit, nullptr);
  }
  static constexpr std::size_t unlimited = ~std::size_t{0};
  ~memory_group() {
    if (exists_) rmdir(folder_);
  }
  memory_group(const memory_group&) = delete;
  memory_group& operator=(const memory_group&) = delete;

  [[nodiscard]] bool exists() const { return exists_; }
  // Moves the calling process into the group.
  [[nodiscard]] bool enter() const {
    char pid[32];
    std::snprintf(pid, sizeof pid, "%d", getpid());
    return write_file("cgroup.procs", pid);
  }
  // Changes the limit. False: the system refuses.
  [[nodiscard]] bool set_limit(std::size_t limit) const {
    char bytes[32];
    std::snprintf(bytes, sizeof bytes, "%zu", limit);
    const char* const text = limit != unlimited ? bytes : is_second() ? "max" : "-1";
    if (is_second()) return write_file("memory.max", text);
    // That with swap is never the lower one, so it goes up first, and down last.
    const bool rises = write_file("memory.memsw.limit_in_bytes", text);
    const bool done = write_file("memory.limit_in_bytes", text);
    if (!rises) static_cast<void>(write_file("memory.memsw.limit_in_bytes", text));
    return done;
  }
  [[nodiscard]] const char* version() const { return is_second() ? "v2" : "v1"; }
  // The most that was used, in bytes; 0: the system does not tell.
  [[nodiscard]] std::size_t peak() const {
    std::size_t bytes = read_number("memory.peak");
    return bytes != 0 ? bytes : read_number("memory.max_usage_in_bytes");
  }

 private:
  [[nodiscard]] bool is_second() const { return std::strstr(folder_, "/memory/") == nullptr; }
  bool make(const char* own_line, const char* mounted, const char* limit_file, const char* swap_file,
            std::size_t limit, const char* swap) {
    char own[1024];
    const int file = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    const ssize_t length = file >= 0 ? read(file, own, sizeof own - 1) : 0;
    if (file >= 0) close(file);
    if (length <= 0) return false;
    own[length] = '\0';
    const char* line = std::strstr(own, own_line);
    if (line == nullptr) return false;
    line += std::strlen(own_line) - 1;
    std::snprintf(folder_, sizeof folder_, "%s%.*s/tarn-test-%d", mounted,
                  static_cast<int>(std::strcspn(line, "\n")), line, getpid());
    if (mkdir(folder_, 0755) != 0) return false;
    char bytes[32];
    std::snprintf(bytes, sizeof bytes, "%zu", limit);
    if (!write_file(limit_file, bytes)) {
      rmdir(folder_);
      return false;
    }
    // No swap, where there is any.
    static_cast<void>(write_file(swap_file, swap != nullptr ? swap : bytes));
    return true;
  }
  bool write_file(const char* name, const char* text) const {
    char path[1400];
    std::snprintf(path, sizeof path, "%s/%s", folder_, name);
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return false;
    const bool done = write(file, text, std::strlen(text)) == static_cast<ssize_t>(std::strlen(text));
    close(file);
    return done;
  }
  std::size_t read_number(const char* name) const {
    char path[1400];
    std::snprintf(path, sizeof path, "%s/%s", folder_, name);
    std::FILE* const file = std::fopen(path, "re");
    std::size_t value = 0;
    if (file == nullptr) return 0;
    if (std::fscanf(file, "%zu", &value) != 1) value = 0;
    std::fclose(file);
    return value;
  }

  bool exists_ = false;
  char folder_[1200] = "";
};
