// SPDX-License-Identifier: MIT
#include "profiler/collect/ring_set.hpp"

#include <algorithm>

#include "os/invariant.hpp"

namespace tarn::profiler {

namespace {

constexpr std::size_t event_rows_per_chunk = std::size_t{1} << 16;
// How often the ring's tail is stored, so that a waiting program goes on.
constexpr std::uint64_t words_between_reports = 8192;
// In one drain. The memory of fewer words is cheap to have again.
constexpr std::uint64_t busy_words = 4096;

}  // namespace

void ring_set::find_rings() {
  if (!memory_) return;
  for (std::size_t index = rings_.size(); index < memory_->rings(); ++index) {
    rings_.emplace_back().stream.reset(memory_->words(index), memory_->ring_words(), model_, clock_, sink_,
                                       start_ns_);
  }
  if (os::is_check_due(rings_.size())) validate();
}

void ring_set::take_faults(std::uint64_t time_ns) {
  for (; next_fault_ < faults_.size(); ++next_fault_) {
    const page_fault& fault = faults_[next_fault_];
    if (fault.time_ns - start_ns_ > time_ns) return;
    model_->fault({fault.time_ns - start_ns_, fault.address, fault.instruction, fault.thread, fault.weight,
                   fault.in_kernel});
  }
}

void ring_set::report(ring& one) {
  const auto index = static_cast<std::size_t>(&one - rings_.data());
  std::uint64_t read = one.stream.position();
  if (const std::uint64_t unit = memory_->unit_words(); unit != 0) {
    read -= read % unit;
    if (!one.is_busy) memory_->give_back(index, one.reported, read);
  }
  if (read == one.reported) return;
  one.reported = read;
  // release: partner of the producer's acquire in make_room: these words have been read
  memory_->ring(index).tail.store(one.reported, std::memory_order_release);
}

bool ring_set::extend() {
  bool much = false;
  for (std::size_t index = 0; index < rings_.size(); ++index) {
    ring& one = rings_[index];
    const std::uint64_t ring_words = memory_->ring_words();
    // acquire: partner of the producer's release in publish(): all words before `head` are written
    const std::uint64_t head = memory_->ring(index).head.load(std::memory_order_acquire);
    const std::uint64_t waiting = head - one.stream.position();
    if (waiting <= ring_words) {
      one.stream.extend(head);
    } else {
      overwritten_ = true;
    }
    much = much || waiting > ring_words / 16;
    one.is_busy = waiting > busy_words;
    one.has_next = one.stream.peek(one.next_ns);
  }
  return much;
}

ring_set::ring* ring_set::earliest(std::uint64_t& next_of_others_ns) {
  ring* first = nullptr;
  for (ring& one : rings_) {
    if (!one.has_next) continue;
    if (first == nullptr || one.next_ns < first->next_ns) {
      if (first != nullptr) next_of_others_ns = std::min(next_of_others_ns, first->next_ns);
      first = &one;
    } else {
      next_of_others_ns = std::min(next_of_others_ns, one.next_ns);
    }
  }
  return first;
}

void ring_set::take_events(std::uint64_t until, const std::function<void()>& flush) {
  for (;;) {
    std::uint64_t next_of_others_ns = until;
    ring* const first = earliest(next_of_others_ns);
    if (first == nullptr || first->next_ns > until) return;
    // Takes all events that this ring has before the next event of any other ring.
    do {
      take_faults(first->next_ns);
      first->stream.take();
      if (first->stream.position() - first->reported >= words_between_reports) report(*first);
      first->has_next = first->stream.peek(first->next_ns);
    } while (first->has_next && first->next_ns <= next_of_others_ns);
    if (model_->waiting_events() >= event_rows_per_chunk) flush();
  }
}

bool ring_set::drain(std::uint64_t until_ns, const std::function<void()>& flush) {
  std::sort(faults_.begin(), faults_.end(),
            [](const page_fault& left, const page_fault& right) { return left.time_ns < right.time_ns; });
  next_fault_ = 0;
  const std::uint64_t until = until_ns > start_ns_ ? until_ns - start_ns_ : 0;
  const bool much = extend();
  take_events(until, flush);
  take_faults(until);
  faults_.erase(faults_.begin(), faults_.begin() + static_cast<std::ptrdiff_t>(next_fault_));
  for (ring& one : rings_) {
    report(one);
    overwritten_ = overwritten_ || one.stream.is_broken();
  }
  return much;
}

void ring_set::close() {
  rings_.clear();
  memory_.reset();
}

std::vector<std::string> ring_set::refusals() const {
  std::vector<std::string> all;
  if (overwritten_)
    all.emplace_back(
        "the program has overwritten some of what its recorder told: events are missing, or wrong");
  if (page() == nullptr) return all;
  for (std::string& loss : memory_->losses()) all.push_back(std::move(loss));
  // relaxed: nothing else depends on it
  const std::uint32_t unread = page()->unread_scripts.load(std::memory_order_relaxed);
  const std::string build = ", or is built with other structures: call paths have its native code only";
  if ((unread & unread_python) != 0)
    all.push_back("Python's functions: the interpreter is not of version 3.11 to 3.13" + build);
  if ((unread & unread_lua) != 0)
    all.push_back("Lua's functions: the interpreter is not of version 5.4.3 to 5.4.8" + build);
  // relaxed: likewise
  const silence why = page()->silent_because.load(std::memory_order_relaxed);
  if (why == silence::strict_mode) {
    all.emplace_back(
        "what came after the program had entered seccomp's strict mode, which allows the recorder nothing: the "
        "recording ends there");
  }
  if (why == silence::no_collector) {
    all.emplace_back(
        "what came after the recorder had found tarn gone, or its own memory overwritten: the recording ends there");
  }
  if (why == silence::no_counter) {
    all.emplace_back(
        "what came after the program had turned off the processor's counter, by which events are timed "
        "(PR_SET_TSC): the recording ends there");
  }
  return all;
}

void ring_set::validate() const {
  TARN_INVARIANT("ring_set", this, rings_.empty() || memory_ != nullptr);
  for (std::size_t i = 0; i < rings_.size(); ++i)
    TARN_INVARIANT("ring_set", this, rings_[i].stream.words() == memory_->words(i));
}

}  // namespace tarn::profiler
