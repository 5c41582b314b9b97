// SPDX-License-Identifier: MIT
#include <algorithm>
#include <iterator>
#include <string>

#include "profiler/format/printable.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/model/script_address.hpp"

namespace tarn::profiler {

namespace {

bool is_runtime(std::string_view module_path) {
  constexpr std::string_view names[] = {"libstdc++.", "libc++.", "libc.",    "libc-",
                                        "ld-linux",   "libtarn", "libgcc_s."};
  const std::string_view name = module_path.substr(module_path.rfind('/') + 1);
  return std::any_of(std::begin(names), std::end(names),
                     [name](std::string_view one) { return name.starts_with(one); });
}

// Whether the code came with the system, or as a package of a script's language.
bool is_installed(const module_info* module) {
  if (module == nullptr) return true;
  for (const char* folder : {"-packages/", "/node_modules/", "/gems/"})
    if (module->path.find(folder) != std::string::npos) return true;
  for (const char* folder : {"/usr/", "/lib/", "/lib64/"})
    if (module->path.starts_with(folder)) return true;
  return false;
}

}  // namespace

bool is_interpreter(std::string_view module_path) {
  constexpr std::string_view names[] = {"python3",    "libpython3",  "libc.so", "node",
                                        "libnode.so", "libjvm.",     "libjli.", "java",
                                        "dotnet",     "libcoreclr.", "lua",     "liblua"};
  const std::string_view name = module_path.substr(module_path.rfind('/') + 1);
  return module_path.find("/lib-dynload/") != std::string_view::npos ||
         std::any_of(std::begin(names), std::end(names),
                     [name](std::string_view one) { return name.starts_with(one); });
}

const module_info* module_at(const profile& p, std::uint64_t instruction) {
  // Where modules overlap, the one loaded last counts.
  for (auto each = p.modules.rbegin(); each != p.modules.rend(); ++each) {
    if (instruction >= each->start && instruction < each->end) return &*each;
  }
  return nullptr;
}

frame_kind kind_of(const module_info* module, std::uint64_t address, bool has_script) {
  if (is_script_address(address)) return frame_kind::script;
  if (module == nullptr) return frame_kind::native;
  if (has_script && is_interpreter(module->path)) return frame_kind::interpreter;
  return is_runtime(module->path) ? frame_kind::runtime : frame_kind::native;
}

std::string unknown_function(const profile& p, std::uint64_t address) {
  const module_info* module = module_at(p, address - 1);
  if (module == nullptr) return "?? (" + hexadecimal(address) + ")";
  const std::string name = module->path.substr(module->path.rfind('/') + 1);
  return "?? (" + name + "+" + hexadecimal(address - module->start + module->file_offset) + ")";
}

std::vector<source_frame> frames_of(const profile& p, std::uint32_t stack, std::size_t most) {
  std::vector<source_frame> frames;
  bool has_script = false;
  std::size_t named = 0;
  // A parent's index is less than its child's, so the loop ends.
  for (; most != 0 && stack != 0 && stack < p.stacks.size(); --most) {
    const stack_node& node = p.stacks[stack];
    const auto found = p.symbols.find(node.address);
    if (found != p.symbols.end() && !found->second.empty()) {
      frames.insert(frames.end(), found->second.begin(), found->second.end());
    } else {
      frames.push_back({unknown_function(p, node.address), {}, 0, false});
    }
    has_script = has_script || is_script_address(node.address);
    for (; named < frames.size(); ++named) frames[named].address = node.address;
    if (node.parent >= stack) break;
    stack = node.parent;
  }
  const module_info* module = nullptr;
  bool serves_script = has_script;  // further in than the innermost line of a script
  for (source_frame& frame : frames) {
    // Most frames are in the module of the one before.
    if (module == nullptr || frame.address - 1 < module->start || frame.address - 1 >= module->end)
      module = module_at(p, frame.address - 1);
    frame.kind = kind_of(module, frame.address, has_script);
    serves_script = serves_script && frame.kind != frame_kind::script;
    if (serves_script && frame.kind == frame_kind::native && (frame.line == 0 || is_installed(module)))
      frame.kind = frame_kind::interpreter;
  }
  return frames;
}

}  // namespace tarn::profiler
