// SPDX-License-Identifier: MIT
// Line 16: 2,000 times, three threads open and close libraries that use the heap, while another thread allocates:
// memory grows by less than 8 MiB.
#include <atomic>
#include <string>

#include "check.hpp"

using namespace guarantee;

namespace {

constexpr size_t copy_count = 3;
constexpr size_t warm_up = 300;
constexpr size_t cycle_count = 2000;

// std::string makes this program link libstdc++. If the plugin were first to load it, dlclose could not unload the
// plugin.
std::string copies[copy_count];
std::atomic<size_t> cycles{0};
std::atomic<size_t> until{0};
std::atomic<bool> stop{false};

// Each thread opens a copy of its own, because the loader loads one file only once.
void copy_file(const char* from, const char* to) {
  const int source = open(from, O_RDONLY | O_CLOEXEC);
  if (source < 0) skip("%s, which is built beside this program, is missing", from);
  const int target = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
  char buffer[65536];
  for (ssize_t got; (got = read(source, buffer, sizeof buffer)) > 0;) {
    if (write(target, buffer, static_cast<size_t>(got)) != got) skip("%s cannot be written", to);
  }
  close(source);
  close(target);
}

void make_copies(char* directory) {
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
  if (length <= 0) skip("/proc/self/exe cannot be read");
  std::string plugin(program, static_cast<size_t>(length));
  plugin.replace(plugin.rfind('/'), std::string::npos, "/16_plugin.so");
  if (mkdtemp(directory) == nullptr) skip("no temporary folder");
  for (size_t i = 0; i < copy_count; ++i) {
    copies[i] = std::string(directory) + "/plugin_" + std::to_string(i) + ".so";
    copy_file(plugin.c_str(), copies[i].c_str());
  }
}

// Runs in a new thread: the loader keeps a library until all threads that have thread_local objects of it have ended.
void* work_in_library(void* library) {
  const auto work = reinterpret_cast<size_t (*)(size_t)>(dlsym(library, "plugin_work"));
  TARN_CHECK(work != nullptr && work(100) == 700, "the library's own heap objects are wrong");
  return nullptr;
}

void* open_and_close(void* argument) {
  const char* const path = copies[reinterpret_cast<uintptr_t>(argument)].c_str();
  while (cycles.fetch_add(1) < until.load()) {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    TARN_CHECK(library != nullptr, "dlopen fails: %s", dlerror());
    pthread_join(start_thread(work_in_library, library), nullptr);
    TARN_CHECK(dlclose(library) == 0, "dlclose fails: %s", dlerror());
    if (dlopen(path, RTLD_NOW | RTLD_NOLOAD) != nullptr) skip("dlclose does not unload libraries here");
  }
  return nullptr;
}

void* allocate_until_stopped(void*) {
  random_numbers random(16);
  while (!stop.load(std::memory_order_relaxed)) {
    void* blocks[32];
    for (void*& block : blocks) block = malloc(random.size_up_to_bits(14));
    for (void* block : blocks) free(block);
  }
  return nullptr;
}

void run_cycles(size_t count) {
  cycles.store(0);
  until.store(count);
  pthread_t threads[copy_count];
  for (uintptr_t i = 0; i < copy_count; ++i)
    threads[i] = start_thread(open_and_close, reinterpret_cast<void*>(i));
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
}

}  // namespace

int main() {
  start();
  char directory[] = "/tmp/tarn_guarantee_XXXXXX";
  make_copies(directory);
  const pthread_t other = start_thread(allocate_until_stopped, nullptr);
  run_cycles(warm_up);
  const size_t before = rss_bytes();
  run_cycles(cycle_count);
  const size_t grown = growth(before, rss_bytes());
  stop.store(true);
  pthread_join(other, nullptr);
  for (const std::string& copy : copies) unlink(copy.c_str());
  rmdir(directory);
  measured("%zu cycles of dlopen and dlclose in %zu threads: + %.2f MiB", cycle_count, copy_count,
           in_mib(grown));
  need_own_memory_figures();
  TARN_CHECK(grown < 8 * mib, "%zu cycles of dlopen and dlclose grow by %.1f MiB", cycle_count,
             in_mib(grown));
  return holds;
}
