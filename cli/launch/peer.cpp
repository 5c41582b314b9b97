// SPDX-License-Identifier: MIT
#include "cli/launch/peer.hpp"

#include <fmt/core.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>
#include <vector>

#include "cli/show/cli_error.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

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

open_file::~open_file() {
  if (number_ >= 0) close(number_);
}

open_file::open_file(open_file&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

open_file& open_file::operator=(open_file&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

}  // namespace tarn::cli
