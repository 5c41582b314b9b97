// SPDX-License-Identifier: MIT
#include "profiler/record/peak_resident.hpp"

#include <fcntl.h>

#include <cstring>

#include "os/syscall.hpp"
#include "profiler/record/session_link.hpp"

namespace tarn::profiler::recorder {

// ru_maxrss would not do: it includes what lived in the process before exec, which is tarn itself.
std::uint64_t peak_resident_bytes() {
  const long file = os::system_call(SYS_openat, AT_FDCWD, reinterpret_cast<long>("/proc/self/status"),
                                    O_RDONLY | O_CLOEXEC);
  if (failed(file)) return 0;
  char text[4096];
  const long size =
      os::system_call(SYS_read, file, reinterpret_cast<long>(text), static_cast<long>(sizeof text - 1));
  os::system_call(SYS_close, file);
  if (failed(size)) return 0;
  text[size] = 0;
  const char* at = std::strstr(text, "\nVmHWM:");
  if (at == nullptr) return 0;
  std::uint64_t kib = 0;
  for (at += std::strlen("\nVmHWM:"); *at == ' ' || *at == '\t'; ++at) {
  }
  for (; *at >= '0' && *at <= '9'; ++at) kib = 10 * kib + static_cast<std::uint64_t>(*at - '0');
  return kib << 10;
}

}  // namespace tarn::profiler::recorder
