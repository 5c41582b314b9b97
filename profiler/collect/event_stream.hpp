// SPDX-License-Identifier: MIT
// event_stream: decodes the words of one ring into events of its process, in order. A word that is no event, or an
// event that is cut off, ends the stream; so a ring that the program has overwritten does no harm. The process may
// still write to the words while they are read, so peek reads each word of an event once and keeps a copy.
//
// Invariant: position() is the beginning of an event or the end of the words, never beyond the end.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "profiler/analyze/opened_elf.hpp"
#include "profiler/collect/process_model.hpp"
#include "profiler/proc/ticks.hpp"
#include "profiler/record/session.hpp"

namespace tarn::profiler {

// Receives what a stream holds besides events: loaded modules, and source lines of interpreted functions.
class module_sink {
 public:
  virtual void loaded(loaded_elf library) = 0;
  // Requires that `address` is a script_address.
  virtual void add_script_line(std::uint64_t address, const source_frame& line) = 0;

 protected:
  ~module_sink() = default;
};

class event_stream {
 public:
  // `words` is a ring of `ring_words`, a power of two.
  void reset(const std::uint64_t* words, std::uint64_t ring_words, process_model* model,
             const tick_clock* clock, module_sink* modules, std::uint64_t start_ns);

  // The words before `head` are written now.
  void extend(std::uint64_t head) noexcept { head_ = head; }
  // The time of the next event in ns since the process's start; false at the end. Consumes everything without a
  // time on the way (modules, nodes, notes).
  bool peek(std::uint64_t& time_ns);
  // Hands the event that peek has found to the model. Requires that peek has just returned true.
  void take();
  std::uint64_t position() const noexcept { return at_; }
  bool is_broken() const noexcept { return broken_; }
  std::uint32_t thread() const noexcept { return thread_; }
  const std::uint64_t* words() const noexcept { return words_; }

 private:
  struct notes {
    std::uint64_t size = 0;
    std::uint64_t alignment = 0;
    std::uint64_t usable = 0;
    std::uint64_t checked_pages = 0;
    std::uint64_t resident_pages = 0;
    call_duration took;
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
  std::uint64_t ticks_ = 0;               // time of the last event
  std::array<std::uint64_t, 3> event_{};  // copy of the words of the event that peek has found
  std::uint64_t event_words_ = 0;         // number of words in it
  std::uint64_t next_ticks_ = 0;
  std::uint64_t next_ns_ = 0;
  std::uint64_t start_ns_ = 0;
  process_model* model_ = nullptr;
  const tick_clock* clock_ = nullptr;
  module_sink* modules_ = nullptr;
  std::vector<std::uint32_t> nodes_;  // the model's node for each node id of the ring
  notes notes_;
  std::uint8_t halvings_ = 0;
  std::uint32_t thread_ = 0;
  bool has_thread_ = false;
  bool broken_ = false;
};

}  // namespace tarn::profiler
