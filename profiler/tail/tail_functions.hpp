// SPDX-License-Identifier: MIT
// tail_functions: the malloc and the operators behind the hooks. Any thread.
#pragma once

#include <cstdint>

#include "profiler/record/next_functions.hpp"
#include "profiler/record/next_operators.hpp"

namespace tarn::profiler::tail {

// False while they are being looked up, which may allocate: then the early store serves.
bool find_functions();
inline bool are_found() {
  return __builtin_expect(recorder::real.malloc != nullptr, 1) != 0 || find_functions();
}
// Looks them up unless that is done; takes the dynamic linker's lock.
const recorder::operators& next_operators();

// Whether the address lies in the malloc or in the operators behind the hooks, of which one calls another; or in this library,
// from which it may jump there.
bool is_inner(std::uintptr_t return_address);

}  // namespace tarn::profiler::tail
