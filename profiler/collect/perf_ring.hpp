// SPDX-License-Identifier: MIT
// perf_ring: the memory into which the kernel writes the records of perf events. Owned by fault_events, for one thread. The
// kernel writes records whole, and does not write over what has not been read.
#pragma once

#include <linux/perf_event.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace tarn::profiler {

// Reads the fields of a record in order; beyond its end they are 0.
class record_reader {
 public:
  record_reader(const perf_event_header& header, const unsigned char* begin)
      : header_(header), at_(begin + sizeof header), end_(begin + header.size) {}

  const perf_event_header& header() const noexcept { return header_; }
  bool is_at_end() const noexcept { return at_ >= end_; }
  std::uint64_t word() { return next<std::uint64_t>(); }
  std::uint32_t half() { return next<std::uint32_t>(); }
  std::string text() const {
    const auto* begin = reinterpret_cast<const char*>(at_);
    return {begin, strnlen(begin, static_cast<std::size_t>(end_ - at_))};
  }
  // Every record that is not a sample ends with pid, tid and time, and with the event's id if samples begin with it.
  std::uint64_t time_at_end(bool has_id) const {
    std::uint64_t time = 0;
    std::memcpy(&time, end_ - (has_id ? 16 : 8), sizeof time);
    return time;
  }

 private:
  template <class Number>
  Number next() {
    Number value = 0;
    if (end_ - at_ < static_cast<std::ptrdiff_t>(sizeof value)) return 0;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  const perf_event_header& header_;
  const unsigned char* at_;
  const unsigned char* end_;
};

class perf_ring {
 public:
  perf_ring() = default;
  ~perf_ring();
  perf_ring(perf_ring&& other) noexcept { *this = std::move(other); }
  perf_ring& operator=(perf_ring&& other) noexcept;

  // Maps the memory of an event: `bytes`, a power of two of pages. Returns an errno value; 0: success.
  int map(int event, std::size_t bytes);
  bool is_mapped() const noexcept { return memory_ != nullptr; }

  // Positions in bytes, ever growing: behind the last record, and behind the last one that was read.
  std::uint64_t head() const noexcept;
  std::uint64_t tail() const noexcept;
  void set_tail(std::uint64_t tail) noexcept;
  // The record at `tail`, in one piece until the next call, and its header; null: what is there is no record.
  const unsigned char* record_at(std::uint64_t tail, std::uint64_t head, perf_event_header& header);

 private:
  perf_event_mmap_page* page() const noexcept { return static_cast<perf_event_mmap_page*>(memory_); }

  void* memory_ = nullptr;
  std::size_t bytes_ = 0;              // of records; a page goes before them
  std::size_t page_bytes_ = 0;         // of the system
  std::vector<unsigned char> record_;  // one that goes beyond the memory's end
};

}  // namespace tarn::profiler
