// SPDX-License-Identifier: MIT
// peer: who is at the other end of a local socket, by the kernel's word. A name says nothing: whoever comes first has it.
// Both commands that ask and processes that are asked decide here whether they believe the other side.
// Thread safety: any thread.
#pragma once

#include <sys/types.h>

#include <optional>

namespace tarn::cli {

struct peer {
  pid_t process = 0;  // as seen from here; 0: it is in no process namespace that can be seen from here
  uid_t user = 0;
  gid_t group = 0;
};

std::optional<peer> peer_of(int socket);

// The peer is the process `asked`, with the user of the thread `task` (a folder of /proc), which is to hold its socket.
bool is_process(const peer& who, pid_t asked, const char* task);

// The peer may say what it recorded of `program`: it is of this process's user, or root; for root, also of the user
// whom the program belongs to entirely. Where root asks, it must not be in a container: its numbers and names would mean
// other processes and files.
bool may_record(const peer& who, pid_t program);

// Requests are taken from this process's user and root.
bool may_ask(const peer& who);

// Root takes the rights of that user, and keeps none of its own. Does nothing where this process is not root's, or the
// user is root. Throws cli_error.
void become(const peer& who);

// An open file; -1: none. Closes it.
class open_file {
 public:
  open_file() = default;
  explicit open_file(int number) : number_(number) {}
  ~open_file();
  open_file(open_file&& other) noexcept;
  open_file& operator=(open_file&& other) noexcept;

  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_ = -1;
};

}  // namespace tarn::cli
