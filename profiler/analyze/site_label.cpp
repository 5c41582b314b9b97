// SPDX-License-Identifier: MIT
#include "profiler/analyze/site_label.hpp"

#include <fmt/core.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/analyze/function_name.hpp"
#include "profiler/analyze/opened_elf.hpp"
#include "profiler/model/script_address.hpp"

namespace tarn::profiler {

namespace {

std::string lower(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

// Code outside of any file, which a walk by frame pointers also reports where there is none.
bool is_in_no_file(const source_frame& frame) { return frame.function.starts_with("?? (0x"); }

// Whether the function belongs to the library of its language, or is a part of what runs it.
bool is_standard_script(std::string_view function, std::string_view file) {
  if (file.starts_with("<frozen ") || file.starts_with("node:")) return true;
  if (file.find("/lib/python3") != std::string_view::npos)
    return file.find("-packages/") == std::string_view::npos;
  if (!file.empty()) return false;
  // What compilers at run time name (perf_map.hpp): of V8, of .NET, of Java ("void java.util.ArrayList.add(…)").
  for (const char* kind : {"Builtin:", "BytecodeHandler:", "Handler:", "Stub:", "RegExp:", "stub<",
                           "py::", "Interpreter", "StubRoutines"})
    if (function.starts_with(kind)) return true;
  if (function.find("[System.") != std::string_view::npos) return true;
  const std::string_view name = function.substr(0, function.find('('));
  const std::string_view type = name.substr(name.rfind(' ') + 1);
  for (const char* package : {"java.", "javax.", "jdk.", "sun."})
    if (type.starts_with(package)) return true;
  return false;
}

// By its name and its file, wherever it is loaded.
bool allocates_for_others(const source_frame& frame) {
  if (frame.function.starts_with("?? (") || frame.function == "main") return false;
  if (is_library_source(frame.file)) return true;
  // C++ may have namespaces of the same names, but its functions without a file have parameters.
  if (frame.file.empty() && is_rust_library(frame.function)) return true;
  const std::string name = plain_name(frame.function);
  for (const char* prefix : {"tarn::", "std::", "__gnu_cxx::", "operator new", "boost::", "__cxa_", "__rust"})
    if (name.starts_with(prefix)) return true;
  const std::string last = lower(name.substr(name.rfind(':') == std::string::npos ? 0 : name.rfind(':') + 1));
  // xmalloc, sqlite3MallocRaw, g_realloc_n; ggc_internal_alloc, pool::allocate, g_malloc0; not: allocate_orders.
  const std::string_view stem = std::string_view(last).substr(0, last.find_last_not_of("0123456789_") + 1);
  if (stem.find("malloc") != std::string_view::npos || stem.find("realloc") != std::string_view::npos)
    return true;
  return stem.ends_with("alloc") || stem.ends_with("allocate") || stem.ends_with("strdup") ||
         stem.ends_with("strndup");
}

}  // namespace

bool is_plumbing(const source_frame& frame) {
  switch (frame.kind) {
    case frame_kind::interpreter:
    case frame_kind::runtime: return true;
    case frame_kind::file: return false;
    case frame_kind::script: return is_standard_script(frame.function, frame.file);
    case frame_kind::native: break;
  }
  return allocates_for_others(frame);
}

bool is_nameless(const source_frame& frame) { return frame.function.starts_with("?? ("); }

std::size_t own_frame(const std::vector<source_frame>& frames) {
  std::optional<std::size_t> unknown;
  for (std::size_t index = 0; index < frames.size(); ++index) {
    const source_frame& frame = frames[index];
    if (is_in_no_file(frame)) continue;
    if (is_nameless(frame) && frame.kind == frame_kind::runtime) {
      if (!unknown) unknown = index;
    } else if (!is_plumbing(frame)) {
      return index;
    }
  }
  return unknown.value_or(0);
}

source_frame label_of(const std::vector<source_frame>& frames) {
  if (frames.empty()) return {"[no call path]", {}, 0, false};
  source_frame label = frames[own_frame(frames)];
  const std::size_t offset = label.function.rfind("+0x");
  if (is_nameless(label) && offset != std::string::npos)
    label.function.replace(offset, std::string::npos, ")");
  return label;
}

std::vector<source_frame> near_frames(const profile& p, std::uint32_t stack) {
  const auto script = p.symbols.lower_bound(script_tag << script_tag_shift);
  // A line of a script anywhere in a path decides what the frames further in are.
  const bool has_scripts = script != p.symbols.end() && is_script_address(script->first);
  std::vector<source_frame> frames;
  for (std::size_t most = has_scripts ? SIZE_MAX : 3;; most *= 6) {
    const std::size_t before = frames.size();
    frames = frames_of(p, stack, most);
    if (most == SIZE_MAX || frames.size() == before) return frames;
    const std::size_t own = own_frame(frames);
    const bool is_found = !is_plumbing(frames[own]) && !is_in_no_file(frames[own]);
    if (is_found && own + 1 < frames.size()) return frames;
  }
}

source_frame site_label(const profile& p, const site& one) { return label_of(near_frames(p, one.stack)); }

std::string file_of(const profile& p, const source_frame& frame) {
  if (!frame.file.empty()) return frame.file;
  const module_info* module = frame.address != 0 ? module_at(p, frame.address - 1) : nullptr;
  return module != nullptr ? module->path : std::string();
}

namespace {

// "/lib" is a link to "/usr/lib" on most systems; files are known by either.
std::string_view without_usr(std::string_view path) {
  return path.starts_with("/usr/") ? path.substr(4) : path;
}

// The debug package of Debian, or of a system derived from it, for the package that this file came with; "": none.
std::string debug_package_of(const std::string& path) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/var/lib/dpkg/info", ignored)) {
    if (entry.path().extension() != ".list") continue;
    std::ifstream list(entry.path());
    for (std::string line; std::getline(list, line);) {
      if (without_usr(line) != without_usr(path)) continue;
      const std::string name = entry.path().stem();
      const std::string package = name.substr(0, name.find(':'));
      return package + (package == "libc6" ? "-dbg" : "-dbgsym");
    }
  }
  return {};
}

}  // namespace

std::string name_hint(const profile& p, const source_frame& label) {
  const std::string path = is_nameless(label) ? file_of(p, label) : std::string();
  if (!path.starts_with('/')) return {};
  // What is recorded has its names; those of a core file are looked up each time it is read.
  const bool is_recorded = has_costs(p);
  std::error_code ignored;
  const bool is_there = std::filesystem::exists(path, ignored);
  const module_info* const module = label.address != 0 ? module_at(p, label.address - 1) : nullptr;
  const std::string build_id = module != nullptr ? module->build_id : std::string();
  if (!is_there || (!build_id.empty() && build_id_of(path) != build_id))
    return fmt::format(
        "without names: {} {}. Put the file{} there, or on a server that DEBUGINFOD_URLS names{}", path,
        is_there ? "is another file now" : "is not there", build_id.empty() ? "" : " of build-id " + build_id,
        is_recorded ? ", or into a folder for --debug-path; then record again" : "");
  const std::string package = debug_package_of(path);
  return fmt::format("without names: {} is stripped. {} has them, or a server that DEBUGINFOD_URLS names{}",
                     path, package.empty() ? "A package with its debug symbols" : "The package " + package,
                     is_recorded ? ", or a folder for --debug-path; then record again" : "");
}

}  // namespace tarn::profiler
