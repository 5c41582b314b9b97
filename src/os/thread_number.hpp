// SPDX-License-Identifier: MIT
// The calling thread's number as tools show it, without a system call, which a sandbox may forbid.
#pragma once

#include <pthread.h>

namespace tarn::os {

// glibc keeps the number with the thread, and tells it by the owner of a mutex. In a process made by a raw clone it is
// that of the thread that was copied.
inline long thread_number() {
  pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&own);
  const long number = own.__data.__owner;
  pthread_mutex_unlock(&own);
  return number;
}

}  // namespace tarn::os
