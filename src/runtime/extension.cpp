// SPDX-License-Identifier: MIT
#include "runtime/extension.hpp"

namespace tarn::engine {

constinit std::atomic<const extension*> extensions{nullptr};

namespace {
constinit os::mutex lock{os::lock_rank::extensions};
}

os::mutex& attach_lock() { return lock; }

void attach(extension& e) {
  os::lock_guard guard(lock);
  if (e.attached) return;
  e.attached = true;
  std::atomic<const extension*>* link = &extensions;
  const extension* behind = link->load(std::memory_order_relaxed);
  while (behind != nullptr && behind->order < e.order) {
    // Extensions are not constant; who reads the list takes them for it.
    link = const_cast<std::atomic<const extension*>*>(&behind->next);
    behind = link->load(std::memory_order_relaxed);
  }
  e.next.store(behind, std::memory_order_relaxed);
  // release: partner of the acquire in for_each_extension().
  link->store(&e, std::memory_order_release);
}

}  // namespace tarn::engine
