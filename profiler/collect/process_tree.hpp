// SPDX-License-Identifier: MIT
// process_tree: the processes that are being recorded, who made whom, and which of them have called exec. Owned by the
// recording, for one thread.
//
// Invariant: no two processes have the same serial, except 0; a process's images are in the order of their times. For a
// process no exec is noted that is older than its newest image.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "profiler/collect/recorded_process.hpp"

namespace tarn::profiler {

class process_tree {
 public:
  using entries = std::vector<std::unique_ptr<recorded_process>>;

  const entries& all() const noexcept { return processes_; }
  // Null: there is none. The newest image is the current one.
  recorded_process* by_id(std::uint32_t process) const;
  recorded_process* by_serial(std::uint64_t serial) const;
  // Only a parent of the same user: what a process of other rights has reported must not get into its profile.
  recorded_process* parent_of(const recorded_process& process) const;
  recorded_process& add(std::unique_ptr<recorded_process> process);
  std::unique_ptr<recorded_process> remove(const recorded_process& process);
  // One after the other, in turn. Requires that there is one.
  recorded_process& next();

  // The kernel has reported that the process called exec; its new image has not arrived.
  void note_exec(std::uint32_t process, std::uint64_t time_ns);
  // The last time until then at which the process called exec, which is forgotten; 0: not known.
  std::uint64_t take_exec(std::uint32_t process, std::uint64_t until_ns);
  // Whether the event is of an image that has not arrived.
  bool is_of_next_image(std::uint32_t process, std::uint64_t time_ns) const;
  void validate() const;

 private:
  // Of processes with an exec; those of images without a recorder are among them.
  static constexpr std::size_t most_execs = std::size_t{1} << 16;

  entries processes_;
  std::size_t next_ = 0;                                             // index into processes_
  std::map<std::uint32_t, std::vector<std::uint64_t>> executed_ns_;  // by process id, ascending
};

}  // namespace tarn::profiler
