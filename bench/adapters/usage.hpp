// SPDX-License-Identifier: MIT
// What a part of the program has used: time, calls of operator new, page faults; and the memory of the process. This header
// replaces operator new and delete: include it in one file of a program.
// Thread safety: operator new by any thread; usage by one.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace bench {

inline std::atomic<std::uint64_t> news{0};

class usage {
 public:
  // JSON members: seconds, processor seconds, calls of operator new and page faults since the construction.
  void print(const char* part) const {
    const sample end = now();
    std::printf("\"%s\": {\"seconds\": %.3f, \"cpu_seconds\": %.3f, \"news\": %llu, \"page_faults\": %ld}, ",
                part, end.seconds - begin_.seconds, end.cpu_seconds - begin_.cpu_seconds,
                static_cast<unsigned long long>(end.news - begin_.news), end.faults - begin_.faults);
  }

  static long resident_kib() {
    long total = 0;
    long resident = 0;
    if (std::FILE* const file = std::fopen("/proc/self/statm", "r")) {
      if (std::fscanf(file, "%ld %ld", &total, &resident) != 2) resident = 0;
      std::fclose(file);
    }
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
  }

 private:
  struct sample {
    double seconds;
    double cpu_seconds;
    std::uint64_t news;
    long faults;
  };
  static double of(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  }
  static sample now() {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return {std::chrono::duration<double>(time).count(), of(used.ru_utime) + of(used.ru_stime),
            news.load(std::memory_order_relaxed), used.ru_minflt};
  }

  sample begin_ = now();
};

inline void* counted_new(std::size_t bytes) noexcept {
  news.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes != 0 ? bytes : 1);
}

}  // namespace bench

// Not inlined: GCC warns of malloc and free where it sees them behind new and delete.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* const block = bench::counted_new(bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return bench::counted_new(bytes);
}
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return operator new(bytes); }
[[gnu::noinline]] void* operator new[](std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return bench::counted_new(bytes);
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t /*bytes*/) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete[](void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete[](void* block, std::size_t /*bytes*/) noexcept { std::free(block); }
