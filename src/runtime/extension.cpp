// SPDX-License-Identifier: MIT
#include "runtime/extension.hpp"

namespace tarn::engine {

constinit std::atomic<const extension*> extensions{nullptr};

void attach(extension& e) {
  const extension* first = extensions.load(std::memory_order_relaxed);
  do {
    e.next = first;
    // release: partner of the acquire in for_each_extension().
  } while (
      !extensions.compare_exchange_weak(first, &e, std::memory_order_release, std::memory_order_relaxed));
}

}  // namespace tarn::engine
