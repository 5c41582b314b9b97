// SPDX-License-Identifier: MIT
// errno_keeper: restores errno at the end of a scope: functions that free memory must not change it.
// Thread safety: errno is the calling thread's own.
#pragma once

#include <cerrno>

namespace tarn::os {

class errno_keeper {
 public:
  errno_keeper() : saved_(errno) {}
  ~errno_keeper() { errno = saved_; }
  errno_keeper(const errno_keeper&) = delete;
  errno_keeper& operator=(const errno_keeper&) = delete;

 private:
  int saved_;
};

}  // namespace tarn::os
