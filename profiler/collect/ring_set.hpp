// SPDX-License-Identifier: MIT
// ring_set: what has come from a process and is not yet in its model: the words in its rings, and the page faults that
// the kernel has reported. They are handed to the model in the order of their times.
//
// Invariant: ring i decodes ring i of the process's memory; without memory (mode faults, or after close()) there is
// none. For one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "profiler/collect/event_stream.hpp"
#include "profiler/collect/fault_events.hpp"
#include "profiler/collect/process_memory.hpp"

namespace tarn::profiler {

class ring_set {
 public:
  // The model, the clock and the sink must stay where they are. `start_ns`: where the model's times begin, on the raw
  // clock.
  ring_set(std::unique_ptr<process_memory> memory, process_model& model, const tick_clock& clock,
           module_sink& sink, std::uint64_t start_ns)
      : memory_(std::move(memory)), model_(&model), clock_(&clock), sink_(&sink), start_ns_(start_ns) {}

  // Null: the process has no recorder.
  process_memory* memory() const noexcept { return memory_.get(); }
  const process_page* page() const noexcept { return memory_ ? &memory_->page() : nullptr; }
  // A ring or its header has values that no recorder writes: the program wrote them.
  bool is_overwritten() const noexcept { return overwritten_; }

  void add(page_fault&& fault) { faults_.push_back(std::move(fault)); }
  // Takes the rings that the process's threads have taken since the last call.
  void find_rings();
  // Hands over everything up to `until_ns` on the raw clock. `flush` is called when the model has many rows of events.
  // True: there was much.
  bool drain(std::uint64_t until_ns, const std::function<void()>& flush);
  void close();
  // What is missing of the process's events, as sentences for the profile.
  std::vector<std::string> refusals() const;
  void validate() const;

 private:
  friend class ring_set_test_access;

  struct ring {
    event_stream stream;
    std::uint64_t reported = 0;  // the position that was last stored in the ring's `tail`
    bool is_busy =
        false;  // so much has come that its memory is kept, as the thread will need it again at once
    bool has_next = false;      // the stream has a next event, at next_ns
    std::uint64_t next_ns = 0;  // since start_ns_
  };

  bool extend();
  void take_events(std::uint64_t until, const std::function<void()>& flush);
  // The ring with the earliest event; null: none has one. `next_of_others_ns`: is lowered to the earliest event of the others.
  ring* earliest(std::uint64_t& next_of_others_ns);
  void take_faults(std::uint64_t time_ns);
  void report(ring& one);

  std::unique_ptr<process_memory> memory_;
  std::vector<ring> rings_;
  std::vector<page_fault> faults_;
  std::size_t next_fault_ = 0;  // of faults_, while they are handed over
  bool overwritten_ = false;
  process_model* model_;
  const tick_clock* clock_;
  module_sink* sink_;
  std::uint64_t start_ns_;
};

}  // namespace tarn::profiler
