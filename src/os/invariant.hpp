// SPDX-License-Identifier: MIT
// invariant: how structures check the equations that their headers state.
//
// A structure has a function validate(), or validate_locked() if a lock guards it: one TARN_INVARIANT for each
// equation.
// Builds with TARN_CHECKS call it where the equations must hold: lock_guard(lock, structure) before it releases the
// lock, is_check_due() elsewhere. Other builds call it in tests only. A broken equation ends the process with the name
// of the structure, the equation, and the structure's address.
#pragma once

#include <cstddef>

#include "base/compiler.hpp"
#include "os/report.hpp"

#define TARN_INVARIANT(structure, at, ...) \
  (TARN_LIKELY(__VA_ARGS__) ? void()       \
                            : ::tarn::os::fatal("broken invariant of " structure ": " #__VA_ARGS__, at))

namespace tarn::os {

#if TARN_CHECKS
inline thread_local unsigned checks_asked = 0;
#endif
// A prime, so that no cycle of calls leaves a structure out. A sanitizer makes a walk ten times as slow.
inline constexpr unsigned check_interval = TARN_TSAN + TARN_ASAN != 0 ? 509 : 61;

// Whether this is a call at which a structure is to be checked; always false without TARN_CHECKS. A check may walk a
// whole structure, so after a thread's first calls only one in check_interval is one, and fewer for a structure of
// `length` items: what is broken stays so and is found later.
inline bool is_check_due([[maybe_unused]] std::size_t length = 0) {
#if TARN_CHECKS
  const unsigned asked = checks_asked++;
  return asked < check_interval || asked % (check_interval + length / 16) == 0;
#else
  return false;
#endif
}

}  // namespace tarn::os
