// SPDX-License-Identifier: MIT
// other_user: lets root's tarn become the user of the process that it records, and keep only the rights to trace
// and to see page faults. So the process can open what is made for it, and the files belong to its user. Does
// nothing if this process is not root's, or if the recorded one is. Throws cli_error.
#pragma once

#include <sys/types.h>

namespace tarn::cli {

// Does nothing where this process is not root's, or that process is. Throws cli_error.
void become_user_of(pid_t process);

// A process may open another process's descriptors in /proc only if it has all the rights of that process. If this
// process has kept some rights, a copy of it without any holds the descriptors that are open now.
class plain_copy {
 public:
  plain_copy();
  ~plain_copy();
  plain_copy(const plain_copy&) = delete;
  plain_copy& operator=(const plain_copy&) = delete;

  // The process id of the copy, or of this process if no copy is needed.
  [[nodiscard]] pid_t process() const noexcept;

 private:
  pid_t copy_ = 0;
};

}  // namespace tarn::cli
