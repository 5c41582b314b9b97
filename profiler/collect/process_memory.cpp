// SPDX-License-Identifier: MIT
#include "profiler/collect/process_memory.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>

#include "profiler/format/quantity.hpp"

namespace tarn::profiler {

std::unique_ptr<process_memory> process_memory::map(int file, std::uint32_t ring_words) {
  // Only on tmpfs is every page of a sealed file always available; reading a file on hugetlbfs may end in SIGBUS.
  struct statfs system = {};
  struct stat status = {};
  if (fstatfs(file, &system) != 0 || system.f_type != TMPFS_MAGIC || fstat(file, &status) != 0)
    return nullptr;
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & process_seals) != process_seals) return nullptr;
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  const std::uint32_t rings = rings_in(bytes, ring_words);
  if (rings == 0 || bytes != process_file_bytes(rings, ring_words)) return nullptr;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (memory == MAP_FAILED) return nullptr;
  return std::unique_ptr<process_memory>(new process_memory(memory, bytes, ring_words));
}

process_memory::process_memory(void* memory, std::size_t bytes, std::uint32_t ring_words)
    : memory_(memory), bytes_(bytes), ring_words_(ring_words), most_rings_(rings_in(bytes, ring_words)) {
  auto* start = static_cast<unsigned char*>(memory);
  page_ = static_cast<process_page*>(memory);
  const auto page_words = static_cast<std::uint32_t>(getpagesize()) / 8;
  // The page that is being read stays occupied until all of it is read, which must not be much of a ring.
  unit_words_ = ring_words / page_words >= 8 ? page_words : 0;
  rings_ = reinterpret_cast<ring_header*>(start + rings_offset);
  words_ = reinterpret_cast<const std::uint64_t*>(start + words_offset);
}

process_memory::~process_memory() { munmap(memory_, bytes_); }

std::size_t process_memory::rings() const noexcept {
  // relaxed: a ring that no thread has taken yet is all zeroes
  return std::min(page_->rings.load(std::memory_order_relaxed), most_rings_);
}

void process_memory::give_back(std::size_t ring, std::uint64_t from, std::uint64_t to) noexcept {
  auto* const words = const_cast<std::uint64_t*>(this->words(ring));
  for (std::uint64_t count = 0; from < to; from += count) {
    count = std::min(to - from, ring_words_ - from % ring_words_);
    madvise(words + from % ring_words_, count * 8, MADV_REMOVE);
  }
}

bool process_memory::waits_at_end() const noexcept {
  // acquire: partner of the process's release in process_ends: all events before it are visible
  return page_->ended.load(std::memory_order_acquire) == ended_and_waits;
}

double process_memory::lost_events() const noexcept {
  // relaxed: independent counters
  return static_cast<double>(page_->lost_nested.load(std::memory_order_relaxed)) +
         static_cast<double>(page_->lost_waiting.load(std::memory_order_relaxed));
}

std::vector<std::string> process_memory::losses() const {
  std::vector<std::string> all;
  // relaxed, both: independent counters
  if (const auto events = static_cast<double>(page_->lost_waiting.load(std::memory_order_relaxed));
      events > 0) {
    all.push_back(
        fmt::format("{} event{} lost while tarn stood still (was it stopped?): sums are lower bounds",
                    say_count(events), events == 1 ? " was" : "s were"));
  }
  if (const auto threads = static_cast<double>(page_->lost_threads.load(std::memory_order_relaxed));
      threads > 0) {
    all.push_back(
        fmt::format("{} thread{} not recorded, as there is room for {} at a time: sums are lower bounds",
                    say_count(threads), threads == 1 ? " was" : "s were", say_count(most_rings_)));
  }
  return all;
}

}  // namespace tarn::profiler
