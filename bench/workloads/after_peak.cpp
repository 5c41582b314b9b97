// SPDX-License-Identifier: MIT
// after_peak: a service whose load was high for a moment. 1 GiB of blocks, most of them small, is allocated and written; all
// but one block in 1,000 is freed in random order; then the program waits.
// Prints JSON: the resident memory at the peak and at some times after it, in bytes, and the longest single call, in
// microseconds. A call in which the kernel ran another thread instead does not count.
// Known to favour: allocators that give memory back at once, in the first columns; those that never call the system, in
// the longest call.
#include <sys/resource.h>
#include <unistd.h>

#include "support.hpp"

namespace {

constexpr std::size_t peak_bytes = std::size_t{1} << 30U;
constexpr std::size_t kept_of = 1000;
constexpr double waits[] = {0.1, 1, 5, 12};  // seconds after the last free

std::size_t resident() {
  std::size_t all = 0;
  std::size_t pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%zu %zu", &all, &pages) != 2) bench::fail("no /proc/self/statm");
  std::fclose(file);
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// How often the kernel has run another thread instead of this one.
long switches() {
  rusage now{};
  getrusage(RUSAGE_THREAD, &now);
  return now.ru_nivcsw;
}

// The seconds that call() takes; 0 if it was interrupted.
template <class call_type>
double seconds_of(call_type call) {
  const long before = switches();
  const bench::stopwatch watch;
  call();
  const double seconds = watch.seconds();
  return switches() == before ? seconds : 0;
}

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  bench::rng random(1);
  std::vector<void*> blocks;
  blocks.reserve(8U << 20U);
  double longest_malloc = 0;
  double longest_free = 0;
  for (std::size_t left = options.scaled(peak_bytes); left != 0;) {
    const std::size_t size = std::min(bench::program_size(random, 5, 17), left);
    void* block = nullptr;
    longest_malloc = std::max(longest_malloc, seconds_of([&] { block = bench::allocate(size); }));
    std::memset(block, 1, size);
    blocks.push_back(block);
    left -= size;
  }
  const std::size_t peak = resident();
  for (std::size_t index = blocks.size(); index-- > 1;)
    std::swap(blocks[index], blocks[random.below(index + 1)]);
  for (std::size_t index = blocks.size() / kept_of; index < blocks.size(); ++index)
    longest_free = std::max(longest_free, seconds_of([&] { std::free(blocks[index]); }));
  std::printf("{\"peak\": %zu", peak);
  const bench::stopwatch watch;
  for (const double wait : waits) {
    while (watch.seconds() < wait) usleep(10'000);
    std::printf(", \"after %g s\": %zu", wait, resident());
  }
  std::printf(", \"longest malloc\": %.1f, \"longest free\": %.1f}\n", 1e6 * longest_malloc,
              1e6 * longest_free);
}
