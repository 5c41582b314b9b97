// SPDX-License-Identifier: MIT
#include "profiler/record/attach_calls.hpp"

#include <errno.h>
#include <pthread.h>

#include "os/syscall.hpp"
#include "profiler/record/import_slots.hpp"
#include "profiler/record/recorder.hpp"
#include "profiler/record/recorder_state.hpp"
#include "profiler/record/symbol_search.hpp"

using namespace tarn::profiler;
using namespace tarn::profiler::recorder;

namespace {

// Marks the calling thread as busy: what libc and the dynamic linker allocate for the recorder is not the
// program's. Preserves errno.
class own_work {
 public:
  own_work() { self.busy = calling; }
  ~own_work() {
    self.busy = before_;
    errno = error_;
  }
  own_work(const own_work&) = delete;
  own_work& operator=(const own_work&) = delete;

 private:
  std::uint8_t before_ = self.busy;
  int error_ = errno;
};

class held_lock {
 public:
  explicit held_lock(pthread_mutex_t* lock) : lock_(lock) {
    is_held_ = lock == nullptr || pthread_mutex_trylock(lock) == 0;
  }
  ~held_lock() {
    if (lock_ != nullptr && is_held_) pthread_mutex_unlock(lock_);
  }
  held_lock(const held_lock&) = delete;
  held_lock& operator=(const held_lock&) = delete;

  [[nodiscard]] bool is_held() const noexcept { return is_held_; }

 private:
  pthread_mutex_t* lock_;
  bool is_held_;
};

attach_result result_of(begin_result begun) {
  switch (begun) {
    case begin_result::recording: return attach_result::recording;
    case begin_result::no_memory: return attach_result::no_memory;
    case begin_result::no_session: return attach_result::no_session;
    case begin_result::no_file: break;
  }
  return attach_result::no_file;
}

// Whether a collector still takes this process's events.
bool is_recording_taken() {
  // relaxed, both: the end of a collector during this is noticed later
  return process->detached.load(std::memory_order_relaxed) == 0 &&
         session.header->recording.load(std::memory_order_relaxed) != 0 &&
         tarn::os::system_call(SYS_kill, session.header->collector, 0) != -ESRCH;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

long tarn_record_detach();

long tarn_record_attach(const char* place, pthread_mutex_t* lock) {
  const held_lock alone(lock);
  if (!alone.is_held()) return static_cast<long>(attach_result::busy);
  const own_work here;
  if (is_preloaded()) return static_cast<long>(attach_result::preloaded);
  if (session.header != nullptr) {
    if (is_recording_taken()) return static_cast<long>(attach_result::already);
    tarn_record_detach();
    return static_cast<long>(attach_result::left_over);
  }
  if (!find_real_functions()) return static_cast<long>(attach_result::no_memory);
  library_closing();  // libraries may have been closed before the hook of dlclose took effect
  library_closed();
  look_for_operators();
  const attach_result result = result_of(begin_recording(place));
  if (result != attach_result::recording) {
    release_recording();
    return static_cast<long>(result);
  }
  const slot_count slots = lead_slots_to_hooks();
  if (slots.changed == 0) detach();
  const auto refused = static_cast<long>(slots.refused) << refused_shift;
  return static_cast<long>(slots.changed != 0 ? attach_result::recording : attach_result::no_slots) | refused;
}

long tarn_record_look(pthread_mutex_t* lock) {
  const held_lock alone(lock);
  if (!alone.is_held()) return -1;
  const own_work here;
  look_for_operators();
  return static_cast<long>(lead_slots_to_hooks().changed);
}

const std::uint32_t* tarn_record_loads() { return &dlopen_calls(); }

long tarn_record_detach() {
  const own_work here;
  const slot_count slots = lead_slots_back();
  if (process != nullptr) {
    process_ends(ending_by::detach);
    detach();
  }
  return static_cast<long>(slots.refused);
}

long tarn_record_release() {
  const own_work here;
  return release_recording() ? 1 : 0;
}

}  // extern "C"
#pragma GCC visibility pop
