// SPDX-License-Identifier: MIT
#include "profiler/record/guarded_reader.hpp"

#include <errno.h>
#include <sys/syscall.h>

#include "profiler/record/own_calls.hpp"

namespace tarn::profiler {

namespace {

constexpr std::uintptr_t page_bytes = 4096;  // the least of any system

}  // namespace

bool guarded_reader::is_there(std::uintptr_t page) {
  for (const std::uintptr_t known : pages_) {
    if (known == page) return true;
  }
  // The kernel reads the new signal set before it rejects the invalid `how`: EINVAL if the page is readable, EFAULT
  // if not.
  constexpr long no_way = ~0;
  if (recorder::own_call(SYS_rt_sigprocmask, no_way, static_cast<long>(page), 0, 8) != -EINVAL) return false;
  pages_[next_++ % kept_pages] = page;
  return true;
}

bool guarded_reader::are_there(std::uintptr_t address, std::size_t bytes) {
  if (bytes > page_bytes) return false;
  const std::uintptr_t first = address & ~(page_bytes - 1);
  const std::uintptr_t last = (address + bytes - 1) & ~(page_bytes - 1);
  return is_there(first) && (last == first || is_there(last));
}

}  // namespace tarn::profiler
