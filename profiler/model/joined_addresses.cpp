// SPDX-License-Identifier: MIT
#include "profiler/model/joined_addresses.hpp"

#include <algorithm>

#include "profiler/model/range_map.hpp"
#include "profiler/model/script_address.hpp"

namespace tarn::profiler {

namespace {

// A file's offset 0 has a common address that is a multiple of this.
constexpr std::uint64_t file_room = std::uint64_t{1} << 32;

bool is_named(const std::vector<source_frame>& frames) {
  return !frames.empty() && !frames.front().function.starts_with("??");
}

std::string signature_of(const std::string& path, const std::vector<source_frame>& frames) {
  std::string text = path;
  for (const source_frame& each : frames) {
    text += '\n' + each.function + '\t' + each.file + '\t' + std::to_string(each.line);
  }
  return text;
}

}  // namespace

std::vector<std::uint64_t> joined_addresses::take_in(const profile& p) {
  range_map<const module_info*> modules;
  for (const module_info& each : p.modules) modules.add(each.start, each.end, &each);
  std::unordered_map<std::uint64_t, std::uint64_t> known;
  std::vector<std::uint64_t> joined;
  joined.reserve(p.stacks.size());
  for (const stack_node& node : p.stacks) {
    const auto [at, is_new] = known.try_emplace(node.address);
    // Symbols and modules are looked up at the call instruction, just before the return address.
    if (is_new && node.address != 0) {
      const module_info* const* const module = modules.at(node.address - 1);
      at->second = address_of(p, module != nullptr ? *module : nullptr, node.address);
    }
    joined.push_back(at->second);
  }
  return joined;
}

std::uint64_t joined_addresses::address_of(const profile& p, const module_info* module,
                                           std::uint64_t address) {
  const auto symbol = p.symbols.find(address);
  if (is_script_address(address)) {  // common already
    if (symbol != p.symbols.end()) keep_symbol(address, symbol->second);
    return address;
  }
  const bool named = symbol != p.symbols.end() && is_named(symbol->second);
  if (module == nullptr) {
    const std::uint64_t place = named ? place_by_symbol("", symbol->second, new_address()) : new_address();
    keep_symbol(place, symbol != p.symbols.end()
                           ? symbol->second
                           : std::vector<source_frame>{{unknown_function(p, address), "", 0, false}});
    return place;
  }
  std::uint64_t place = place_in(*module, address);
  if (!named) return place;
  const std::string& first_build = first_builds_.try_emplace(module->path, module->build_id).first->second;
  const std::uint64_t by_symbol = place_by_symbol(module->path, symbol->second, place);
  if (first_build != module->build_id) place = by_symbol;
  keep_symbol(place, symbol->second);
  return place;
}

std::uint64_t joined_addresses::place_in(const module_info& module, std::uint64_t address) {
  const std::uint64_t end = module.file_offset + (module.end - module.start);
  auto [file, is_new] = files_.try_emplace({module.path, module.build_id});
  if (is_new || file->second.first + end > file->second.second) {
    // Room for the whole file, also one above 4 GiB whose later segments are met later.
    const std::uint64_t room = (end / file_room + 1) * file_room;
    file->second = {next_file_, next_file_ + room};
    next_file_ += room;
  }
  const std::uint64_t start = file->second.first + module.file_offset;
  const auto [segment, is_first] =
      segments_.try_emplace({module.path, module.build_id, start}, modules_.size());
  if (is_first) modules_.push_back({module.path, module.build_id, start, start, module.file_offset});
  module_info& here = modules_[segment->second];
  here.end = std::max(here.end, start + (module.end - module.start));
  return start + (address - module.start);
}

std::uint64_t joined_addresses::place_by_symbol(const std::string& path,
                                                const std::vector<source_frame>& frames,
                                                std::uint64_t otherwise) {
  return by_symbol_.try_emplace(signature_of(path, frames), otherwise).first->second;
}

void joined_addresses::keep_symbol(std::uint64_t address, const std::vector<source_frame>& frames) {
  std::vector<source_frame>& kept = symbols_[address];
  if (!is_named(kept)) kept = frames;
}

}  // namespace tarn::profiler
