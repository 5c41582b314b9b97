// SPDX-License-Identifier: MIT
// Line 16: a library that contains libtarn-api.a can be closed while threads that used it live, also if it was not linked
// with -z nodelete. The threads end afterwards, and a child can be forked. Opened anew, it has the same heap.
#include "check.hpp"

using namespace guarantee;

namespace {

constexpr int thread_count = 4;

pthread_barrier_t used;
pthread_barrier_t closed;
void (*use_heap)();

void* work(void*) {
  use_heap();
  pthread_barrier_wait(&used);
  pthread_barrier_wait(&closed);
  return nullptr;
}

void open_use_and_close(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  TARN_CHECK(library != nullptr, "dlopen: %s", dlerror());
  use_heap = reinterpret_cast<void (*)()>(dlsym(library, "use_heap"));
  TARN_CHECK(use_heap != nullptr, "dlsym: %s", dlerror());
  pthread_t threads[thread_count];
  for (pthread_t& thread : threads) thread = start_thread(work, nullptr);
  use_heap();
  pthread_barrier_wait(&used);
  TARN_CHECK(dlclose(library) == 0, "dlclose: %s", dlerror());
  pthread_barrier_wait(&closed);
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  expect_good(run_in_child(20, [] { return holds; }), "a child after dlclose");
}

int open_twice() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
  if (length <= 0) return not_checkable;
  path[length] = '\0';
  strcpy(strrchr(path, '/') + 1, "16_archive_plugin.so");
  pthread_barrier_init(&used, nullptr, thread_count + 1);
  pthread_barrier_init(&closed, nullptr, thread_count + 1);
  for (int round = 0; round < 2; ++round) open_use_and_close(path);
  return holds;
}

}  // namespace

int main() {
  expect_good(run_in_child(60, open_twice), "a library with libtarn-api.a is closed");
  // With a background thread, which the archive has only on request.
  setenv("TARN_BACKGROUND", "on", 1);
  expect_good(run_in_child(60, open_twice), "the same with TARN_BACKGROUND=on");
  measured("%d threads ended after dlclose, in each of 4 rounds", thread_count);
  return holds;
}
