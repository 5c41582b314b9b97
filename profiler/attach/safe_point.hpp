// SPDX-License-Identifier: MIT
// safe_point: whether a stopped thread may be made to call functions that allocate and load libraries. It may not where
// it is within malloc or the dynamic linker, whose structures are not whole then and whose locks it may hold: the call
// would wait for itself. Its call path tells, unwound by libdwfl.
// For one thread, which traces the other one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "profiler/attach/remote_module.hpp"

namespace tarn::profiler {

class safe_point {
 public:
  // Looks at the process while it runs, so that little is left to do while a thread is stopped.
  safe_point(pid_t process, const std::vector<remote_module>& modules);
  ~safe_point();
  safe_point(const safe_point&) = delete;
  safe_point& operator=(const safe_point&) = delete;

  // The thread is stopped.
  bool is_at_one(pid_t thread);

 private:
  struct range {
    std::uint64_t start;
    std::uint64_t end;
  };
  struct unwinder;

  [[nodiscard]] bool is_forbidden(std::uint64_t address) const;

  pid_t process_;
  std::vector<range> forbidden_;  // malloc's code, the dynamic linker's, the recorder's
  range libc_ = {0, 0};
  std::unique_ptr<unwinder> unwinder_;
};

// The functions whose module is the program's malloc.
bool is_libc(const remote_module& module);
bool is_dynamic_linker(const remote_module& module);

}  // namespace tarn::profiler
