// SPDX-License-Identifier: MIT
// child_subreaper: what a program leaves running when it ends (daemon(), "--daemonize", "&") would otherwise become a child of
// the system's first process, out of reach. The calling process must have one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tarn::cli {

// While it lives, orphans among the descendants become children of this process; at its end they are killed. The children
// that this process had before are not touched. Requires: meanwhile at most one other child is started, `program`.
class child_subreaper {
 public:
  child_subreaper();
  ~child_subreaper();
  child_subreaper(const child_subreaper&) = delete;
  child_subreaper& operator=(const child_subreaper&) = delete;

  // Orphans that have ended stay until they are waited for.
  void reap(pid_t program) const { (void)alive(program); }
  // Names of what still runs a moment after `program` has ended: it is no helper that is about to end, too.
  std::vector<std::string> left_by(pid_t program) const;

 private:
  std::vector<std::uint32_t> alive(pid_t program) const;  // reaps the others

  std::vector<std::uint32_t> before_;
  int was_subreaper_ = 0;
};

}  // namespace tarn::cli
