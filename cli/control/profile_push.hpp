// SPDX-License-Identifier: MIT
// profile_push: sends the heap profiles of processes to a store, each interval, in a thread of its own. A profile is made just
// before it is sent, one at a time: what a store does not take is dropped and counted, and the next interval has a newer one.
// So memory is that of one profile, and the processes are asked no more often than each interval, whatever the store does.
// On standard error: a line when sending begins to fail, one when the kind of reason changes (one a minute at most), and one when
// it succeeds again.
// Thread safety: metrics() by any thread; all else by one.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cli/control/http_client.hpp"
#include "cli/control/push_store.hpp"
#include "profiler/format/openmetrics.hpp"

namespace tarn::cli {

struct push_settings {
  push_store store;
  double seconds = 15;    // between two profiles of a process
  process_labels labels;  // of all processes, before what they say themselves
  std::string
      headers_file;  // lines "Name: value", read each time; empty: the variable TARN_PUSH_HEADERS has them
  std::string authorities;  // of http_client
};

struct push_source {
  std::function<std::vector<pid_t>()> processes;
  std::function<std::string(pid_t)> profile;  // of the heap, with names; may throw
  std::function<process_labels(pid_t)> labels;
};

class profile_push {
 public:
  // Throws cli_error: no libcurl, or a file cannot be read.
  profile_push(push_settings settings, push_source source);
  ~profile_push() { end(); }
  profile_push(const profile_push&) = delete;
  profile_push& operator=(const profile_push&) = delete;

  // Starts the thread, with the signal mask of this one. Of the source's functions it alone calls any until end().
  void begin();
  // Within about a second, also while the store does not answer.
  void end();
  // On standard error, after end(): how many were sent and dropped, and why, unless all were sent.
  void tell_sums() const;

  [[nodiscard]] profiler::metric_list metrics() const;

 private:
  // Why a profile was not sent.
  enum reason : unsigned { no_profile, unreachable, refused, late, reasons };
  struct outcome {
    bool is_sent = false;
    bool is_over = false;  // no other profile would be taken now
    reason why = no_profile;
    std::string problem;
    int kind = 0;  // of `problem`: problems of one kind are told of once
  };

  void run();
  void send_all(const std::vector<pid_t>& processes);
  outcome send(pid_t process, const std::vector<std::string>& headers);
  void drop(reason why, std::size_t count = 1);
  void note_unsent(const std::string& problem);
  void tell(const std::string& failure, int kind);
  void tell_silent(const std::string& problem);
  std::vector<std::string> headers() const;
  // False: it is over.
  bool wait_until(double moment);

  push_settings settings_;
  push_source source_;
  http_client client_;
  // Of the thread, while it runs.
  bool is_bad_ = false;      // sending fails
  bool has_unsent_ = false;  // a profile was on its way at the end
  std::string last_;         // why sending fails, the last time
  int told_kind_ = 0;        // of the reason that was told last
  int last_kind_ = 0;        // of last_
  double next_change_ = 0;   // when another reason may be told
  std::uint64_t lost_ = 0;   // and were not told of
  bool has_silent_ = false;  // there are processes that give no profile
  double not_before_ = 0;    // as the store asks for
  std::atomic<std::uint64_t> sent_{0};
  std::atomic<std::uint64_t> sent_bytes_{0};
  std::atomic<std::uint64_t> dropped_[reasons] = {};
  std::atomic<bool> is_up_{false};
  std::atomic<bool> is_over_{false};
  std::mutex lock_;
  std::condition_variable end_;
  std::thread thread_;
};

}  // namespace tarn::cli
