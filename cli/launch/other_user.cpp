// SPDX-License-Identifier: MIT
#include "cli/launch/other_user.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "cli/show/cli_error.hpp"

namespace tarn::cli {

namespace {

constexpr int perfmon = 38;  // CAP_PERFMON, Linux 5.8

bool has_kept_rights = false;

bool set_rights(bool keep) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct rights[2] = {};
  if (keep) {
    rights[0].permitted = rights[0].effective = 1U << CAP_SYS_PTRACE;
    rights[1].permitted = rights[1].effective = 1U << (perfmon - 32);
  }
  return syscall(SYS_capset, &header, rights) == 0;
}

}  // namespace

void become_user_of(pid_t process) {
  struct stat status = {};
  const std::string place = fmt::format("/proc/{}", process);
  if (geteuid() != 0 || stat(place.c_str(), &status) != 0 || status.st_uid == 0) return;
  const bool done = prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 && setgroups(0, nullptr) == 0 &&
                    setresgid(status.st_gid, status.st_gid, status.st_gid) == 0 &&
                    setresuid(status.st_uid, status.st_uid, status.st_uid) == 0 && set_rights(true) &&
                    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;  // so that the process finds this one in /proc
  if (!done) {
    throw cli_error(
        exit_code::refused,
        fmt::format("tarn cannot become the user of process {}: {}", process, std::strerror(errno)),
        "Run tarn as that user.");
  }
  has_kept_rights = true;
}

plain_copy::plain_copy() {
  int ready[2] = {-1, -1};
  if (!has_kept_rights || pipe2(ready, O_CLOEXEC) != 0) return;
  const pid_t parent = getpid();
  copy_ = fork();
  if (copy_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    set_rights(false);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    close(ready[0]);
    close(ready[1]);
    while (getppid() == parent) pause();
    _exit(0);
  }
  close(ready[1]);
  // The read returns once the copy has given up its rights.
  char none = 0;
  while (read(ready[0], &none, 1) < 0 && errno == EINTR) {
  }
  close(ready[0]);
}

plain_copy::~plain_copy() {
  if (copy_ <= 0) return;
  kill(copy_, SIGKILL);
  waitpid(copy_, nullptr, 0);
}

pid_t plain_copy::process() const noexcept { return copy_ > 0 ? copy_ : getpid(); }

}  // namespace tarn::cli
