// SPDX-License-Identifier: MIT
// origin: the caller of the function into which this is inlined.
#pragma once

#include "profiler/record/call_path.hpp"

namespace tarn::profiler::recorder {

[[gnu::always_inline]] inline call_origin caller() {
  // The hook's frame record begins with the caller's frame pointer, on both processors.
  return {reinterpret_cast<std::uintptr_t>(__builtin_extract_return_addr(__builtin_return_address(0))),
          reinterpret_cast<std::uintptr_t>(__builtin_dwarf_cfa()),
          *static_cast<const std::uintptr_t*>(__builtin_frame_address(0))};
}

[[gnu::always_inline]] inline std::uintptr_t return_address() {
  return reinterpret_cast<std::uintptr_t>(__builtin_extract_return_addr(__builtin_return_address(0)));
}

}  // namespace tarn::profiler::recorder
