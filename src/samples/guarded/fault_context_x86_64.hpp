// SPDX-License-Identifier: MIT
// What a signal's context tells of a fault on x86-64: whether the access was a write, and where the call path begins.
// For fault_handler.cpp alone.
#pragma once

#include <ucontext.h>

#include "samples/guarded/report.hpp"
#include "unwind/stack_walk.hpp"

namespace tarn::fault_handler {

inline guarded_report::access kind_of(const ucontext_t& context) {
  constexpr long written = 2;  // bit of the processor's page-fault error code
  return (context.uc_mcontext.gregs[REG_ERR] & written) != 0 ? guarded_report::access::write
                                                             : guarded_report::access::read;
}

inline unwind::frame_origin origin_of(const ucontext_t& context) {
  const auto reg = [&context](int number) {
    return static_cast<std::uintptr_t>(context.uc_mcontext.gregs[number]);
  };
  return {reg(REG_RIP) + 1, reg(REG_RSP), reg(REG_RBP)};
}

}  // namespace tarn::fault_handler
