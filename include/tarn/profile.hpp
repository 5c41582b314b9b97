// SPDX-License-Identifier: MIT
// The heap profile of the program: what malloc and operator new have allocated, and where, estimated from samples.
//
// Use it to see, in production, which places hold memory: start() once, save() when asked. The option profile
// (TARN_PROFILE=on) starts it too. Off it costs nothing; on, at the default rate, some microseconds for each 512 KiB
// that are allocated. Not for exact figures of single blocks: a place with n samples has a relative error of about
// 1 / sqrt(n). Objects of pools, recyclers, buffer pools and arenas are not in it (tarn/stats.hpp).
// Thread safety: every function may be called by any thread, but not in a signal handler. Units: bytes.
#pragma once

#include "tarn/detail/abi.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>

#include "tarn/malloc.h"

namespace tarn {
inline namespace TARN_ABI {

namespace profile {

// Begins to sample, with `rate` bytes between two samples on average; 0: 512 KiB. False: the rate is above 1 GiB. Effect
// on all threads: at their next allocations. Cost: some microseconds.
inline bool start(std::size_t rate = 0) noexcept { return tarn_profile_start(rate) == 0; }
// Takes no further samples; what is known stays.
inline void stop() noexcept { tarn_profile_stop(); }

// Writes the profile into a new file, which only the user may read, or over an old one: for `go tool pprof`. 0, or an
// errno value: ENOMEM, or the system's, and then the file may be incomplete. Cost: as tarn_profile_write().
inline int save(const char* path) noexcept {
  const int file = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return errno;
  const int failed = tarn_profile_dump(file);
  return ::close(file) != 0 && failed == 0 ? errno : failed;
}

// The profile as a string of bytes, for a server that answers GET /debug/pprof/heap. Empty: no memory.
inline std::string text() {
  struct collected {
    std::string bytes;
    bool complete = true;
  } all;
  const int failed = tarn_profile_write(
      [](void* context, const char* data, std::size_t size) {
        auto& to = *static_cast<collected*>(context);
#if defined(__cpp_exceptions)
        try {
          to.bytes.append(data, size);
        } catch (...) {
          to.complete = false;
        }
#else
        to.bytes.append(data, size);
#endif
      },
      &all);
  return failed == 0 && all.complete ? all.bytes : std::string();
}

}  // namespace profile

}  // namespace TARN_ABI
}  // namespace tarn
