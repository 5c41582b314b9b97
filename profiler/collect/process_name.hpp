// SPDX-License-Identifier: MIT
// process_name: the name of a process in tables and file names: the name by which it was started, as one file may
// be started under several names (busybox; redis-server and redis-check-rdb). Pure; any thread.
#pragma once

#include <string>
#include <vector>

namespace tarn::profiler {

// The last component of arguments[0], without the dash of a login shell; of `program`, the path of the executable file,
// where arguments[0] is missing or is a title that the program has set ("nginx: worker process"). Never empty.
std::string process_name(const std::vector<std::string>& arguments, const std::string& program);

}  // namespace tarn::profiler
