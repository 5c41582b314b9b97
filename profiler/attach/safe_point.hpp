// SPDX-License-Identifier: MIT
// safe_point: whether a stopped thread may be made to call functions that allocate and load libraries. It may not
// while it is in malloc, in the dynamic linker, or in functions of libc that hold their locks or others that such calls
// need (fork, pthread_create, setlocale…): their structures may be inconsistent, and the call would deadlock. Decided by
// the thread's call path, unwound by libdwfl; where it cannot be followed, the stack shows whether a signal has
// interrupted something. For one thread, which is the tracer of the other.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "profiler/attach/remote_module.hpp"

namespace tarn::profiler {

class safe_point {
 public:
  // Prepares everything while the process runs, to keep the stop of a thread short.
  safe_point(pid_t process, const std::vector<remote_module>& modules);
  ~safe_point();
  safe_point(const safe_point&) = delete;
  safe_point& operator=(const safe_point&) = delete;

  // Whether the thread is at a safe point. Requires that it is stopped.
  bool is_at_one(pid_t thread);

 private:
  struct range {
    std::uint64_t start;
    std::uint64_t end;

    [[nodiscard]] bool holds(std::uint64_t address) const { return address >= start && address < end; }
  };
  struct unwinder;

  void forbid(const std::vector<remote_module>& modules);
  void add_function_of_libc(const remote_symbol& function);
  [[nodiscard]] bool is_named(std::uint64_t address) const;
  [[nodiscard]] bool runs_unnamed_code(const std::vector<std::uint64_t>& path) const;
  [[nodiscard]] static bool is_within(const std::vector<range>& ranges,
                                      const std::vector<std::uint64_t>& path);

  pid_t process_;
  std::vector<range> forbidden_;  // code of malloc, the dynamic linker, the recorder, functions with locks
  std::vector<range> named_;      // functions that libc exports
  range libc_ = {0, 0};
  range start_ = {0, 0};  // the function of libc that a program's _start calls
  std::unique_ptr<unwinder> unwinder_;
};

// Recognise libc and the dynamic linker by their file names.
bool is_libc(const remote_module& module);
bool is_dynamic_linker(const remote_module& module);

}  // namespace tarn::profiler
