// SPDX-License-Identifier: MIT
// module_names: which library an address of a call path belongs to, although libraries come and go. The first library at
// an address keeps it in the recording. The addresses of one that is loaded where a different one was before get a
// number in their upper bits, which no address of a program has. So an address means the same code as long as the
// recording lasts, in all threads and in forked children.
//
// A library is known again by its load address, its path, its build-id and its program headers, all read from memory:
// its file may be another one by now.
//
// Thread safety: any thread and any signal handler, without locks. The list of libraries is static memory, which a
// forked child inherits.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "unwind/frame_rule.hpp"

namespace tarn::profiler {

// Libraries of a process; those beyond have no names. The collector keeps as many (most_modules).
inline constexpr std::uint32_t most_named_modules = 8192;

// What a thread knows of the libraries on its stack. Valid until one is closed. Zeroed memory is empty.
struct recent_modules {
  static constexpr unsigned count = 16;
  struct range {
    std::uintptr_t start, end;
    std::uintptr_t number;
  };
  range ranges[count];
  unsigned next;

  void forget() {
    for (range& each : ranges) each = {};
  }
};

// Which libraries a recording has got. Zeroed memory: none.
struct reported_modules {
  std::atomic<std::uint64_t> bits[most_named_modules / 64];

  void forget() {
    for (auto& each : bits) each.store(0, std::memory_order_relaxed);
  }
};

class module_sink {
 public:
  // Takes the library's path, then a zero byte, then its build-id: `text`; and its load address and the segment, all as
  // in call paths.
  virtual void add(std::string_view text, std::uintptr_t base, std::uintptr_t start, std::uintptr_t end) = 0;

 protected:
  ~module_sink() = default;
};

// To be added to addresses in `module`. Gives it to `sink` unless `reported` has it already.
std::uintptr_t number_of(const unwind::loaded_module& module, recent_modules& recent,
                         reported_modules& reported, module_sink& sink);

// Whether any library has a number other than 0.
bool any_numbered();

}  // namespace tarn::profiler
