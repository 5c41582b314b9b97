// SPDX-License-Identifier: MIT
// full_fence: a sequentially consistent fence: of two threads that both fence between a store and a load of the other's
// variable, at least one sees the other's store.
#pragma once

#include <atomic>

#include "base/compiler.hpp"

namespace tarn {

#if TARN_TSAN
inline std::atomic<unsigned> fence_word{0};
#endif

TARN_ALWAYS_INLINE void full_fence() {
#if TARN_TSAN
  // ThreadSanitizer does not model fences. A read-modify-write on a word shared by all fences gives at least as much
  // order.
  fence_word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace tarn
