// SPDX-License-Identifier: MIT
// session_link: how a process gets to its session: the header that the collector has made, and the process file, which it
// makes, sends to the collector and keeps mapped (session.hpp says what they hold).
// Thread safety: open_session is for one thread, before all others; make_process_file likewise for each process image.
// Invariant: nothing here allocates, and no descriptor is left open. No system call here is needed after the first
// allocation of a process: a sandbox that is closed later does not notice the recorder's threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profiler/record/session.hpp"

namespace tarn::profiler::recorder {

// Of a system call's result.
constexpr bool failed(long result) { return result < 0 && result > -4096; }

// What TARN_RECORD has told.
struct session_link {
  const session_header* header = nullptr;  // read-only; null: no session
  std::uint64_t collector = 0;             // its process, in the namespace that it was started in
  std::uint64_t address = 0;
  std::uint64_t secret = 0;
  std::uint64_t socket = 0;  // descriptor of the collector's
};

// Where this process's file is mapped. A forked child does not have the mapping.
struct process_file {
  process_page* page = nullptr;  // null: there is none
  ring_header* rings = nullptr;
  std::uint64_t* words = nullptr;
  std::uint32_t ring_count = 0;
};

// `place`: the value of session_variable. Its header is null where the collector's files cannot be opened.
session_link open_session(const char* place);

// A file of this process's own, mapped and zeroed, and its descriptor. As many rings as RLIMIT_FSIZE and the address
// space allow. -1: there is none.
int make_process_file(const session_header& header, process_file& made);

// Gives the file to the collector, which looks at its page from then on; closes `descriptor`. Waits while the collector
// is busy. False: the collector did not get it.
bool send_process_file(const session_link& link, int descriptor);

void unmap_process_file(const session_header& header, const process_file& file);

// Waiting for the collector, for as long as it works.
class collector_patience {
 public:
  // Sleeps for a moment. False: the collector has ended, is silent, or has worked for many rounds without doing what is
  // waited for.
  bool wait(const session_header& header);
  // It has done some of it.
  void sign_of_progress() { rounds_ = 0; }

 private:
  std::uint64_t beat_ = 0;
  unsigned waits_ = 0;   // since the last sign of life
  unsigned rounds_ = 0;  // of the collector without progress
};

}  // namespace tarn::profiler::recorder
