// SPDX-License-Identifier: MIT
// What a signal's context tells of a fault on aarch64: whether the access was a write, and where the call path begins.
// For fault_handler.cpp alone.
#pragma once

#include <ucontext.h>

#include "samples/guarded/report.hpp"
#include "unwind/stack_walk.hpp"

namespace tarn::fault_handler {

// The exception syndrome register is in one of the records that follow the registers.
inline guarded_report::access kind_of(const ucontext_t& context) {
  constexpr std::uint32_t magic = 0x45535201;
  constexpr std::uint64_t written = 1U << 6;
  struct record {
    std::uint32_t magic;
    std::uint32_t size;
  };
  const auto* at = reinterpret_cast<const unsigned char*>(context.uc_mcontext.__reserved);
  const auto* const end = at + sizeof context.uc_mcontext.__reserved;
  while (static_cast<std::size_t>(end - at) >= sizeof(record) + sizeof(std::uint64_t)) {
    const auto* const one = reinterpret_cast<const record*>(at);
    if (one->magic == magic) {
      const std::uint64_t syndrome = *reinterpret_cast<const std::uint64_t*>(at + sizeof(record));
      return (syndrome & written) != 0 ? guarded_report::access::write : guarded_report::access::read;
    }
    if (one->magic == 0 || one->size < sizeof(record)) break;
    at += one->size;
  }
  return guarded_report::access::unknown;
}

inline unwind::frame_origin origin_of(const ucontext_t& context) {
  return {context.uc_mcontext.pc + 1, context.uc_mcontext.sp, context.uc_mcontext.regs[29]};
}

}  // namespace tarn::fault_handler
