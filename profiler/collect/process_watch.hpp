// SPDX-License-Identifier: MIT
// process_watch: what is read of a process from time to time while it runs: its counters, what its memory consists of, and
// which of its blocks can still be reached while it waits at its end; and when each is due. Owned by the recording of the
// process, for one thread. Times are on the raw clock unless stated otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "profiler/collect/leak_look.hpp"
#include "profiler/collect/memory_splitter.hpp"
#include "profiler/collect/process_model.hpp"
#include "profiler/collect/timeline.hpp"

namespace tarn::profiler {

class process_watch {
 public:
  process_watch(std::uint64_t now, std::uint64_t checkpoint_ns)
      : next_counters_ns_(now), next_checkpoint_ns_(now + checkpoint_ns) {}

  // Whether something is due; true: its next time is set.
  bool is_look_due(std::uint64_t now);
  bool are_names_due(std::uint64_t now, std::uint64_t start_ns);
  bool are_counters_due(std::uint64_t now) const { return now >= next_counters_ns_; }
  // `processes`: so many are watched. To be called once the counters are read.
  void plan_counters(std::uint64_t now, std::size_t processes);
  bool is_checkpoint_due(std::uint64_t now) const { return now >= next_checkpoint_ns_; }
  // The last one took `took_ns`; there are `least_ns` between two.
  void plan_checkpoint(std::uint64_t now, std::uint64_t took_ns, std::uint64_t least_ns);

  timeline& counters() noexcept { return counters_; }
  const timeline& counters() const noexcept { return counters_; }
  // `meanwhile`: as in memory_splitter.
  void split_memory(std::uint32_t process, const process_model& model, std::uint64_t time_ns,
                    const std::function<void()>& meanwhile) {
    memory_.take(process, model, time_ns, meanwhile);
  }
  // The same when it is time for it: after an interval, and at once when more memory is `resident`, or live, than at any
  // split before; as long as splits take a small part of the time.
  void split_memory_when_due(std::uint32_t process, const process_model& model, double resident,
                             std::uint64_t time_ns, const std::function<void()>& meanwhile);
  memory_history memory() const { return memory_.history(); }

  // True the first time: the process is to be asked to wait at its end.
  bool ask() { return !std::exchange(asked_, true); }
  bool has_seen_end() const noexcept { return seen_end_; }
  void see_end() noexcept { seen_end_ = true; }
  void set_leaks(leak_answer answer, std::uint64_t took_ns);
  // `reason`: why leaks are not known where the process was not seen at its end.
  void fill_leaks(nlohmann::json& meta, const std::string& reason) const;

 private:
  timeline counters_;
  memory_splitter memory_;
  std::uint64_t next_split_ns_ = 0;   // since the process's start
  std::uint64_t split_spent_ns_ = 0;  // processor time
  double split_resident_ = 0;         // the most at any split that was due
  double split_live_ = 0;             // likewise
  std::uint64_t next_counters_ns_;
  std::uint64_t next_look_ns_ = 0;   // when to check whether it still runs, and to read its peak
  std::uint64_t next_names_ns_ = 0;  // when to read the names of its threads
  std::uint64_t next_checkpoint_ns_;
  bool asked_ = false;
  bool seen_end_ = false;  // it has waited and was examined; leaks_ is filled
  leak_answer leaks_;
  std::uint64_t leak_look_ns_ = 0;  // duration of that examination
};

}  // namespace tarn::profiler
