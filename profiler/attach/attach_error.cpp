// SPDX-License-Identifier: MIT
#include "profiler/attach/attach_error.hpp"

#include <fmt/core.h>

namespace tarn::profiler {

process_gone::process_gone(pid_t process)
    : attach_error(fmt::format("process {} has ended, or does not exist", process),
                   "List the processes: ps -e") {}

}  // namespace tarn::profiler
