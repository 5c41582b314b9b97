// SPDX-License-Identifier: MIT
#include "os/restartable.hpp"

#include <linux/membarrier.h>
#include <sys/utsname.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/architecture.hpp"
#include "base/compiler.hpp"
#include "base/hardened.hpp"
#include "os/process_fence.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"

extern "C" {
// Symbols of glibc from 2.35 on; absent elsewhere. The size is 0 if glibc could not, or was told not to, register
// areas.
[[gnu::weak]] extern const std::ptrdiff_t area_offset_of_libc asm("__rseq_offset");
[[gnu::weak]] extern const unsigned area_size_of_libc asm("__rseq_size");
}

namespace tarn::os::restartable {

constinit std::ptrdiff_t area_offset = 0;

namespace {

bool kernel_restarts() {
  if (broken_releases.empty()) return true;
  utsname name{};
  if (system_call(SYS_uname, &name) != 0) return false;
  for (const char* const broken : broken_releases) {
    const std::size_t length = std::strlen(broken);
    const char next = name.release[length];
    if (std::strncmp(name.release, broken, length) == 0 && (next < '0' || next > '9')) return false;
  }
  return true;
}

// Whether the kernel has the thread's area. A thread that libc did not start may have an area of zeroes, which looks like
// one of processor 0. The kernel refuses to register an area again; what it accepts is taken back.
bool is_registered() {
  constexpr long signature = arch::restartable_signature;
  constexpr long bytes = 32;  // the least, and what libc registers unless the kernel has more
  constexpr long unregister = 1;
  const long area = reinterpret_cast<long>(static_cast<char*>(__builtin_thread_pointer()) + area_offset);
  if (in_sandbox()) return false;
  const long refusal = system_call(SYS_rseq, area, bytes, 0, signature);
  if (refusal == 0) system_call(SYS_rseq, area, bytes, unregister, signature);
  return refusal == -EBUSY || refusal == -EINVAL;
}

}  // namespace

bool usable() {
  // ThreadSanitizer does not see the accesses of a sequence.
  if (TARN_TSAN || hardened_build) return false;
  if (&area_offset_of_libc == nullptr || &area_size_of_libc == nullptr || area_size_of_libc == 0)
    return false;
  area_offset = area_offset_of_libc;
  return usable_in_this_thread() && kernel_restarts() && stop_all();
}

bool usable_in_this_thread() {
  enum class answer : std::uint8_t { not_asked, yes, no };
  static thread_local constinit answer registered = answer::not_asked;
  if (processor() >= most_processors) return false;
  if (TARN_UNLIKELY(registered == answer::not_asked)) registered = is_registered() ? answer::yes : answer::no;
  return registered == answer::yes;
}

bool stop_all() {
  // The first command restarts sequences; only the second is documented to be a fence of the other threads.
  return expedited_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ,
                              MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) &&
         process_fence();
}

}  // namespace tarn::os::restartable
