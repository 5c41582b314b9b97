// SPDX-License-Identifier: MIT
#include "profiler/collect/jit_code.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "profiler/format/quantity.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::profiler {

namespace {

constexpr double least_share = 0.05;
constexpr std::size_t most_places = 1 << 14;

// Seconds since 1970, some too early; 0: not known.
std::int64_t started_at(std::uint64_t start_ticks) {
  constexpr std::int64_t tolerance = 2;  // of the clocks, and of times of files
  timespec since_boot = {};
  timespec now = {};
  if (start_ticks == 0 || clock_gettime(CLOCK_BOOTTIME, &since_boot) != 0 ||
      clock_gettime(CLOCK_REALTIME, &now) != 0)
    return 0;
  const auto start =
      static_cast<std::int64_t>(start_ticks / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK)));
  return now.tv_sec - (since_boot.tv_sec - start) - tolerance;
}

std::uint32_t number_at(std::string_view text) {
  return static_cast<std::uint32_t>(std::strtoul(std::string(text).c_str(), nullptr, 10));
}

// The process's id in its own namespace is the last one, its effective user the second.
perf_map open_names(std::uint32_t process, std::uint64_t start_ticks) {
  const std::string status = proc_text(process, "status");
  const std::string ids = status_line(status, "NSpid");
  const std::string users = status_line(status, "Uid");
  const std::size_t blank = users.find('\t');
  if (ids.empty() || blank == std::string::npos) return {};
  const std::uint32_t number = number_at(std::string_view(ids).substr(ids.find_last_of(" \t") + 1));
  const uid_t user = number_at(std::string_view(users).substr(blank + 1));
  const std::int64_t not_before = started_at(start_ticks);
  perf_map found = perf_map::open("/proc/" + std::to_string(process) + "/root/tmp", number, user, not_before);
  // One that has ended has no root any more.
  if (!found.is_open() && number == process) found = perf_map::open("/tmp", number, user, not_before);
  return found;
}

// Whether functions of a virtual machine are on the path, and none of them has a name. What V8 interprets runs in one function
// of its own.
bool leads_through_nameless(const profile& p, std::uint32_t stack) {
  bool found = false;
  for (const source_frame& frame : frames_of(p, stack)) {
    if (frame.kind == frame_kind::script) return false;
    found =
        found || frame.function == generated_code || frame.function == "Builtins_InterpreterEntryTrampoline";
  }
  return found;
}

// The recorder has reported the modules that call paths lead through. False: there are none.
bool note_unread_interpreters(profile& p) {
  constexpr std::pair<const char*, const char*> names[] = {
      {"ruby", "Ruby"}, {"php", "PHP"}, {"perl", "Perl"}, {"luajit", "LuaJIT"}};
  bool found = false;
  for (const auto& [begin, language] : names) {
    const bool is_there =
        std::any_of(p.modules.begin(), p.modules.end(), [start = begin](const module_info& module) {
          std::string_view name = std::string_view(module.path).substr(module.path.rfind('/') + 1);
          if (name.starts_with("lib")) name.remove_prefix(3);
          return name.starts_with(start);
        });
    if (!is_there) continue;
    found = true;
    p.meta["refused"].push_back(std::string("functions of ") + language +
                                ", which are not read: call paths have its interpreter's native code only");
  }
  return found;
}

}  // namespace

bool is_generated(const mapping& one) {
  if (!one.executable) return false;
  return one.name.empty() || one.name.starts_with("//anon") || one.name.starts_with("[anon") ||
         one.name.starts_with("/memfd:");
}

void jit_code::look_at(std::uint32_t process, std::uint64_t start_ticks) {
  if (!names_.is_open()) names_ = open_names(process, start_ticks);
  for (const mapping& each : parse_mappings(proc_text(process, "maps"))) {
    if (place_count_ >= most_places || !is_generated(each)) continue;
    if (places_.at(each.start) == nullptr || places_.at(each.end - 1) == nullptr) ++place_count_;
    places_.add(each.start, each.end, 0);
  }
}

void jit_code::note_missing(profile& p) {
  if (note_unread_interpreters(p)) return;
  double total = 0;
  double nameless = 0;
  for (const site& one : p.sites) {
    const double cost = cost_of(p, one.figures).total();
    total += cost;
    if (leads_through_nameless(p, one.stack)) nameless += cost;
  }
  if (nameless <= 0 || nameless < least_share * total) return;
  p.meta["refused"].push_back(
      "names of the functions that a virtual machine executes, from which " + say_share(nameless, total) +
      " of the cost comes: node --perf-basic-prof --interpreted-frames-native-stack, java "
      "-XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -XX:+PreserveFramePointer and "
      "DOTNET_PerfMapEnabled=1 write them into /tmp, where they are read");
}

}  // namespace tarn::profiler
