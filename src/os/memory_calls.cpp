// SPDX-License-Identifier: MIT
#include "os/memory_calls.hpp"

#include <sys/mman.h>

#include <cstdint>

#include "base/architecture.hpp"
#include "base/compiler.hpp"
#include "base/units.hpp"
#include "os/errno_keeper.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"

namespace tarn::os {
namespace {

// A sanitizer replaces libc's functions, and its tests have the engine's own threads.
// NOLINTNEXTLINE(misc-redundant-expression): two macros of the same value
constexpr bool may_be_listened_to = !TARN_TSAN && !TARN_ASAN;

// Zero, like all thread-local data, in the engine's own threads, which may not call functions of libc.
thread_local constinit bool may_call_out = true;

// Whether the function is libc's own, which begins with its system call. What stands in its place does not: a jump, a
// function of another library, or of a libc that is written otherwise. A listener may be writing the jump at this moment.
inline bool begins_with_system_call(const void* function, long number) {
  // By loads, not memcmp: buffer pools ask each time that they give memory back.
  const auto word_at = [function](std::size_t offset) {
    std::uint64_t word = 0;
    __builtin_memcpy(&word, static_cast<const char*>(function) + offset, sizeof word);
    return word;
  };
  constexpr std::uint64_t half = 0xffffffff;
  const std::uint64_t begin = word_at((word_at(0) & half) == arch::landing_pad ? 4 : 0);
  return arch::is_system_call(begin, number);
}

bool is_heard(const void* function, long number) {
  return may_be_listened_to && !begins_with_system_call(function, number);
}

bool unmapping_is_heard() { return is_heard(reinterpret_cast<const void*>(&munmap), SYS_munmap); }
bool advice_is_heard() { return is_heard(reinterpret_cast<const void*>(&madvise), SYS_madvise); }

struct request {
  void* address;
  std::size_t bytes;
  bool done = false;
};

bool call_out(void (*call)(void*), void* address, std::size_t bytes) {
  if (!may_call_out) return false;
  const errno_keeper kept;
  const quiet_thread within;
  request r{address, bytes};
  run_without_cache(call, &r);
  return r.done;
}

}  // namespace

quiet_thread::quiet_thread() : before_(may_call_out) { may_call_out = false; }
quiet_thread::~quiet_thread() { may_call_out = before_; }

bool memory_calls_are_heard() { return advice_is_heard() || unmapping_is_heard(); }

bool must_not_be_heard() { return !may_call_out && memory_calls_are_heard(); }

bool unmap_heard(void* address, std::size_t bytes) {
  if (in_strict_mode()) return false;
  if (TARN_LIKELY(!unmapping_is_heard())) return system_call(SYS_munmap, address, bytes) == 0;
  return call_out(
      [](void* context) {
        auto& r = *static_cast<request*>(context);
        r.done = munmap(r.address, r.bytes) == 0;
      },
      address, bytes);
}

bool drop_heard(void* address, std::size_t bytes) {
  if (in_strict_mode()) return false;
  if (TARN_LIKELY(!advice_is_heard())) {
    return system_call(SYS_madvise, address, bytes, MADV_DONTNEED) == 0;
  }
  return call_out(
      [](void* context) {
        auto& r = *static_cast<request*>(context);
        r.done = madvise(r.address, r.bytes, MADV_DONTNEED) == 0;
      },
      address, bytes);
}

}  // namespace tarn::os
