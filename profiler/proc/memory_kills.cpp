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

// Of version 2: what a group's parents do not hand down to it (cgroup.subtree_control), they count themselves.
std::string file_of_version_2(std::string group) {
  for (;;) {
    std::string file = "/sys/fs/cgroup" + group + "/memory.events";
    if (access(file.c_str(), R_OK) == 0) return file;
    const std::size_t last = group.rfind('/');
    if (last == std::string::npos) return "";
    group.resize(last);
  }
}

// The file of the process's control group; empty: there is none.
std::string file_of_group(std::uint32_t process) {
  std::istringstream lines(proc_text(process, "cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kind = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    std::string file = kind.empty()       ? file_of_version_2(group)
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

memory_kills::memory_kills() { looks_.push_back({0, count_in(of_machine), {}}); }

bool memory_kills::look(std::uint32_t process) {
  const std::string file = file_of_group(process);
  // A process that is ending is shown in the topmost group (control groups of version 1).
  const bool is_top = file.find("//") != std::string::npos;
  if (!file.empty() && file != group_file_ && (group_file_.empty() || !is_top)) {
    group_file_ = file;
    for (counts& each : looks_) each.group = count_in(file);
  }
  last_look_ = std::chrono::steady_clock::now();
  const counts now{kills_of_group(), count_in(of_machine), last_look_};
  if (now.group != looks_.back().group || now.machine != looks_.back().machine) looks_.push_back(now);
  while (&earlier() != &looks_.front()) looks_.pop_front();
  return file.empty() || file == group_file_;
}

const memory_kills::counts& memory_kills::earlier() const noexcept {
  const auto then = last_look_ - std::chrono::seconds(1);
  auto found = looks_.end() - 1;
  while (found != looks_.begin() && found->from > then) --found;
  return *found;
}

double memory_kills::kills_of_group() const { return group_file_.empty() ? 0 : count_in(group_file_); }

shortage memory_kills::since(double told) const {
  if (kills_of_group() > std::max(before(), told)) return shortage::group;
  return count_in(of_machine) > earlier().machine ? shortage::machine : shortage::none;
}

}  // namespace tarn::profiler
