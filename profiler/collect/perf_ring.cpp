// SPDX-License-Identifier: MIT
#include "profiler/collect/perf_ring.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tarn::profiler {

perf_ring::~perf_ring() {
  if (memory_ != nullptr) munmap(memory_, bytes_ + page_bytes_);
}

perf_ring& perf_ring::operator=(perf_ring&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(page_bytes_, other.page_bytes_);
  std::swap(record_, other.record_);
  return *this;
}

int perf_ring::map(int event, std::size_t bytes) {
  page_bytes_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  bytes_ = bytes;
  void* memory = mmap(nullptr, bytes_ + page_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);
  if (memory == MAP_FAILED) return errno;
  memory_ = memory;
  return 0;
}

std::uint64_t perf_ring::head() const noexcept {
  // acquire: partner of the kernel's release: the records before it are whole
  return __atomic_load_n(&page()->data_head, __ATOMIC_ACQUIRE);
}

std::uint64_t perf_ring::tail() const noexcept { return page()->data_tail; }

void perf_ring::set_tail(std::uint64_t tail) noexcept {
  // release: partner of the kernel's acquire: the records have been read
  __atomic_store_n(&page()->data_tail, tail, __ATOMIC_RELEASE);
}

const unsigned char* perf_ring::record_at(std::uint64_t tail, std::uint64_t head, perf_event_header& header) {
  const auto* data = static_cast<const unsigned char*>(memory_) + page_bytes_;
  const std::size_t at = tail % bytes_;
  // records are aligned to 8 bytes, so the header never wraps around
  std::memcpy(&header, data + at, sizeof header);
  if (header.size < sizeof header || tail + header.size > head) return nullptr;
  if (at + header.size <= bytes_) return data + at;
  record_.resize(header.size);
  const std::size_t first = bytes_ - at;
  std::memcpy(record_.data(), data + at, first);
  std::memcpy(record_.data() + first, data, header.size - first);
  return record_.data();
}

}  // namespace tarn::profiler
