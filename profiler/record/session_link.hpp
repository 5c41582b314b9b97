// SPDX-License-Identifier: MIT
// session_link: how a process joins its session: it maps the header that the collector has made, and makes the
// process file, sends it to the collector and keeps it mapped (session.hpp describes both). Thread safety:
// open_session is called by one thread, before all others; so is make_process_file, in each process image.
// Invariant: nothing here allocates, and no descriptor is left open. After the first allocation of a process none
// of the system calls here is needed any more, so a seccomp filter that the program installs later does no harm.
#pragma once

#include <cstdint>

#include "profiler/record/session.hpp"

namespace tarn::profiler::recorder {

// Whether the result of a system call is an error.
constexpr bool failed(long result) { return result < 0 && result > -4096; }

// The content of TARN_RECORD.
struct session_link {
  const session_header* header = nullptr;  // read-only; null: no session
  std::uint64_t collector = 0;             // its process id, in its own pid namespace
  std::uint64_t address = 0;
  std::uint64_t secret = 0;
  std::uint64_t socket = 0;  // the collector's descriptor of its other socket; 0: none
};

// The mapping of this process's file. A forked child does not inherit it.
struct process_file {
  process_page* page = nullptr;  // null: there is none
  ring_header* rings = nullptr;
  std::uint64_t* words = nullptr;
  std::uint32_t ring_count = 0;
};

// `place`: a value of session_variable. The result's header is null if the collector's file cannot be opened.
session_link open_session(const char* place);

// Makes this process's file, maps it, and returns its descriptor; -1: failure. It has as many rings as RLIMIT_FSIZE
// and the address space allow.
int make_process_file(const session_header& header, process_file& made);

// Sends the file to the collector, which reads its page from then on; closes `descriptor`. Waits while the
// collector is busy. False: the collector did not get it.
bool send_process_file(const session_link& link, int descriptor);

void unmap_process_file(const session_header& header, const process_file& file);

// Waits for the collector as long as it is alive and makes progress.
class collector_patience {
 public:
  // Sleeps for a moment. False: the collector has ended, is silent, or has worked for many rounds without doing what the caller
  // waits for.
  bool wait(const session_header& header);
  // Why wait() returned false: the collector has shown no sign of life, or begun no round, for too long. It may come back.
  bool is_silent() const { return is_silent_; }
  // The collector has done part of what the caller waits for.
  void sign_of_progress() { rounds_ = waits_in_round_ = 0; }

 private:
  std::uint64_t beat_ = 0;
  std::uint64_t round_ = 0;
  unsigned waits_ = 0;           // since the last sign of life
  unsigned waits_in_round_ = 0;  // without progress
  unsigned rounds_ = 0;          // of the collector without progress
  bool is_silent_ = false;
};

}  // namespace tarn::profiler::recorder
