// SPDX-License-Identifier: MIT
// The first and the last act of the recorder in a process.
#include <errno.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

#include "profiler/record/own_calls.hpp"
#include "profiler/record/recorder.hpp"
#include "profiler/record/recorder_state.hpp"

namespace tarn::profiler::recorder {

namespace {

// The value of session_variable; "": there is none. Not by getenv, which may take a lock in some libc.
const char* place_of_session() {
  constexpr std::size_t length = std::string_view(session_variable).size();
  for (char** each = environ; *each != nullptr; ++each) {
    if (std::strncmp(*each, session_variable, length) == 0 && (*each)[length] == '=')
      return *each + length + 1;
  }
  return "";
}

// A child of the collector waits without being asked: it may end before the collector has seen it.
bool waits_at_end(const process_page& page) {
  // relaxed, both: nothing else depends on these values
  return session.header->recording.load(std::memory_order_relaxed) != 0 &&
         (page.parent_pid == session.header->collector ||
          page.asked_to_wait.load(std::memory_order_relaxed) != 0);
}

}  // namespace

void start() {
  // Before libc is initialised there is no environment; then a later call begins.
  if (started || real.malloc == nullptr || environ == nullptr) return;
  started = true;
  const char* const place = place_of_session();
  if (*place == 0) return;
  const std::uint8_t before = self.busy;
  self.busy = calling;
  const int error = errno;
  begin_recording(place);
  errno = error;
  self.busy = before;
}

bool is_own_memory() {
  return process == nullptr || process->file.page == nullptr ||
         process->file.page->pid == own_call(SYS_getpid);
}

void process_ends(ending_by how) {
  if (process == nullptr || process->file.page == nullptr ||
      process->detached.load(std::memory_order_relaxed) != 0 ||
      process->file.page->ended.load(std::memory_order_relaxed) != 0)
    return;
  // In a sandbox the figures that the collector has read last stand, as for a process that is killed.
  if (in_sandbox()) return;
  if (!is_own_memory()) return;
  const int error = errno;
  process->file.page->at_exit = usage_now();
  process_page& page = *process->file.page;
  // At detach, tarn waits for this call to return, and examines nothing meanwhile, so waiting for it would never
  // end.
  const bool waits = how == ending_by::exit && waits_at_end(page);
  // release: partner of the collector's acquire in waits_at_end and read_counters: at_exit is filled
  page.ended.store(waits ? ended_and_waits : ended_and_gone, std::memory_order_release);
  collector_patience patience;
  // acquire: partner of the collector's release in look_at_end: it has examined the memory
  while (waits && page.released.load(std::memory_order_acquire) == 0 && patience.wait(*session.header)) {
  }
  errno = error;
}

}  // namespace tarn::profiler::recorder
