// SPDX-License-Identifier: MIT
// child_status(body): the wait status of a forked child that ends with what `body` returns; SIGALRM's if that takes a minute.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace tarn::testing_support {

template <typename Body>
int child_status(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace tarn::testing_support
