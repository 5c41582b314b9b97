// SPDX-License-Identifier: MIT
// attached_process: a running process into which the recorder has been loaded. What is called there is called by one of
// its threads, at a moment when that thread is within neither malloc nor the dynamic linker; the other threads run on.
// For one thread of this process, whose signals are held back (remote_thread says why).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "profiler/attach/remote_module.hpp"
#include "profiler/attach/remote_thread.hpp"
#include "profiler/attach/safe_point.hpp"
#include "profiler/record/attach_calls.hpp"

namespace tarn::profiler {

class attached_process {
 public:
  // Loads `library` and begins the recording of the session at `place`. Throws attach_error, process_gone.
  // `meanwhile` is called while a safe point is waited for: threads of the process may be waiting for the recording.
  attached_process(pid_t process, const std::string& library, const std::string& place,
                   std::function<void()> meanwhile);
  ~attached_process();
  attached_process(const attached_process&) = delete;
  attached_process& operator=(const attached_process&) = delete;

  // False: the process has ended, or has executed another program.
  [[nodiscard]] bool is_there() const;
  // Makes the hooks take effect in libraries that were loaded since. To be called often: it does something only after a
  // call of dlopen. Throws as the constructor.
  void look_for_libraries();
  // Ends the recording, in this process or in one that was forked by it, and puts everything back. Throws as the
  // constructor.
  void detach() { detach(process_); }
  void detach(pid_t process);

  // Of all stops of one of its threads.
  [[nodiscard]] double longest_stop_seconds() const noexcept { return longest_stop_; }
  // Import slots that could not be changed.
  [[nodiscard]] std::uint32_t refused_slots() const noexcept { return refused_slots_; }

 private:
  struct workplace;
  struct thread_name {
    pid_t process;
    pid_t thread;
  };

  void at_safe_point(pid_t process, const std::function<void(workplace&)>& work);
  bool try_thread(thread_name who, const remote_module& libc, safe_point& point,
                  const std::function<void(workplace&)>& work);
  attach_result begin(workplace& there, const std::string& library, const std::string& place);
  void release(pid_t process);

  [[nodiscard]] bool has_recorder(pid_t process) const;

  pid_t process_;
  std::function<void()> meanwhile_;
  std::vector<std::unique_ptr<remote_thread>> late_;  // threads that have not stopped yet
  std::uint64_t look_ = 0;                            // functions of the recorder there
  std::uint64_t detach_ = 0;
  std::uint64_t release_ = 0;
  std::vector<unsigned char>
      code_;                      // the beginning of the first of them, by which the recorder is known there
  std::uint64_t loads_word_ = 0;  // where it counts calls of dlopen
  std::uint32_t last_loads_ = 0;
  unsigned looks_left_ = 0;
  double next_look_ = 0;
  double longest_stop_ = 0;
  std::uint32_t refused_slots_ = 0;
};

}  // namespace tarn::profiler
