// SPDX-License-Identifier: MIT
#include "profiler/analyze/site_label.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/analyze/function_name.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::profiler {

namespace {

std::string lower(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

// Code of a shared library without a name: "?? (libx.so.6+0x12)".
bool is_unknown_library(const source_frame& frame) {
  return frame.function.starts_with("?? (") && frame.function.find(".so") != std::string::npos;
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
  for (const char* prefix : {"std::", "__gnu_cxx::", "operator new", "boost::", "__cxa_", "__rust"})
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
    case frame_kind::runtime:
      return true;
    case frame_kind::script:
      return is_standard_script(frame.function, frame.file);
    case frame_kind::native:
      break;
  }
  return allocates_for_others(frame);
}

std::size_t own_frame(const std::vector<source_frame>& frames) {
  std::optional<std::size_t> unknown;
  for (std::size_t index = 0; index < frames.size(); ++index) {
    const source_frame& frame = frames[index];
    if (is_in_no_file(frame)) continue;
    if (is_unknown_library(frame) && frame.kind != frame_kind::interpreter) {
      if (!unknown) unknown = index;
    } else if (!is_plumbing(frame)) {
      return index;
    }
  }
  return unknown.value_or(0);
}

source_frame site_label(const profile& p, const site& one) {
  const std::vector<source_frame> frames = frames_of(p, one.stack);
  if (frames.empty()) return {"[no call path]", {}, 0, false};
  return frames[own_frame(frames)];
}

std::string file_of(const profile& p, const source_frame& frame) {
  if (!frame.file.empty()) return frame.file;
  const module_info* module = frame.address != 0 ? module_at(p, frame.address - 1) : nullptr;
  return module != nullptr ? module->path : std::string();
}

namespace {

constexpr double least_share = 0.05;
constexpr std::size_t most_files = 3;

bool is_nameless(const source_frame& frame) {
  return frame.kind == frame_kind::native && frame.function.starts_with("?? (");
}

// The file of the innermost code without a name up to the place of the call path; "": all of it has names, or no file.
std::string nameless_file(const profile& p, std::uint32_t stack) {
  const std::vector<source_frame> frames = frames_of(p, stack);
  if (frames.empty()) return {};
  const auto end = frames.begin() + static_cast<std::ptrdiff_t>(own_frame(frames)) + 1;
  const auto found = std::find_if(frames.begin(), end, is_nameless);
  return found != end ? file_of(p, *found) : std::string();
}

}  // namespace

std::string missing_names(const profile& p) {
  std::map<std::string, double> cost_of_file;
  double total = 0;
  double nameless = 0;
  for (const site& one : p.sites) {
    const double cost = cost_of(p, one.figures).total();
    total += cost;
    const std::string file = nameless_file(p, one.stack);
    if (file.empty()) continue;
    nameless += cost;
    cost_of_file[file] += cost;
  }
  if (nameless <= 0 || nameless < least_share * total) return {};
  std::vector<std::pair<double, std::string>> files;
  for (const auto& [file, cost] : cost_of_file) files.emplace_back(-cost, file);
  std::sort(files.begin(), files.end());
  std::string text = say_share(nameless, total) + " of the cost of allocations is in code without names: ";
  for (std::size_t index = 0; index < files.size() && index < most_files; ++index) {
    text += (index == 0 ? "" : ", ") + files[index].second.substr(files[index].second.rfind('/') + 1);
  }
  if (files.size() > most_files) text += ", …";
  return text +
         ". The package with their debug symbols has the names, or a server that DEBUGINFOD_URLS names, or a folder for "
         "--debug-path; then record again";
}

}  // namespace tarn::profiler
