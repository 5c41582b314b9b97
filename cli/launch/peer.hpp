// SPDX-License-Identifier: MIT
// peer: who is at the other end of a local socket, by the kernel's word. A name says nothing: whoever comes first has it.
// Both commands that ask and processes that are asked decide here whether they believe the other side. And whose rights this
// process has while it deals with another user's.
// Thread safety: any thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace tarn::cli {

// Lets root's tarn become the user of the process that it records, and keep only the rights to trace and to see page faults.
// So the process can open what is made for it, and the files belong to its user. Changes nothing if this process is not
// root's; only notes which rights the recorded one has if that is root's. Throws cli_error.
void become_user_of(pid_t process);

// A process may open another process's descriptors in /proc only if it has all the rights of that process. If this
// process has rights that the recorded one lacks, another one without any holds the descriptors. It belongs to the program's user
// entirely, who may look into it and trace it: so it is a new program (exec, not a copy of this one's memory), without
// environment, session or terminal, and has no other descriptors.
class descriptor_holder {
 public:
  // Throws cli_error.
  explicit descriptor_holder(const std::vector<int>& descriptors);
  ~descriptor_holder();
  descriptor_holder(const descriptor_holder&) = delete;
  descriptor_holder& operator=(const descriptor_holder&) = delete;

  // Its process id, or that of this process if none is needed.
  [[nodiscard]] pid_t process() const noexcept;

 private:
  void end() noexcept;

  pid_t holder_ = 0;
};

// The hidden word by which this command starts itself as that process, and what it does: it waits until `parent` ends.
inline constexpr const char* hold_descriptors_word = "--hold-descriptors";
[[noreturn]] void hold_descriptors(const std::string& parent);

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

}  // namespace tarn::cli
