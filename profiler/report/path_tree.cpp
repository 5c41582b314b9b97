// SPDX-License-Identifier: MIT
#include "profiler/report/path_tree.hpp"

#include <algorithm>

#include "profiler/analyze/site_label.hpp"
#include "profiler/model/script_address.hpp"

namespace tarn::profiler {

namespace {

std::string_view file_name(std::string_view path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

path_tree::path_tree(const profile& p, string_table& strings)
    : profile_(p), strings_(strings), node_of_stack_(p.stacks.size()), nodes_(1) {
  has_scripts_ = std::any_of(p.symbols.begin(), p.symbols.end(),
                             [](const auto& one) { return is_script_address(one.first); });
}

std::uint32_t path_tree::node_of(std::uint32_t stack) {
  // The callers that have no node yet, innermost first.
  std::vector<std::uint32_t> missing;
  std::uint32_t at = stack < node_of_stack_.size() ? stack : 0;
  while (at != 0 && node_of_stack_[at] == 0) {
    missing.push_back(at);
    at = std::min(profile_.stacks[at].parent, at - 1);  // guarantees progress, whatever a damaged file says
  }
  std::uint32_t node = at == 0 ? 0 : node_of_stack_[at];
  for (auto one = missing.rbegin(); one != missing.rend(); ++one) {
    for (const std::uint32_t number : frames_at(profile_.stacks[*one].address)) node = child_of(node, number);
    node_of_stack_[*one] = node;
  }
  return node;
}

std::uint32_t path_tree::place_of(std::uint32_t stack) {
  const std::vector<source_frame> frames = near_frames(profile_, stack);
  if (frames.empty()) return no_frame;
  const std::size_t own = own_frame(frames);
  if (is_nameless(frames[own])) {
    const source_frame label = label_of(frames);
    const std::uint32_t number = number_of({strings_.number_of(label.function), 0, 0,
                                            strings_.number_of(file_name(file_of(profile_, label))), 0, 0});
    if (hints_.contains(number)) return number;
    hints_[number] = name_hint(profile_, label);
    return number;
  }
  // An address has several frames where functions were inlined: those with the same address, up to the own one.
  std::size_t inner = own;
  while (inner > 0 && frames[inner - 1].inlined && frames[inner - 1].address == frames[own].address) --inner;
  const std::vector<std::uint32_t>& numbers = frames_at(frames[own].address);  // outermost first
  return numbers[numbers.size() - 1 - (own - inner)];
}

std::uint32_t path_tree::node_below(std::string_view text, std::uint32_t frame_number) {
  const std::uint32_t above = child_of(0, number_of({strings_.number_of(text), 0, 0, 0, 0, 1}));
  return frame_number == no_frame ? above : child_of(above, frame_number);
}

const std::vector<std::uint32_t>& path_tree::frames_at(std::uint64_t address) {
  const auto [place, is_new] = frames_of_address_.try_emplace(address);
  std::vector<std::uint32_t>& numbers = place->second;
  if (!is_new) return numbers;
  // The call instruction is before its return address.
  const module_info* module = module_at(profile_, address - 1);
  const std::string_view module_name = module != nullptr ? file_name(module->path) : std::string_view();
  const std::uint32_t module_text = strings_.number_of(module_name);
  const frame_kind kind = kind_of(module, address, has_scripts_);
  const auto known = profile_.symbols.find(address);
  if (known == profile_.symbols.end() || known->second.empty()) {
    source_frame nameless{unknown_function(profile_, address), {}, 0, false};
    nameless.kind = kind;
    numbers.push_back(number_of(
        {strings_.number_of(nameless.function), 0, 0, module_text, 0, is_plumbing(nameless) ? 1U : 0U}));
    return numbers;
  }
  for (auto one = known->second.rbegin(); one != known->second.rend(); ++one) {
    source_frame kept = *one;
    kept.kind = kind;
    // A line of a script belongs to its file, as other code to its module.
    const std::uint32_t container =
        kind == frame_kind::script ? strings_.number_of(file_name(one->file)) : module_text;
    numbers.push_back(number_of({strings_.number_of(one->function), strings_.number_of(one->file), one->line,
                                 container, one->inlined ? 1U : 0U, is_plumbing(kept) ? 1U : 0U}));
  }
  return numbers;
}

std::uint32_t path_tree::number_of(const frame& wanted) {
  const auto [place, is_new] = frame_numbers_.try_emplace(wanted, static_cast<std::uint32_t>(frames_.size()));
  if (is_new) frames_.push_back(wanted);
  return place->second;
}

std::uint32_t path_tree::child_of(std::uint32_t parent, std::uint32_t frame_number) {
  const std::uint64_t key = std::uint64_t{parent} << 32 | frame_number;
  const auto [place, is_new] = children_.try_emplace(key, static_cast<std::uint32_t>(nodes_.size()));
  if (is_new) nodes_.push_back({parent, frame_number});
  return place->second;
}

nlohmann::json path_tree::frames_json() const {
  constexpr std::array<const char*, 6> names = {"function", "file", "line", "module", "inlined", "library"};
  nlohmann::json columns = nlohmann::json::object();
  for (std::size_t index = 0; index < names.size(); ++index) {
    nlohmann::json values = nlohmann::json::array();
    for (const frame& one : frames_) values.push_back(one[index]);
    columns[names[index]] = std::move(values);
  }
  return columns;
}

nlohmann::json path_tree::nodes_json() const {
  nlohmann::json parents = nlohmann::json::array();
  nlohmann::json frames = nlohmann::json::array();
  for (const auto& [parent, frame_number] : nodes_) {
    parents.push_back(parent);
    frames.push_back(frame_number);
  }
  return {{"parent", std::move(parents)}, {"frame", std::move(frames)}};
}

}  // namespace tarn::profiler
