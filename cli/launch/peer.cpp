// SPDX-License-Identifier: MIT
#include "cli/launch/peer.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <vector>

#include "cli/launch/library_search.hpp"
#include "cli/show/cli_error.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

namespace {

constexpr int perfmon = 38;  // CAP_PERFMON, Linux 5.8

bool needs_holder = false;

bool keep_rights() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct rights[2] = {};
  rights[0].permitted = rights[0].effective = 1U << CAP_SYS_PTRACE;
  rights[1].permitted = rights[1].effective = 1U << (perfmon - 32);
  return syscall(SYS_capset, &header, rights) == 0;
}

void close_all(unsigned from, unsigned to) {
  if (from > to || syscall(SYS_close_range, from, to, 0) == 0) return;
  const auto limit = static_cast<unsigned>(sysconf(_SC_OPEN_MAX));  // before Linux 5.9
  for (unsigned one = from; one < limit && one <= to; ++one) close(static_cast<int>(one));
}

std::uint64_t rights_of(pid_t process, const char* set) {
  const std::string status = profiler::proc_text(static_cast<std::uint32_t>(process), "status");
  return std::strtoull(profiler::status_line(status, set).c_str(), nullptr, 16);
}

// Runs in the forked child, which still has the kept rights, so that the user cannot look into it; exec takes them, by that
// bit also from root.
[[noreturn]] void become_holder(std::vector<int> kept, int failure) {
  const int nothing = open("/dev/null", O_RDWR);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (std::find(kept.begin(), kept.end(), standard) == kept.end()) dup2(nothing, standard);
    kept.push_back(standard);
  }
  for (const int one : kept) fcntl(one, F_SETFD, 0);
  kept.push_back(failure);
  std::sort(kept.begin(), kept.end());
  unsigned next = 0;
  for (const int one : kept) {
    if (one > static_cast<int>(next)) close_all(next, static_cast<unsigned>(one) - 1);
    next = static_cast<unsigned>(one) + 1;
  }
  close_all(next, ~0U);
  const std::string parent = std::to_string(getppid());
  const char* const arguments[] = {"tarn", hold_descriptors_word, parent.c_str(), nullptr};
  const char* const nowhere[] = {nullptr};
  prctl(PR_SET_SECUREBITS, SECBIT_NOROOT, 0, 0, 0);
  if (nothing >= 0 && setsid() > 0 && chdir("/") == 0)
    execve("/proc/self/exe", const_cast<char**>(arguments), const_cast<char**>(nowhere));
  const int error = errno;
  const ssize_t told = write(failure, &error, sizeof error);
  _exit(told == sizeof error ? exit_code::not_executable : exit_code::refused);
}

}  // namespace

void become_user_of(pid_t process) {
  struct stat status = {};
  const std::string place = fmt::format("/proc/{}", process);
  if (geteuid() != 0 || stat(place.c_str(), &status) != 0) return;
  if (status.st_uid == 0) {
    needs_holder = (rights_of(getpid(), "CapPrm") & ~rights_of(process, "CapEff")) != 0;
    return;
  }
  const bool done = prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 && setgroups(0, nullptr) == 0 &&
                    setresgid(status.st_gid, status.st_gid, status.st_gid) == 0 &&
                    setresuid(status.st_uid, status.st_uid, status.st_uid) == 0 && keep_rights() &&
                    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;  // so that the process finds this one in /proc
  if (!done) {
    throw cli_error(
        exit_code::refused,
        fmt::format("tarn cannot become the user of process {}: {}", process, std::strerror(errno)),
        "Run tarn as that user.");
  }
  needs_holder = true;
}

descriptor_holder::descriptor_holder(const std::vector<int>& descriptors) {
  int failure[2] = {-1, -1};
  if (!needs_holder) return;
  if (pipe2(failure, O_CLOEXEC) != 0) throw resource_error("cannot make a pipe", errno);
  const std::string own = own_executable();
  holder_ = fork();
  if (holder_ == 0) become_holder(descriptors, failure[1]);
  close(failure[1]);
  // The read returns once the other program is executed.
  int error = holder_ < 0 ? errno : 0;
  while (read(failure[0], &error, sizeof error) < 0 && errno == EINTR) {
  }
  close(failure[0]);
  if (error == 0) return;
  end();
  throw cli_error(exit_code::refused,
                  fmt::format("the user of the process cannot execute {}: {}", own, std::strerror(error)),
                  "Install tarn where that user can execute it.");
}

descriptor_holder::~descriptor_holder() { end(); }

void descriptor_holder::end() noexcept {
  if (holder_ <= 0) return;
  kill(holder_, SIGKILL);
  waitpid(holder_, nullptr, 0);
  holder_ = 0;
}

pid_t descriptor_holder::process() const noexcept { return holder_ > 0 ? holder_ : getpid(); }

void hold_descriptors(const std::string& parent) {
  prctl(PR_SET_NAME, "tarn", 0, 0, 0);  // exec took the name of the link in /proc
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  while (std::to_string(getppid()) == parent) pause();  // it may have ended before that call
  _exit(0);
}

namespace {

// Real, effective, saved and file system user of a process or thread; empty: it is gone.
std::vector<uid_t> users_of(pid_t process, const std::string& file) {
  const std::string status = profiler::proc_text(static_cast<std::uint32_t>(process), file.c_str());
  std::istringstream words(profiler::status_line(status, "Uid"));
  std::vector<uid_t> users;
  for (uid_t each = 0; words >> each;) users.push_back(each);
  return users;
}

// A namespace is an inode of the kernel's; false where it may not be looked at.
bool shares_process_namespace(pid_t other) {
  struct stat own = {};
  struct stat theirs = {};
  return stat("/proc/self/ns/pid", &own) == 0 &&
         stat(fmt::format("/proc/{}/ns/pid", other).c_str(), &theirs) == 0 && own.st_dev == theirs.st_dev &&
         own.st_ino == theirs.st_ino;
}

}  // namespace

std::optional<peer> peer_of(int socket) {
  ucred found = {};
  socklen_t bytes = sizeof found;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &found, &bytes) != 0) return std::nullopt;
  return peer{found.pid, found.uid, found.gid};
}

bool is_process(const peer& who, pid_t asked, const char* task) {
  const std::vector<uid_t> users = users_of(asked, fmt::format("task/{}/status", task));
  return who.process == asked && std::find(users.begin(), users.end(), who.user) != users.end();
}

bool may_record(const peer& who, pid_t program) {
  if (geteuid() != 0) return may_ask(who);
  if (who.process <= 0 || !shares_process_namespace(who.process)) return false;
  if (who.user == 0) return true;
  const std::vector<uid_t> users = users_of(program, "status");
  return !users.empty() &&
         std::all_of(users.begin(), users.end(), [&](uid_t each) { return each == who.user; });
}

bool may_ask(const peer& who) { return who.user == geteuid() || who.user == 0; }

void become(const peer& who) {
  if (geteuid() != 0 || who.user == 0) return;
  if (setgroups(0, nullptr) == 0 && setresgid(who.group, who.group, who.group) == 0 &&
      setresuid(who.user, who.user, who.user) == 0)
    return;
  throw cli_error(exit_code::refused,
                  fmt::format("tarn cannot take the rights of user {}: {}", who.user, std::strerror(errno)),
                  "Run tarn as that user.");
}

}  // namespace tarn::cli
