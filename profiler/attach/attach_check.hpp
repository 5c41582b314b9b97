// SPDX-License-Identifier: MIT
// attach_check: checks whether a running process can be recorded, before anything is done to it. Reads /proc. Any
// thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "profiler/attach/attach_error.hpp"
#include "profiler/attach/remote_module.hpp"

namespace tarn::profiler {

// Throws attach_error, process_gone.
void require_attachable(pid_t process);
// The same for a process of any user: for root, which takes the rights of that user later.
void require_recordable(pid_t process);

// The parts of the check; each throws attach_error. `status`: the text of /proc/PID/status.
void require_living(pid_t process, std::string_view status);
void require_same_user(pid_t process, std::string_view status, uid_t own);
void require_untraced(pid_t process, std::string_view status);
void require_not_stopped(pid_t process, std::string_view status);
// `own`: the status of this process. A seccomp filter that both have came with the container.
void require_no_sandbox(pid_t process, std::string_view status, std::string_view own);
void require_recordable_modules(pid_t process, const std::vector<remote_module>& modules);
// The error if ptrace is refused. `scope`: value of kernel.yama.ptrace_scope; -1: there is none. `as_root`: tarn has
// root's right to trace, or is root without it, as in a container.
attach_error refused_by_system(pid_t process, int scope, bool as_root);
attach_error refused_by_system(pid_t process);
// What an advice calls the command whose file is `path`: sudo does not search the user's PATH.
std::string command_for_root(const std::string& path);

}  // namespace tarn::profiler
