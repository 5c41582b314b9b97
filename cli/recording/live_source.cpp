// SPDX-License-Identifier: MIT
#include "cli/recording/live_source.hpp"

#include <fmt/core.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "profiler/analyze/symbols.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/known_meta.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

namespace fs = std::filesystem;

namespace {

// The session's header is a memory file that every recorded process has mapped and that the collector holds open.
// It identifies the session even if the program overwrites its own environment, as servers do.
constexpr std::string_view session_file = "/memfd:tarn-session";

// The inode of the session header that the process has mapped; 0: none.
std::uint64_t session_of(pid_t process, std::string& reason) {
  std::istringstream maps(profiler::proc_text(static_cast<std::uint32_t>(process), "maps"));
  bool any = false;
  for (std::string line; std::getline(maps, line); any = true) {
    const std::size_t path = line.find('/');
    if (path == std::string::npos || line.compare(path, session_file.size(), session_file) != 0) continue;
    // "start-end rights offset device inode path"
    std::istringstream words(line);
    std::string range, rights, offset, device;
    std::uint64_t inode = 0;
    if (words >> range >> rights >> offset >> device >> inode) return inode;
  }
  reason = any ? "it was not started under tarn profile, so its costs by call site are unknown"
           : fs::exists(fmt::format("/proc/{}", process))
               ? "its memory map cannot be read, as it belongs to another user"
               : "it has ended, or does not exist";
  return 0;
}

bool holds_session(const fs::path& process, std::uint64_t inode) {
  std::error_code error;
  for (fs::directory_iterator each(process / "fd", error), end; !error && each != end;
       each.increment(error)) {
    std::error_code gone;
    struct stat status = {};
    if (fs::read_symlink(each->path(), gone).string().starts_with(session_file) &&
        stat(each->path().c_str(), &status) == 0 && status.st_ino == inode) {
      return true;
    }
  }
  return false;
}

// The collector that records the process; 0: none that this user may inspect.
pid_t collector_of(pid_t process, std::string& reason) {
  const std::uint64_t inode = session_of(process, reason);
  if (inode == 0) return 0;
  for (const std::uint32_t number : profiler::numbers_in("/proc")) {
    if (holds_session(fmt::format("/proc/{}", number), inode)) return static_cast<pid_t>(number);
  }
  reason = "its recording has ended, or belongs to another user";
  return 0;
}

// Whether the file is the profile of this process.
bool is_profile_of(const std::string& path, pid_t process) {
  try {
    bool found = false;
    profiler::read_tables(
        path,
        [&](profiler::table&& meta) {
          const nlohmann::json json = nlohmann::json::parse(meta.text("json").at(0), nullptr, false);
          found = json.is_object() && json.value("pid", 0) == process;
        },
        [](std::string_view name) { return name == "meta"; });
    return found;
  } catch (const std::exception&) {
    return false;
  }
}

double duration_of(const profiler::profile& p) { return profiler::number_in(p.meta, "duration_ns"); }

}  // namespace

std::optional<std::string> find_recording_of(pid_t process, std::string& reason) {
  const pid_t collector = collector_of(process, reason);
  if (collector == 0) return std::nullopt;
  std::error_code error;
  fs::directory_iterator descriptors(fmt::format("/proc/{}/fd", collector), error);
  if (error) {
    reason = "its recording has ended, or belongs to another user";
    return std::nullopt;
  }
  std::set<std::string> tried;
  for (const fs::directory_entry& each : descriptors) {
    const std::string path = fs::read_symlink(each.path(), error).string();
    if (error || !path.starts_with('/') || !fs::is_regular_file(path, error) || !tried.insert(path).second)
      continue;
    if (is_profile_of(path, process)) return path;
  }
  reason =
      "its recording has no data yet: the first are written some seconds after the start, once "
      "the program has allocated enough";
  return std::nullopt;
}

std::optional<profiler::profile> live_source::next() {
  std::error_code error;
  const std::uint64_t size = fs::file_size(path_, error);
  if (error || size == last_size_) return std::nullopt;
  last_size_ = size;
  try {
    profiler::profile p = profiler::load_profile(path_);
    const double time = duration_of(p);
    if (time <= last_time_) return std::nullopt;
    last_time_ = time;
    p.damage.clear();  // the file is still being written, so its end looks damaged
    const auto id = static_cast<std::uint32_t>(profiler::number_in(p.meta, "pid"));
    if (const auto program = profiler::read_process(id)) jit_.look_at(id, program->start_ticks);
    jit_.name_in(p);
    add_names(p);
    return p;
  } catch (const profiler::profile_error&) {
    return std::nullopt;  // no complete checkpoint yet
  }
}

void live_source::add_names(profiler::profile& p) {
  profiler::profile fresh;
  fresh.modules = p.modules;
  fresh.stacks.emplace_back();
  for (const profiler::stack_node& node : p.stacks) {
    if (node.address == 0 || !symbols_.try_emplace(node.address).second) continue;
    fresh.stacks.push_back({0, node.address});
    profiler::site one;
    one.stack = static_cast<std::uint32_t>(fresh.stacks.size() - 1);
    fresh.sites.push_back(std::move(one));
  }
  if (!fresh.sites.empty()) {
    profiler::symbol_settings at_hand;
    at_hand.ask_servers = false;  // the view must not wait for debug servers
    profiler::add_symbols(fresh, at_hand);
    for (auto& [address, frames] : fresh.symbols) symbols_[address] = frames;
    for (const profiler::site& one : fresh.sites)
      types_[fresh.stacks[one.stack].address] = {one.type, one.evidence};
  }
  for (const auto& [address, frames] : symbols_) {
    if (!frames.empty()) p.symbols[address] = frames;
  }
  for (profiler::site& one : p.sites) {
    const auto type = one.stack < p.stacks.size() ? types_.find(p.stacks[one.stack].address) : types_.end();
    if (type == types_.end() || !one.type.empty()) continue;
    one.type = type->second.name;
    one.evidence = type->second.evidence;
  }
}

}  // namespace tarn::cli
