// SPDX-License-Identifier: MIT
#include "cli/launch/facilities.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/launch/library_search.hpp"
#include "cli/launch/memory_conditioner.hpp"
#include "cli/launch/scratch_file.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"
#include "os/memory_pressure.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

namespace {

// Without a line end.
std::string text_of(const char* path) {
  std::string text = text_of_file(path);
  text.erase(text.find_last_not_of("\n ") + 1);
  return text;
}

std::optional<long> number_in(const char* path) {
  const std::string text = text_of(path);
  return text.empty() ? std::nullopt : std::optional(std::strtol(text.c_str(), nullptr, 10));
}

// The word in brackets: "always [madvise] never".
std::string chosen_word(const std::string& text) {
  const std::size_t begin = text.find('[');
  const std::size_t end = text.find(']');
  return begin == std::string::npos || end == std::string::npos ? ""
                                                                : text.substr(begin + 1, end - begin - 1);
}

// The mode of the filter of system calls.
std::string seccomp() { return profiler::status_line(text_of("/proc/self/status"), "Seccomp"); }

// Tries to open an event of page faults. Returns 0, or the errno value.
int try_event(bool with_kernel) {
  perf_event_attr attributes = {};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_PAGE_FAULTS;
  attributes.disabled = 1;
  attributes.exclude_kernel = with_kernel ? 0 : 1;
  attributes.exclude_hv = 1;
  const long number = syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  const open_file file(static_cast<int>(number));
  return number < 0 ? errno : 0;
}

std::string answer(int error) {
  return error == 0 ? "works" : std::string("refused: ") + std::strerror(error);
}

std::string container_kind() {
  if (access("/.dockerenv", F_OK) == 0) return "docker";
  if (access("/run/.containerenv", F_OK) == 0) return "podman";
  if (std::string name = text_of("/run/systemd/container"); !name.empty()) return name;
  if (const std::string group = text_of("/proc/1/cgroup"); group.find("kubepods") != std::string::npos)
    return "kubernetes";
  return "";
}

facility page_faults() {
  facility one{"page_faults", "page faults of a program", standing::works};
  const int user = try_event(false);
  one.state = answer(user);
  if (user == 0) return one;
  one.how = standing::missing;
  one.missing =
      "the site to which each page fault belongs; totals, and how much of large blocks was "
      "resident, are still recorded";
  const auto paranoid = number_in("/proc/sys/kernel/perf_event_paranoid");
  if (paranoid && *paranoid > 2) {
    one.remedy = "run as root: sysctl kernel.perf_event_paranoid=2";
  } else if (!container_kind().empty() || seccomp() == "2") {
    one.remedy =
        "start the container with --cap-add PERFMON or --security-opt seccomp=unconfined, or "
        "profile outside of it";
  }
  return one;
}

facility kernel_faults() {
  facility one{"kernel_faults", "page faults inside system calls", standing::works};
  const int error = try_event(true);
  one.state = answer(error);
  if (error == 0) return one;
  one.how = standing::partly;
  one.missing =
      "the sites of page faults that read() and other system calls cause in fresh memory; such "
      "faults count as not seen";
  one.remedy =
      geteuid() == 0
          ? "start the container with --cap-add PERFMON, or run on the host: sysctl kernel.perf_event_paranoid=1"
          : "profile as root, or run as root: sysctl kernel.perf_event_paranoid=1";
  return one;
}

facility paranoid_level() {
  facility one{"paranoid", "kernel.perf_event_paranoid", standing::note, "unknown"};
  if (const auto level = number_in("/proc/sys/kernel/perf_event_paranoid")) {
    one.state = fmt::format("{} ({})", *level,
                            *level > 2    ? "events only for root"
                            : *level == 2 ? "events of your own programs in user mode"
                            : *level == 1 ? "events of your own programs in user and kernel mode"
                                          : "events of the whole machine");
  }
  return one;
}

facility residency() {
  facility one{"residency", "residency of memory (mincore)", standing::works, "works"};
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return one;
  static_cast<volatile unsigned char*>(memory)[page] = 1;
  unsigned char states[4] = {9, 9, 9, 9};
  const bool asked = mincore(memory, 4 * page, states) == 0;
  if (!asked || (states[1] & 1) == 0 || (states[3] & 1) != 0) {
    one.how = standing::missing;
    one.state = asked ? "does not distinguish touched pages from others"
                      : std::string("refused: ") + std::strerror(errno);
    one.missing = "how much of large blocks was resident when they were freed";
  }
  munmap(memory, 4 * page);
  return one;
}

facility page_map() {
  facility one{"pagemap", "/proc/PID/pagemap", standing::note, "readable"};
  const open_file file(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (file.number() < 0)
    one.state = std::string("not readable: ") + std::strerror(errno) + "; mincore is used instead";
  return one;
}

facility shared_session() {
  facility one{"session", "shared memory for the recorder", standing::works, "works"};
  const open_file file(memfd_create("tarn-doctor", MFD_CLOEXEC));
  const open_file again(
      file.number() < 0
          ? -1
          : open(fmt::format("/proc/{}/fd/{}", getpid(), file.number()).c_str(), O_RDWR | O_CLOEXEC));
  if (again.number() < 0) {
    one.how = standing::missing;
    one.state = (file.number() < 0 ? "memfd_create: " : "/proc/PID/fd: ") + std::string(std::strerror(errno));
    one.missing = "everything that modes full and sample record; mode faults still works";
    one.remedy = file.number() < 0 ? "" : "mount /proc";
  }
  return one;
}

facility recorder() {
  facility one{"recorder", "the recorder's library", standing::works};
  try {
    one.state = find_recorder();
  } catch (const cli_error& error) {
    one.how = standing::missing;
    one.state = error.what();
    one.missing = "everything that modes full and sample record; mode faults still works";
    one.remedy = error.advice();
  }
  return one;
}

facility huge_pages() {
  facility one{"thp", "transparent huge pages", standing::note, huge_page_setting()};
  if (one.state.empty()) one.state = "not in this kernel";
  if (one.state == "always") {
    one.state += ": one fault may back 2 MiB; then there are fewer faults than pages, and each costs more";
    one.missing = "pages per fault; a fault counts as one page";
  }
  return one;
}

facility memory_group() {
  facility one{"cgroup", "control group", standing::note, "no memory limit"};
  const os::memory_limits group = os::look_at_memory("").group;
  if (group.limit != os::unlimited) {
    one.state =
        fmt::format("memory limit {}, {} of it in use; recording counts towards it",
                    profiler::say_exactly(group.limit), profiler::say_bytes(static_cast<double>(group.used)));
  }
  one.state += fmt::format("; tarn takes at most {} to measure the prices of memory",
                           profiler::say_bytes(static_cast<double>(default_conditioning_bytes())));
  return one;
}

facility surroundings() {
  facility one{"surroundings", "surroundings", standing::note};
  const std::string container = container_kind();
  const bool machine = text_of_file("/proc/cpuinfo").find(" hypervisor") != std::string::npos;
  one.state = container.empty() ? "no container" : "container (" + container + ")";
  one.state +=
      machine ? ", virtual machine: the first touch of memory that the host has not backed yet costs many "
                "times more"
              : ", no virtual machine detected";
  return one;
}

facility filters() {
  facility one{"seccomp", "system call filter", standing::note, "none"};
  const std::string mode = seccomp();
  if (mode == "1" || mode == "2")
    one.state = "active (seccomp mode " + mode + "); it may be the cause of a refusal above";
  return one;
}

facility tracing() {
  facility one{"ptrace", "ptrace scope", standing::note};
  const auto scope = number_in("/proc/sys/kernel/yama/ptrace_scope");
  one.state = scope ? std::to_string(*scope) : "not restricted";
  if (scope && *scope > 2) {
    one.state += "; tarn attach is refused, tarn profile works";
  } else if (scope && *scope > 0) {
    one.state += "; tarn attach works only as root, or for programs started by tarn profile --paused";
  } else {
    one.state += "; tarn attach works for processes of the same user";
  }
  return one;
}

facility time_source() {
  facility one{"clock", "clock", standing::note,
               text_of("/sys/devices/system/clocksource/clocksource0/current_clocksource")};
  if (one.state.empty()) {
    one.state = "not known, since /sys is not mounted";
  } else if (one.state != "tsc" && one.state != "kvm-clock" && one.state != "arch_sys_counter") {
    one.state += ": slow; mode full takes more time";
  }
  return one;
}

}  // namespace

std::vector<facility> look_at_facilities() {
  return {recorder(),       shared_session(), page_faults(),  kernel_faults(), residency(),
          paranoid_level(), surroundings(),   memory_group(), huge_pages(),    page_map(),
          filters(),        tracing(),        time_source()};
}

nlohmann::json as_json(const std::vector<facility>& all) {
  constexpr const char* names[] = {"works", "partly", "missing", "note"};
  nlohmann::json list = nlohmann::json::array();
  for (const facility& one : all) {
    list.push_back({{"key", one.key},
                    {"name", one.name},
                    {"standing", names[static_cast<int>(one.how)]},
                    {"state", one.state},
                    {"missing", one.missing},
                    {"remedy", one.remedy}});
  }
  return list;
}

std::string privilege_name() {
  const bool sees_kernel = try_event(true) == 0;
  const bool sees_user = try_event(false) == 0;
  return fmt::format("{}, {}", geteuid() == 0 ? "root" : "user",
                     sees_kernel ? "all page faults are recorded"
                     : sees_user ? "page faults of user mode are recorded"
                                 : "no page faults are recorded");
}

std::string kernel_name() {
  utsname names = {};
  uname(&names);
  return fmt::format("{} {} {}", names.sysname, names.release, names.machine);
}

std::string huge_page_setting() {
  return chosen_word(text_of("/sys/kernel/mm/transparent_hugepage/enabled"));
}

}  // namespace tarn::cli
