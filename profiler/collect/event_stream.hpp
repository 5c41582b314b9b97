// SPDX-License-Identifier: MIT
// event_stream: the words of one ring as events of its process, one after another. What is no event, or is cut off, ends
// the stream: a ring that a program has overwritten does no harm. A process may write to the words while they are read: those
// of an event are read once, by peek.
//
// Invariant: position() is where an event begins, or the end; it is never behind the end.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "profiler/collect/process_model.hpp"
#include "profiler/collect/ticks.hpp"
#include "profiler/record/session.hpp"

namespace tarn::profiler {

// Takes what a stream tells besides events: of modules, and of lines of scripts.
class module_sink {
 public:
  virtual void loaded(const std::string& path, std::uint64_t base, std::uint64_t start,
                      std::uint64_t end) = 0;
  // Requires that it is a script_address.
  virtual void told_line(std::uint64_t address, const source_frame& line) = 0;

 protected:
  ~module_sink() = default;
};

class event_stream {
 public:
  // `words` is a ring of `ring_words`, a power of two.
  void reset(const std::uint64_t* words, std::uint64_t ring_words, process_model* model,
             const tick_clock* clock, module_sink* modules, std::uint64_t start_ns);

  // More has been written, up to `head`.
  void extend(std::uint64_t head) noexcept { head_ = head; }
  // The time of the next event in ns since the process's start; false at the end. Takes in what has no time.
  bool peek(std::uint64_t& time_ns);
  // Requires that peek has just been true.
  void take();
  std::uint64_t position() const noexcept { return at_; }
  bool is_broken() const noexcept { return broken_; }
  bool has_thread() const noexcept { return has_thread_; }
  std::uint32_t thread() const noexcept { return thread_; }

 private:
  struct notes {
    std::uint64_t size = 0;
    std::uint64_t alignment = 0;
    std::uint64_t usable = 0;
    std::uint64_t checked_pages = 0;
    std::uint64_t resident_pages = 0;
    call_duration took;
    std::uint64_t stack_low = 0;
  };
  std::uint64_t word(std::uint64_t offset) const noexcept { return words_[(at_ + offset) & mask_]; }
  bool needs(std::uint64_t count);
  bool take_untimed(std::uint64_t first);
  bool take_text(std::uint64_t first);
  void take_module(const std::string& text, std::uint64_t words_at);
  void take_line(const std::string& text, std::uint64_t words_at);
  void take_note(std::uint64_t first);
  void begin_thread(std::uint32_t id);
  std::uint64_t ns_of(std::uint64_t ticks) const;
  call_duration duration(std::uint64_t figure) const;
  std::uint32_t node_at(std::uint64_t id) const;
  allocation_event allocation(event_kind kind) const;
  release_event release(event_kind kind) const;

  const std::uint64_t* words_ = nullptr;
  std::uint64_t mask_ = 0;
  std::uint64_t head_ = 0;
  std::uint64_t at_ = 0;
  std::uint64_t ticks_ = 0;               // of the last event
  std::array<std::uint64_t, 3> event_{};  // the words of the one that peek has seen
  std::uint64_t event_words_ = 0;         // how many it has
  std::uint64_t next_ticks_ = 0;
  std::uint64_t next_ns_ = 0;
  std::uint64_t start_ns_ = 0;
  process_model* model_ = nullptr;
  const tick_clock* clock_ = nullptr;
  module_sink* modules_ = nullptr;
  std::vector<std::uint32_t> nodes_;  // of the model, by the ring's ids
  notes notes_;
  std::uint32_t thread_ = 0;
  bool has_thread_ = false;
  bool broken_ = false;
};

}  // namespace tarn::profiler
