// SPDX-License-Identifier: MIT
// loader_lock: the lock of the dynamic linker of another process, under which it loads libraries and runs their
// constructors. glibc has no name for it: it is found by its form in the linker's data, where the lock of the list of
// libraries follows it, which dl_iterate_phdr holds. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "profiler/attach/remote_module.hpp"

namespace tarn::profiler {

class loader_lock {
 public:
  loader_lock(pid_t process, const std::vector<remote_module>& modules);

  // 0: not found.
  [[nodiscard]] std::uint64_t address() const noexcept { return address_; }
  // Neither of the two is held. Also true if they were not found.
  [[nodiscard]] bool is_free() const;

 private:
  pid_t process_;
  std::uint64_t address_ = 0;
};

// The offset of the first of two recursive mutexes that follow each other; -1: there are none.
long find_recursive_mutexes(std::span<const unsigned char> data);

}  // namespace tarn::profiler
