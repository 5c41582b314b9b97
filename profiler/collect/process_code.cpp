// SPDX-License-Identifier: MIT
#include "profiler/collect/process_code.hpp"

#include <fmt/core.h>

#include <filesystem>

#include "profiler/analyze/opened_elf.hpp"
#include "profiler/proc/proc_status.hpp"
#include "profiler/proc/process_maps.hpp"

namespace tarn::profiler {

namespace {

// Empty: none, or the process has ended.
std::string mapped_file_at(std::uint32_t process, std::uint64_t address) {
  for (const mapping& each : parse_mappings(proc_text(process, "maps"))) {
    if (address >= each.start && address < each.end) return each.name;
  }
  return "";
}

// The path by which the collector finds the library: a process that has called chroot may give one below its own root, a
// loader one relative to the folder of that time, and the file of a process is the loader if that was started.
std::string path_outside(std::uint32_t process, const loaded_elf& library) {
  const auto is_it = [&library](const std::string& path) {
    return library.build_id.empty() ? path.starts_with('/') : build_id_of(path) == library.build_id;
  };
  if (library.path.starts_with('/') && is_it(library.path)) return library.path;
  std::error_code error;
  const std::string root =
      std::filesystem::read_symlink(fmt::format("/proc/{}/root", process), error).string();
  const std::string mapped = mapped_file_at(process, library.start);
  for (const std::string& path : {mapped, root + mapped, root + library.path}) {
    if (!error && is_it(path)) return path;
  }
  return library.path;
}

}  // namespace

void process_code::inherit(const process_code& parent) {
  into_->modules = parent.into_->modules;
  loaded_ = parent.loaded_;
  regions_ = parent.regions_;
}

void process_code::loaded(loaded_elf library) {
  if (library.path.empty()) library.path = who_->program;
  if (into_->modules.size() >= most_modules || !loaded_.emplace(library.path, library.base).second) return;
  library.path = path_outside(who_->pid, library);
  for (module_info& module : modules_of(library)) into_->modules.push_back(std::move(module));
}

void process_code::add_script_line(std::uint64_t address, const source_frame& line) {
  if (into_->symbols.size() >= most_lines) return;
  into_->symbols.try_emplace(address, 1, line);
}

void process_code::map(const mapping_event& event) {
  const std::uint64_t end = event.start + event.bytes;
  regions_.note(event.start, end, event.path);
  if (!event.executable || !event.path.starts_with('/')) return;
  if (into_->modules.size() >= most_modules || !loaded_.emplace(event.path, event.start).second) return;
  into_->modules.push_back({event.path, build_id_of(event.path), event.start, end, event.file_offset});
}

std::optional<process_model::code> process_code::at(const clock_sample& sample, const process_page& page,
                                                    malloc_code_reader& mallocs) {
  if (!malloc_) malloc_ = mallocs.read(who_->pid, {page.allocator_start, page.allocator_end});
  if (malloc_->empty()) return std::nullopt;
  if (sample.instruction >= page.own_start && sample.instruction < page.own_end)
    return process_model::code::recorder;
  return malloc_->holds(sample.instruction, sample.caller) ? process_model::code::malloc
                                                           : process_model::code::program;
}

std::string process_code::why_unknown() const {
  if (malloc_ && malloc_->is_inseparable())
    return fmt::format("samples of the clock in malloc ({} has other code besides)", who_->allocator);
  if (malloc_ && malloc_->empty())
    return fmt::format("samples of the clock in malloc (the code of {} cannot be read)", who_->allocator);
  return {};
}

}  // namespace tarn::profiler
