// SPDX-License-Identifier: MIT
#include "profiler/attach/libc_code.hpp"

#include <fmt/core.h>

#include <vector>

#include "profiler/attach/attach_error.hpp"
#include "profiler/attach/thread_state.hpp"

namespace tarn::profiler {

libc_code find_libc_code(pid_t process, const remote_module& libc) {
  constexpr std::size_t longest_function = 64;
  libc_code found;
  std::vector<unsigned char> bytes(longest_function);
  const std::uint64_t function = libc.address_of("syscall");
  bytes.resize(function != 0 ? read_memory(process, function, bytes.data(), bytes.size()) : 0);
  const long call = find_system_call(bytes);
  if (call >= 0) found.system_call = function + static_cast<std::uint64_t>(call);
  for (const executable_range& range : code_of_process(process, libc)) {
    bytes.resize(range.end - range.start);
    bytes.resize(read_memory(process, range.start, bytes.data(), bytes.size()));
    const long offset = find_sigreturn(bytes);
    if (offset < 0) continue;
    found.sigreturn = range.start + static_cast<std::uint64_t>(offset);
    break;
  }
  if (found.system_call != 0 && found.sigreturn != 0) return found;
  throw attach_error(fmt::format("the C library of process {} is of an unknown kind", process),
                     "tarn needs glibc 2.34 or newer; start the program under tarn profile.");
}

}  // namespace tarn::profiler
