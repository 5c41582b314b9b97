// SPDX-License-Identifier: MIT
// control_client: asks a process that has libtarn and the option `control` (src/control/client.hpp has the protocol).
//
// The socket is found by the kernel's list, not by its name: the thread "tarn-control" of the process holds it, and
// /proc/PID/net/unix has its path, which is reached through /proc/PID/root. So the process may live in other namespaces
// for processes, files and networks. What answers must be the process that was asked for.
// Thread safety: any thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace tarn::cli {

// The path of the process's control socket, as the process sees it. None: `reason` says why.
std::optional<std::string> find_control_socket(pid_t process, std::string& reason);

// What the process answers to "COMMAND ARGUMENTS". Throws cli_error (refused), also if the process refuses.
std::string ask_process(pid_t process, const std::string& command);

// The processes of this user (of all users, for root) that have a control socket, and whose name (comm) is `name`.
std::vector<pid_t> controlled_processes(const std::string& name);

// The process's name (comm), printable; "" if there is no such process.
std::string name_of_process(pid_t process);

// Throws cli_error (usage) if the word is no process id.
pid_t process_of(const std::string& word);

}  // namespace tarn::cli
