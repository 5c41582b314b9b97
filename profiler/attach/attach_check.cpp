// SPDX-License-Identifier: MIT
#include "profiler/attach/attach_check.hpp"

#include <fmt/core.h>
#include <linux/capability.h>
#include <pwd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "profiler/attach/safe_point.hpp"
#include "profiler/proc/proc_status.hpp"

namespace fs = std::filesystem;

namespace tarn::profiler {

namespace {

long number(std::string_view status, const char* name) {
  return std::strtol(status_line(status, name).c_str(), nullptr, 10);
}

std::string user_name(uid_t user) {
  const passwd* known = getpwuid(user);
  return known != nullptr ? known->pw_name : std::to_string(user);
}

std::string link_of(pid_t process, const char* name) {
  std::error_code error;
  return fs::read_symlink(fmt::format("/proc/{}/{}", process, name), error).string();
}

void require_same_namespaces(pid_t process) {
  const std::string own = link_of(getpid(), "ns/mnt");
  const std::string there = link_of(process, "ns/mnt");
  const bool same_ids = link_of(getpid(), "ns/pid") == link_of(process, "ns/pid");
  if (there.empty() || (own == there && same_ids)) return;
  throw attach_error(
      fmt::format("process {} runs in another container (mount or process namespace)", process),
      fmt::format("Run tarn in that container, by docker exec or: nsenter -t {} -m -p tarn attach "
                  "PID-IN-THERE",
                  process));
}

// The lowest module is not the program if the dynamic loader was started with the program as an argument. Old linkers do
// not tell programs from libraries.
const remote_module* program_in(const std::vector<remote_module>& modules) {
  const auto at =
      std::find_if(modules.begin(), modules.end(), [](const remote_module& one) { return one.is_program; });
  if (at != modules.end()) return &*at;
  const bool by_kernel = !modules.empty() && !is_dynamic_linker(modules.front()) && !is_libc(modules.front());
  return by_kernel ? &modules.front() : nullptr;
}

// Whether this process may trace the other: reading its memory needs the same right. The right is asked before the address, so
// EFAULT grants it: the lowest memory may be reserved without access, as java's heap, or be gone, where another program replaces
// this one (execve) at this moment.
void require_ptrace(pid_t process) {
  constexpr int most_tries = 50;
  const timespec pause = {0, 2'000'000};
  for (int left = most_tries; left > 0; --left) {
    const std::string maps = proc_text(static_cast<std::uint32_t>(process), "maps");
    char byte = 0;
    const std::uint64_t address = std::strtoull(maps.c_str(), nullptr, 16);
    errno = 0;
    if (!maps.empty() && (read_memory(process, address, &byte, 1) == 1 || errno == EFAULT)) return;
    if (errno == EPERM || errno == ESRCH) break;
    nanosleep(&pause, nullptr);
  }
  const std::string state = status_line(proc_text(static_cast<std::uint32_t>(process), "status"), "State");
  if (state.empty() || state.starts_with('Z') || state.starts_with('X')) throw process_gone(process);
  throw refused_by_system(process);
}

int yama_scope() {
  int scope = -1;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return scope;
}

std::string own_command() { return command_for_root(link_of(getpid(), "exe")); }

}  // namespace

std::string command_for_root(const std::string& path) {
  constexpr std::string_view usual = ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:";
  const std::string folder = fs::path(path).parent_path().string();
  return usual.find(":" + folder + ":") != std::string_view::npos ? "tarn" : path;
}

void require_living(pid_t process, std::string_view status) {
  if (status.empty() && !fs::exists("/proc/self/status"))
    throw attach_error("/proc is not mounted here, and attaching needs it",
                       "Mount it: mount -t proc proc /proc");
  if (status.empty() && (kill(process, 0) == 0 || errno == EPERM)) {
    throw attach_error(fmt::format("process {} is hidden in /proc (mount option hidepid)", process),
                       "Run tarn as the user of the process, or as root.");
  }
  const std::string state = status_line(status, "State");
  if (state.starts_with('Z') && number(status, "Threads") > 1) {
    throw attach_error(
        fmt::format("the first thread of process {} ({}) has ended, and with it the system's view of "
                    "the memory that its other threads use",
                    process, status_line(status, "Name")),
        "Start the program under tarn profile.");
  }
  if (status.empty() || state.starts_with('Z') || state.starts_with('X')) throw process_gone(process);
  if (process == getpid())
    throw attach_error("tarn cannot attach to itself", "Give the id of another process.");
  if (status_line(status, "VmSize").empty()) {
    throw attach_error(
        fmt::format("process {} ({}) is a kernel thread", process, status_line(status, "Name")),
        "Only programs can be recorded.");
  }
}

void require_same_user(pid_t process, std::string_view status, uid_t own) {
  std::istringstream ids(status_line(status, "Uid"));
  const std::vector<uid_t> users{std::istream_iterator<uid_t>(ids), {}};
  const std::string who = fmt::format("process {} ({})", process, status_line(status, "Name"));
  for (const uid_t one : users) {
    if (one == users.front()) continue;
    throw attach_error(fmt::format("{} has rights of several users: {} and {}", who, user_name(users.front()),
                                   user_name(one)),
                       "No user can attach to it. Start it under tarn profile.");
  }
  if (users.empty() || users.front() == own) return;
  throw attach_error(
      fmt::format("{} belongs to {}, and tarn runs as {}", who, user_name(users.front()), user_name(own)),
      fmt::format("As its user: sudo -u {} {} attach {}", user_name(users.front()), own_command(), process));
}

void require_untraced(pid_t process, std::string_view status) {
  const long tracer = number(status, "TracerPid");
  if (tracer == 0) return;
  const std::string name = status_line(proc_text(static_cast<std::uint32_t>(tracer), "status"), "Name");
  throw attach_error(fmt::format("process {} is already traced by process {} ({})", process, tracer, name),
                     "A process can have only one tracer: end that debugger or strace first.");
}

void require_not_stopped(pid_t process, std::string_view status) {
  if (!status_line(status, "State").starts_with('T')) return;
  throw attach_error(fmt::format("process {} ({}) is stopped (SIGSTOP, or ^Z in its terminal)", process,
                                 status_line(status, "Name")),
                     fmt::format("Let it go on, then attach: kill -CONT {}", process));
}

void require_no_sandbox(pid_t process, std::string_view status, std::string_view own) {
  const long mode = number(status, "Seccomp");
  if (mode == 0) return;
  const bool is_same_filter = mode == 2 && number(own, "Seccomp") == 2 &&
                              number(status, "Seccomp_filters") <= number(own, "Seccomp_filters");
  if (is_same_filter) return;
  throw attach_error(
      fmt::format("process {} ({}) runs in a sandbox (seccomp), which may kill it for the system calls at "
                  "the start of a recording",
                  process, status_line(status, "Name")),
      "Start it under tarn profile: the recorder then makes those calls before the sandbox is in "
      "effect.");
}

void require_recordable_modules(pid_t process, const std::vector<remote_module>& modules) {
  const auto defines = [](const char* function) {
    return [function](const remote_module& one) { return one.address_of(function) != 0; };
  };
  if (std::none_of(modules.begin(), modules.end(), is_libc)) {
    const bool musl = std::any_of(modules.begin(), modules.end(), [](const remote_module& one) {
      return one.path.find("/ld-musl") != std::string::npos;
    });
    if (musl) {
      throw attach_error(
          fmt::format("process {} is linked with musl, and the recorder is built for glibc", process),
          "Record only its page faults: tarn profile --mode faults -- PROGRAM ARG...");
    }
    throw attach_error(
        fmt::format("process {} is statically linked: no library can be loaded into it", process),
        "Link it dynamically, or record only its page faults: tarn profile --mode faults -- "
        "PROGRAM ARG...");
  }
  if (std::any_of(modules.begin(), modules.end(), defines("__sanitizer_get_allocated_size"))) {
    throw attach_error(
        fmt::format("process {} is built with a sanitizer, whose malloc must not be replaced", process),
        "Build it without the sanitizer.");
  }
  if (const remote_module* program = program_in(modules);
      program != nullptr && program->address_of("malloc") != 0) {
    throw attach_error(
        fmt::format("process {} contains its own malloc, which its code calls directly", process),
        "Build it without its own allocator, or record only its page faults: tarn profile --mode "
        "faults -- PROGRAM ARG...");
  }
}

attach_error refused_by_system(pid_t process, int scope, bool as_root) {
  const std::string problem = fmt::format("the system does not let process {} be traced", process);
  if (scope == 3) {
    return {problem + ": kernel.yama.ptrace_scope is 3, so no process may be traced until the next boot",
            "Start the program under tarn profile."};
  }
  if (!as_root && (scope == 1 || scope == 2)) {
    return {
        fmt::format("{}: kernel.yama.ptrace_scope is {}, so only {}", problem, scope,
                    scope == 1 ? "a parent may trace its children" : "root may trace"),
        fmt::format(
            "As root: {} attach {}, or sysctl kernel.yama.ptrace_scope=0.{}", own_command(), process,
            scope == 1 ? " Or start the program under tarn: tarn profile --paused -- PROGRAM ARG..." : "")};
  }
  return {
      problem + (as_root ? ", even with root's rights" : ""),
      std::string(as_root ? "" : "If it has changed its rights since its start: attach as root. ") +
          "If a container or security module forbids ptrace: start the container with --cap-add SYS_PTRACE, or "
          "the program under tarn profile."};
}

attach_error refused_by_system(pid_t process) {
  const std::string own = status_line(proc_text(static_cast<std::uint32_t>(getpid()), "status"), "CapEff");
  const bool may_trace = (std::strtoull(own.c_str(), nullptr, 16) >> CAP_SYS_PTRACE & 1) != 0;
  return refused_by_system(process, yama_scope(), may_trace || geteuid() == 0);
}

void require_attachable(pid_t process) {
  const std::string status = proc_text(static_cast<std::uint32_t>(process), "status");
  require_living(process, status);
  require_same_user(process, status, geteuid());
  require_recordable(process);
}

void require_recordable(pid_t process) {
  const std::string status = proc_text(static_cast<std::uint32_t>(process), "status");
  require_living(process, status);
  if (geteuid() != 0) require_same_user(process, status, geteuid());
  require_untraced(process, status);
  require_not_stopped(process, status);
  require_same_namespaces(process);
  require_no_sandbox(process, status, proc_text(static_cast<std::uint32_t>(getpid()), "status"));
  require_ptrace(process);
  require_recordable_modules(process, modules_of_process(process));
}

}  // namespace tarn::profiler
