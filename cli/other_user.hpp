// SPDX-License-Identifier: MIT
// other_user: root's tarn becomes the user of the process that it records, and keeps of root's rights the one to trace and
// the one to see page faults: so the process can open what is made for it, and the files are its user's.
#pragma once

#include <sys/types.h>

namespace tarn::cli {

// Does nothing where this process is not root's, or that process is. Throws cli_error.
void become_user_of(pid_t process);

// A process may open another one's descriptors in /proc only where it has all the rights that the other one has. Where this
// process has kept some, a copy of it without any holds the descriptors that it has now.
class plain_copy {
 public:
  plain_copy();
  ~plain_copy();
  plain_copy(const plain_copy&) = delete;
  plain_copy& operator=(const plain_copy&) = delete;

  // Of the copy, or of this process where there is no need for one.
  [[nodiscard]] pid_t process() const noexcept;

 private:
  pid_t copy_ = 0;
};

}  // namespace tarn::cli
