// SPDX-License-Identifier: MIT
#include "profiler/collect/process_identity.hpp"

#include <fmt/core.h>

#include <cstring>
#include <filesystem>

#include "profiler/collect/process_summary.hpp"
#include "profiler/proc/proc_status.hpp"

namespace fs = std::filesystem;

namespace tarn::profiler {

namespace {

// False: the process has called exec since, so its command line is that of the next program.
bool runs_file_named(std::uint32_t process, const std::string& program) {
  std::error_code error;
  const auto now = fs::read_symlink(fmt::format("/proc/{}/exe", process), error);
  return error || now.filename() == fs::path(program).filename();
}

std::string text_of(const char* room) { return {room, strnlen(room, path_room)}; }

}  // namespace

void take_names(process_identity& who, const process_page& page, const std::vector<std::string>& given) {
  who.program = text_of(page.program);
  who.allocator = text_of(page.allocator);
  if (runs_file_named(who.pid, who.program)) who.arguments = command_line_of(who.pid);
  // The program has ended already or has called exec.
  if (who.arguments.empty()) who.arguments = given;
  // Another process, or /proc cannot be read: use what its recorder has written.
  if (who.arguments.empty() && page.command[0] != 0) who.arguments = {text_of(page.command)};
  who.command = process_name(who.arguments, who.program);
}

}  // namespace tarn::profiler
