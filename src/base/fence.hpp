// SPDX-License-Identifier: MIT
// full_fence: orders everything before it against everything after it, in every thread that also fences.
#pragma once

#include <atomic>

#include "base/compiler.hpp"

namespace tarn {

#if TARN_TSAN
inline std::atomic<unsigned> fence_word{0};
#endif

TARN_ALWAYS_INLINE void full_fence() {
#if TARN_TSAN
  // ThreadSanitizer does not model fences. A read-modify-write that every fence shares orders more, not less.
  fence_word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace tarn
