// SPDX-License-Identifier: MIT
// child_process: a forked copy of this process, whose functions have the same addresses, for tests that attach to it.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>

namespace tarn::profiler {

class child_process {
 public:
  // What the child and this process both see.
  struct shared_state {
    std::atomic<unsigned> rounds;
    std::atomic<unsigned> signals;
    std::atomic<bool> wrong;
  };

  template <class Work>
  explicit child_process(const Work& work) {
    void* const memory =
        mmap(nullptr, sizeof(shared_state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = new (memory) shared_state{};
    id_ = fork();
    if (id_ == 0) {
      alarm(60);
      work(*shared_);
      _exit(0);
    }
  }
  ~child_process() {
    kill(id_, SIGKILL);
    if (!reaped_) waitpid(id_, nullptr, 0);
    munmap(shared_, sizeof(shared_state));
  }
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;

  pid_t id() const { return id_; }
  shared_state& shared() { return *shared_; }
  // Its state in /proc: S for sleeping, T for stopped.
  bool comes_to(char wanted) const {
    for (int tries = 0; tries < 5000; ++tries, usleep(1000)) {
      char state = 0;
      if (FILE* const file = fopen(("/proc/" + std::to_string(id_) + "/stat").c_str(), "r")) {
        if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 0;
        fclose(file);
      }
      if (state == wanted) return true;
    }
    return false;
  }
  // Whether the child does further rounds.
  bool goes_on() const {
    const unsigned before = shared_->rounds.load();
    for (int tries = 0; tries < 5000; ++tries, usleep(1000))
      if (shared_->rounds.load() > before + 1) return true;
    return false;
  }
  bool has_ended() const {
    siginfo_t ended = {};
    return waitid(P_PID, static_cast<id_t>(id_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           ended.si_pid != 0;
  }
  int wait_for_end() {
    int status = 0;
    reaped_ = waitpid(id_, &status, 0) == id_;
    return status;
  }

 private:
  pid_t id_ = 0;
  shared_state* shared_ = nullptr;
  bool reaped_ = false;
};

// Sleeps and counts.
inline void do_rounds(child_process::shared_state& shared) {
  for (;; usleep(1000)) shared.rounds.fetch_add(1);
}

inline bool ptrace_is_refused() {
  const child_process child(do_rounds);
  return ptrace(PTRACE_SEIZE, child.id(), nullptr, nullptr) != 0;
}

}  // namespace tarn::profiler
