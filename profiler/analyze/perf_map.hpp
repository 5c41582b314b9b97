// SPDX-License-Identifier: MIT
// perf_map: the names of code that a process has made at run time, as its JIT compiler writes them into
// /tmp/perf-PID.map (the format of Linux perf: "start size name", in hexadecimal). The file may contain anything, and is of
// any size: reading it takes bounded time and memory. Any thread, but each object for one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "profiler/model/profile.hpp"
#include "profiler/model/range_map.hpp"

namespace tarn::profiler {

// The name of code that was made at run time, and that no file names.
inline constexpr const char* generated_code = "?? (generated code)";

class perf_map {
 public:
  perf_map() = default;
  ~perf_map();
  perf_map(perf_map&& other) noexcept;
  perf_map& operator=(perf_map&& other) noexcept;

  // The process's file, as the process sees /tmp; it is opened while the process is there, or with `folder`, and can be
  // read later. Not open: there is none. As perf, it takes only a regular file that belongs to the process's user, and no link.
  // A file older than the process is one that an earlier process with the same number has left.
  static perf_map open(const std::string& folder, std::uint32_t number, uid_t user, std::int64_t not_before);
  [[nodiscard]] bool is_open() const noexcept { return file_ >= 0; }

  // Gives the addresses in p.stacks that lie in no module their names: those in the file become lines of a script
  // (script_address), as the same code may lie elsewhere in another process; of an address, the file's last entry counts. The
  // others that lie in `generated` are named generated_code.
  void name_code(profile& p, const range_map<char>& generated) const;

 private:
  explicit perf_map(int file) : file_(file) {}

  int file_ = -1;
};

// What a compiler's name of its code says: of V8's "JS:*load /srv/app.js:3:14" the function, the file and the line; the others
// have only a function.
source_frame generated_function(std::string_view name);

}  // namespace tarn::profiler
