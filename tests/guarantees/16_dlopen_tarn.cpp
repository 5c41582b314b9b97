// SPDX-License-Identifier: MIT
// Line 16: a running program that does not preload libtarn or libtarn-api can open them by dlopen, in main and in
// threads, and can close and reopen them while threads that used them still live. The program keeps its own malloc.
// TARN_LIB and TARN_LIB_API name the two files. Of a library without tarn_malloc the test calls malloc, realloc and
// free.
#include "check.hpp"

using namespace guarantee;

namespace {

struct loaded_heap {
  void* handle;
  void* (*allocate)(size_t);
  void* (*resize)(void*, size_t);
  void (*release)(void*);
};

void* symbol(void* handle, const char* own, const char* standard) {
  void* const found = dlsym(handle, own);
  return found != nullptr ? found : dlsym(handle, standard);
}

loaded_heap load(const char* path, int mode) {
  void* const handle = dlopen(path, mode);
  TARN_CHECK(handle != nullptr, "dlopen fails: %s", dlerror());
  const loaded_heap heap{
      handle, reinterpret_cast<void* (*)(size_t)>(symbol(handle, "tarn_malloc", "malloc")),
      reinterpret_cast<void* (*)(void*, size_t)>(symbol(handle, "tarn_realloc", "realloc")),
      reinterpret_cast<void (*)(void*)>(symbol(handle, "tarn_free", "free"))};
  TARN_CHECK(heap.allocate && heap.resize && heap.release, "%s lacks tarn_malloc, tarn_realloc or tarn_free",
             path);
  return heap;
}

void use(const loaded_heap& heap, uint64_t seed) {
  static constexpr size_t count = 500;
  void* blocks[count];
  random_numbers random(seed);
  for (size_t i = 0; i < count; ++i) {
    const size_t size = i % 100 == 0 ? random.below(4 * mib) + 64 : random.below(3000) + 64;
    blocks[i] = heap.allocate(size);
    TARN_CHECK(blocks[i] != nullptr, "no block of %zu bytes from the loaded library", size);
    stamp(blocks[i], seed + i, 0, 64);
    free(malloc(size));  // of the program's own heap
  }
  for (size_t i = 0; i < count; i += 3) {
    blocks[i] = heap.resize(blocks[i], 5000);
    TARN_CHECK(blocks[i] != nullptr, "the loaded library's realloc to 5000 bytes fails");
  }
  for (size_t i = 0; i < count; ++i) {
    TARN_CHECK(stamped(blocks[i], seed + i, 64), "a block of the loaded library changes");
    heap.release(blocks[i]);
  }
}

void* use_in_thread(void* heap) {
  use(*static_cast<loaded_heap*>(heap), reinterpret_cast<uintptr_t>(&heap));
  return nullptr;
}

// The library is closed while this thread, which has a thread cache there, is alive; the thread ends after that.
pthread_barrier_t used;
pthread_barrier_t closed;
void* outlive_library(void* heap) {
  use_in_thread(heap);
  pthread_barrier_wait(&used);
  pthread_barrier_wait(&closed);
  return nullptr;
}

void* open_in_thread(void* path) {
  const loaded_heap heap = load(static_cast<const char*>(path), RTLD_NOW | RTLD_LOCAL);
  use(heap, 3);
  return nullptr;
}

int open_and_use(const char* path) {
  char writable_path[4096];
  snprintf(writable_path, sizeof writable_path, "%s", path);
  pthread_join(start_thread(open_in_thread, writable_path), nullptr);
  pthread_barrier_init(&used, nullptr, 2);
  pthread_barrier_init(&closed, nullptr, 2);
  for (int cycle = 0; cycle < 20; ++cycle) {
    loaded_heap heap =
        load(path, (cycle % 2 == 0 ? RTLD_NOW : RTLD_LAZY) | (cycle % 4 < 2 ? RTLD_LOCAL : RTLD_GLOBAL));
    use(heap, static_cast<uint64_t>(cycle));
    pthread_t threads[4];
    for (pthread_t& thread : threads) thread = start_thread(use_in_thread, &heap);
    for (const pthread_t thread : threads) pthread_join(thread, nullptr);
    const pthread_t outliving = start_thread(outlive_library, &heap);
    pthread_barrier_wait(&used);
    TARN_CHECK(dlclose(heap.handle) == 0, "dlclose fails: %s", dlerror());
    pthread_barrier_wait(&closed);
    pthread_join(outliving, nullptr);
  }
  TARN_CHECK(!same_file(provider_of("malloc"), path), "opening the library replaces the program's malloc");
  return holds;
}

int api_provides_no_malloc(const char* path) {
  const loaded_heap heap = load(path, RTLD_NOW | RTLD_LOCAL);
  for (const char* name : {"malloc", "free", "calloc", "realloc", "_Znwm", "_ZdlPv"}) {
    void* const address = dlsym(heap.handle, name);
    Dl_info info{};
    const bool own = address != nullptr && dladdr(address, &info) != 0 && same_file(info.dli_fname, path);
    TARN_CHECK(!own, "libtarn-api, which must export tarn_* only, also provides %s", name);
  }
  return holds;
}

}  // namespace

int main() {
  const char* tarn = getenv("TARN_LIB");
  const char* api = getenv("TARN_LIB_API");
  if (tarn == nullptr || *tarn == '\0') skip("TARN_LIB does not name the library to open");
  TARN_CHECK(getenv("LD_PRELOAD") == nullptr, "this test must run without LD_PRELOAD");
  expect_good(run_in_child(60, [tarn] { return open_and_use(tarn); }), "libtarn by dlopen");
  if (api != nullptr && *api != '\0') {
    expect_good(run_in_child(60, [api] { return open_and_use(api); }), "libtarn-api by dlopen");
    expect_good(run_in_child(60, [api] { return api_provides_no_malloc(api); }), "libtarn-api");
  }
  measured("opened, used by threads and closed 20 times%s", api != nullptr ? ", libtarn-api as well" : "");
  return holds;
}
