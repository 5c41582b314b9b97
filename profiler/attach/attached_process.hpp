// SPDX-License-Identifier: MIT
// attached_process: a running process into which the recorder has been loaded. Functions there are called by one of
// its threads, at a moment when that thread is at a safe point and no thread holds the dynamic linker's lock; the other
// threads keep running. A call that nevertheless has to wait for that lock is taken back, and another thread is tried.
// For one thread of this process.
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
  // Loads `library` and begins to record for the session of this address. Throws attach_error, process_gone. `meanwhile`
  // is called while it waits, as threads of the process may be waiting for the collector. If it returns false, the
  // waiting ends with an attach_error.
  attached_process(pid_t process, const std::string& library, const std::string& session,
                   std::function<bool()> meanwhile);
  ~attached_process();
  attached_process(const attached_process&) = delete;
  attached_process& operator=(const attached_process&) = delete;

  // False: the process has ended, or has executed another program.
  [[nodiscard]] bool is_there() const;
  // Makes the hooks take effect in libraries that were loaded since. To be called often: it acts only after a
  // call of dlopen. Throws as the constructor.
  void look_for_libraries();
  // Ends the recording in this process, or in a child that it forked, and restores all import slots. Throws as the
  // constructor.
  void detach() { detach(process_); }
  void detach(pid_t process);

  // The longest time for which a thread was stopped.
  [[nodiscard]] double longest_stop_seconds() const noexcept { return longest_stop_; }
  // Import slots that could not be changed.
  [[nodiscard]] std::uint32_t refused_slots() const noexcept { return refused_slots_; }

 private:
  struct call_context;
  struct target;

  void at_safe_point(pid_t process, const std::function<void(call_context&)>& work);
  bool try_thread(const target& there, pid_t id, safe_point& point,
                  const std::function<void(call_context&)>& work);
  std::vector<pid_t> candidates(pid_t process, bool first);
  void let_late_go();
  void go_on_or_end(pid_t process);
  attach_result begin(call_context& there, const std::string& library, const std::string& session);
  void release(pid_t process);

  [[nodiscard]] bool has_recorder(pid_t process) const;

  pid_t process_;
  std::function<bool()> meanwhile_;
  // Threads that were asked to stop, and have not stopped yet.
  std::vector<std::unique_ptr<remote_thread>> late_;
  std::uint64_t look_ = 0;  // addresses of the recorder's functions in the process
  std::uint64_t detach_ = 0;
  std::uint64_t release_ = 0;
  std::vector<unsigned char>
      code_;  // First bytes of the code at look_, by which the recorder is recognised in the process
  std::uint64_t loads_word_ = 0;  // address of the recorder's count of dlopen calls
  std::uint32_t last_loads_ = 0;
  unsigned looks_left_ = 0;
  double next_look_ = 0;
  double longest_stop_ = 0;
  std::uint32_t refused_slots_ = 0;
};

}  // namespace tarn::profiler
