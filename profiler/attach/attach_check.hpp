// SPDX-License-Identifier: MIT
// attach_check: why a running process cannot be recorded, found out before anything is done to it. Reads /proc. Any thread.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "profiler/attach/remote_module.hpp"
#include "profiler/attach/remote_thread.hpp"

namespace tarn::profiler {

// Throws attach_error, process_gone.
void require_attachable(pid_t process);

// The fields of /proc/PID/status.
using status_fields = std::map<std::string, std::string>;
status_fields read_status(pid_t process);

// What the parts of the check say; each throws attach_error.
void require_same_user(pid_t process, const status_fields& status, uid_t own);
void require_untraced(pid_t process, const status_fields& status);
// `own`: of this process. A filter that both have came with the container.
void require_no_sandbox(pid_t process, const status_fields& status, const status_fields& own);
void require_recordable_modules(pid_t process, const std::vector<remote_module>& modules);
// What to say where ptrace is refused. `scope`: of kernel.yama.ptrace_scope, -1 where there is none.
attach_error refused_by_system(pid_t process, int scope);
int yama_scope();

}  // namespace tarn::profiler
