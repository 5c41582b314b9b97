// SPDX-License-Identifier: MIT
// control_client: asks a process that has libtarn and the option `control` (src/observe/socket/client.hpp has the protocol).
//
// The socket is found by the kernel's list, not by its name: the thread "tarn-control" of the process holds it, and
// /proc/PID/net/unix has its path, which is reached through /proc/PID/root. So the process may live in other namespaces
// for processes, files and networks. What answers must be the process that was asked for, by the kernel's word; what it
// answers may be anything, and is only limited here: process_answers.hpp has the readers.
// Thread safety: any thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace tarn::cli {

struct control_door {
  std::string task;                // the number of the control thread
  std::vector<std::string> paths;  // of its socket, as the process sees it; others may have added more
};

// None: `reason` says why.
std::optional<control_door> find_control_door(pid_t process, std::string& reason);

struct answer_limits {
  std::size_t bytes = std::size_t{64} << 10;
  double seconds = 20;  // from the question to the end of the answer
};

// What the process answers to "COMMAND ARGUMENTS". Throws cli_error (refused), also if the process refuses.
std::string ask_process(pid_t process, const std::string& command, const answer_limits& limits = {});
// The same of several at once, in the time of one. None: it has not answered.
std::vector<std::optional<std::string>> ask_processes(const std::vector<pid_t>& processes,
                                                      const std::string& command,
                                                      const answer_limits& limits);

// The processes of this user (of all users, for root) that have a control socket, and whose name (comm) is `name`; 256 at
// most.
std::vector<pid_t> controlled_processes(const std::string& name);

// The process's name (comm), printable; "" if there is no such process.
std::string name_of_process(pid_t process);

// Throws cli_error (usage) if the word is no process id.
pid_t process_of(const std::string& word);

}  // namespace tarn::cli
