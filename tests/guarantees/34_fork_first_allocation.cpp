// SPDX-License-Identifier: MIT
// Line 34: after a fork while another thread makes the first allocation of the process, the child can use the heap. The
// first allocation makes a pthread key; this program defines a slow pthread_key_create and forks during that call.
#include <atomic>

#include "check.hpp"

using namespace guarantee;

namespace {

std::atomic<bool> slow{false};
std::atomic<bool> inside{false};

void* (*allocate)(size_t);
void (*release)(void*);

void* use_heap(void*) {
  void* const block = allocate(1000);
  TARN_CHECK(block != nullptr, "the first allocation fails");
  release(block);
  return nullptr;
}

}  // namespace

extern "C" int pthread_key_create(pthread_key_t* key, void (*destructor)(void*)) noexcept {
  if (slow.load(std::memory_order_relaxed)) {
    inside.store(true, std::memory_order_relaxed);
    sleep_ms(300);
  }
  using function = int (*)(pthread_key_t*, void (*)(void*));
  return reinterpret_cast<function>(dlsym(RTLD_NEXT, "pthread_key_create"))(key, destructor);
}

int main() {
  const char* const path = getenv("TARN_LIB_API");
  if (path == nullptr) skip("TARN_LIB_API names no library with functions of its own names");
  void* const library = dlopen(path, RTLD_NOW);
  TARN_CHECK(library != nullptr, "dlopen: %s", dlerror());
  allocate = reinterpret_cast<void* (*)(size_t)>(dlsym(library, "tarn_malloc"));
  release = reinterpret_cast<void (*)(void*)>(dlsym(library, "tarn_free"));
  slow.store(true);
  const pthread_t first = start_thread(use_heap, nullptr);
  for (int i = 0; i < 2000 && !inside.load(); ++i) sleep_ms(1);
  if (!inside.load()) skip("the first allocation does not call this program's pthread_key_create");
  slow.store(false);
  const child_result result = run_in_child(10, [] {
    use_heap(nullptr);
    return holds;
  });
  expect_good(result, "the child of a fork during the first allocation");
  pthread_join(first, nullptr);
  use_heap(nullptr);
  return holds;
}
