// SPDX-License-Identifier: MIT
// call_timer: the time between two points of one thread, and whether the kernel interrupted the thread in between.
//
// When the kernel preempts, migrates or signals a thread outside of the critical section that its rseq_cs pointer
// names, it sets that pointer to null (rseq(2), Linux 4.18). So a pointer to an empty section, set before and read
// afterwards, reveals every interruption at the price of two stores and a load. libc registers the rseq area (glibc
// 2.35). Where it has not, or another user of rseq (a per-CPU allocator) has set the pointer since, the result
// is `doubtful`, and the collector decides by the duration.
//
// Signal-safe, and needs no initialisation. An exception that leaves the timed call leaves the pointer set: harmless,
// as the section is static and has no length.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profiler/proc/tick_source.hpp"

// Defined by glibc 2.35 and later; address null otherwise.
extern "C" [[gnu::weak]] const std::ptrdiff_t __rseq_offset;  // NOLINT(readability-identifier-naming)
extern "C" [[gnu::weak]] const unsigned int __rseq_size;      // NOLINT(readability-identifier-naming)

namespace tarn::profiler::recorder {

// struct rseq_cs and struct rseq of the kernel's interface, as far as they are used.
struct alignas(32) restartable_section {
  std::uint32_t version;
  std::uint32_t flags;
  std::uint64_t start;
  std::uint64_t length;
  std::uint64_t abort;
};
struct restartable_area {
  std::uint32_t cpu_id_start;
  std::uint32_t cpu_id;
  std::uint64_t section;
};

// A section of length 0. Its abort address follows the signature that libc registered, as the kernel requires.
const restartable_section* section_of_no_length();

enum class timing : std::uint8_t {
  none,         // not timed
  whole,        // the thread kept its processor
  interrupted,  // the kernel took it away: `ticks` is not the thread's time
  doubtful      // not known whether it was interrupted
};

struct call_time {
  std::uint64_t end = 0;      // in ticks of the source, not shifted; 0: not timed, the event is of now
  std::uint64_t ticks = 0;    // from the start to the end
  std::uint64_t nothing = 0;  // duration of a call that does nothing, measured right after; 0: not measured
  timing known = timing::none;
};

class call_timer {
 public:
  call_timer() = default;  // not running
  explicit call_timer(tick_source source) { start(source); }

  void start(tick_source source) {
    source_ = source;
    area_ = find_area();
    if (area_ != nullptr) {
      // relaxed, as all accesses below: shared only with the kernel on this thread
      __atomic_store_n(&area_->section, reinterpret_cast<std::uint64_t>(section_of_no_length()),
                       __ATOMIC_RELAXED);
    }
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    start_ = read_ticks(source_);
  }

  bool is_running() const { return start_ != 0; }

  // Requires that it is running.
  call_time stop() {
    call_time result;
    result.end = read_ticks(source_);
    result.ticks = result.end - start_;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    result.known = timing::doubtful;
    if (area_ == nullptr) return result;
    const std::uint64_t left = __atomic_load_n(&area_->section, __ATOMIC_RELAXED);
    if (left == reinterpret_cast<std::uint64_t>(section_of_no_length())) {
      __atomic_store_n(&area_->section, 0, __ATOMIC_RELAXED);
      result.known = timing::whole;
    } else if (left == 0) {
      result.known = timing::interrupted;
    }
    return result;
  }

 private:
  static restartable_area* find_area() {
    if (&__rseq_offset == nullptr || &__rseq_size == nullptr || __rseq_size == 0) return nullptr;
    return reinterpret_cast<restartable_area*>(static_cast<char*>(__builtin_thread_pointer()) +
                                               __rseq_offset);
  }

  std::uint64_t start_ = 0;
  restartable_area* area_ = nullptr;
  tick_source source_ = tick_source::counter;
};

}  // namespace tarn::profiler::recorder
