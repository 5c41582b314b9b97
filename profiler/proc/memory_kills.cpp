// SPDX-License-Identifier: MIT
#include "profiler/proc/memory_kills.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "profiler/proc/proc_status.hpp"

namespace tarn::profiler {

namespace {

constexpr const char* of_machine = "/proc/vmstat";

// The file of the process's control group; empty: there is none.
std::string file_of_group(std::uint32_t process) {
  std::istringstream lines(proc_text(process, "cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kind = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    std::string file = kind.empty()       ? "/sys/fs/cgroup" + group + "/memory.events"
                       : kind == "memory" ? "/sys/fs/cgroup/memory" + group + "/memory.oom_control"
                                          : "";
    if (!file.empty() && access(file.c_str(), R_OK) == 0) return file;
  }
  return "";
}

// 0: the file does not tell.
double count_in(const std::string& file) {
  std::ifstream lines(file);
  std::string name;
  for (double count = 0; lines >> name >> count;) {
    if (name == "oom_kill") return count;
  }
  return 0;
}

}  // namespace

const char* name_of(shortage what) {
  switch (what) {
    case shortage::group: return "group";
    case shortage::machine: return "machine";
    case shortage::none: break;
  }
  return "";
}

memory_kills::memory_kills() { looks_.fill({0, count_in(of_machine)}); }

bool memory_kills::look(std::uint32_t process) {
  const std::string file = file_of_group(process);
  // A process that is ending is shown in the topmost group (control groups of version 1).
  const bool is_top = file.find("//") != std::string::npos;
  if (!file.empty() && file != group_file_ && (group_file_.empty() || !is_top)) {
    group_file_ = file;
    looks_.fill({count_in(file), looks_[1].machine});
  }
  looks_ = {looks_[1], {count_in(group_file_), count_in(of_machine)}};
  return file.empty() || file == group_file_;
}

double memory_kills::kills_of_group() const { return group_file_.empty() ? 0 : count_in(group_file_); }

shortage memory_kills::since(double told) const {
  if (kills_of_group() > std::max(looks_[0].group, told)) return shortage::group;
  return count_in(of_machine) > looks_[0].machine ? shortage::machine : shortage::none;
}

}  // namespace tarn::profiler
