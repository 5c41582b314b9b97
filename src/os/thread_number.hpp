// SPDX-License-Identifier: MIT
// thread_number: the kernel's id of the calling thread, without a system call, which a sandbox may forbid.
#pragma once

#include <pthread.h>

namespace tarn::os {

// glibc stores the id in the thread's descriptor and copies it into a locked mutex as the owner. In a process made by a
// raw clone it is the id of the thread that was copied.
inline long thread_number() {
  pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&own);
  const long number = own.__data.__owner;
  pthread_mutex_unlock(&own);
  return number;
}

}  // namespace tarn::os
