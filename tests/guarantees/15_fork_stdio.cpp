// SPDX-License-Identifier: MIT
// Line 15: fork while other threads are inside stdio. fork takes libc's stream locks after it has run the allocator's
// handlers. If those hold the heap's locks meanwhile, a thread that holds a stream and waits for the heap deadlocks
// with fork.
#include <atomic>

#include "check.hpp"

using namespace guarantee;

namespace {

std::atomic<bool> stop{false};
std::atomic<size_t> streams_used{0};
FILE* common_stream = nullptr;

// Opens and closes streams: libc locks the list of all streams while it frees their buffers.
void* open_and_close(void*) {
  while (!stop.load(std::memory_order_relaxed)) {
    FILE* const stream = fopen("/dev/null", "w");
    if (stream == nullptr) continue;
    fprintf(stream, "%f %d", 1.0 / 3, 7);
    fflush(nullptr);
    fclose(stream);
    streams_used.fetch_add(1, std::memory_order_relaxed);
  }
  return nullptr;
}

// Grows a memory stream, which allocates with the stream's lock held.
void* grow_memory_stream(void*) {
  while (!stop.load(std::memory_order_relaxed)) {
    char* text = nullptr;
    size_t length = 0;
    FILE* const stream = open_memstream(&text, &length);
    for (int i = 0; i < 500; ++i) fprintf(stream, "line %d %0100d\n", i, i);
    fclose(stream);
    free(text);
    streams_used.fetch_add(1, std::memory_order_relaxed);
  }
  return nullptr;
}

// Shares one stream with the other threads, and allocates and frees with its lock held.
void* share_stream(void*) {
  while (!stop.load(std::memory_order_relaxed)) {
    char* line = nullptr;
    size_t capacity = 0;
    flockfile(common_stream);
    rewind(common_stream);
    const ssize_t got = getline(&line, &capacity, common_stream);
    free(line);
    if (got < 0) clearerr(common_stream);
    fprintf(common_stream, "%0200d\n", 5);
    funlockfile(common_stream);
    streams_used.fetch_add(1, std::memory_order_relaxed);
  }
  return nullptr;
}

int be_a_child() {
  for (int i = 0; i < 20; ++i) {
    FILE* const stream = fopen("/proc/self/stat", "r");
    char* line = nullptr;
    size_t capacity = 0;
    TARN_CHECK(stream != nullptr && getline(&line, &capacity, stream) > 0,
               "stdio does not work in the child");
    fclose(stream);
    free(line);
    free(malloc(size_t{1} << i));
  }
  return holds;
}

}  // namespace

int main() {
  start();
  const int forks = static_cast<int>((long_run() ? 20'000 : 300) / slowness());
  common_stream = tmpfile();
  if (common_stream == nullptr) skip("tmpfile failed");
  // The loop runs in a child, because the process that forks may hang in fork; the child then ends by its alarm.
  const child_result result = run_in_child(long_run() ? 3600 : 60, [forks] {
    pthread_t threads[6];
    void* (*const bodies[])(void*) = {open_and_close, grow_memory_stream, share_stream};
    for (size_t i = 0; i < 6; ++i) threads[i] = start_thread(bodies[i % 3], nullptr);
    for (int i = 0; i < forks; ++i)
      expect_good(run_in_child(20, be_a_child), "a child of fork against stdio");
    stop.store(true);
    for (const pthread_t thread : threads) pthread_join(thread, nullptr);
    TARN_CHECK(streams_used.load() > 100, "the threads used only %zu streams", streams_used.load());
    return holds;
  });
  expect_good(result, "fork against threads inside stdio");
  measured("%d forks against 6 threads inside stdio", forks);
  return holds;
}
