// SPDX-License-Identifier: MIT
#include "cli/views/profile_views.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "cli/recording/process_choice.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/profile_view.hpp"
#include "cli/show/text.hpp"
#include "profiler/export/call_tree.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

namespace {

using profiler::call_node;
using profiler::call_tree;
using profiler::metric;

constexpr std::size_t bar_columns = 12;
// Levels that are printed, by functions that call themselves, and that readers of JSON accept.
constexpr std::size_t deepest = 500;

// A bar with a resolution of an eighth of a column.
std::string bar(double share) {
  constexpr const char* parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * 8 * bar_columns));
  std::string text;
  for (std::size_t column = 0; column < eighths / 8; ++column) text += "█";
  text += parts[eighths % 8];
  return pad_right(text, bar_columns);
}

struct tree_settings {
  const metric* what = nullptr;
  double whole =
      0;  // what shares are of: the processor time; of what is no time, or without that, the root's value
  double least = 0;  // least share of the root's value that is shown
  std::size_t depth = deepest;
  std::size_t width = 0;
  bool colour = false;
};

class tree_printer {
 public:
  tree_printer(const call_tree& tree, const tree_settings& settings)
      : tree_(tree), settings_(settings), root_(tree.root()) {}

  void run() { print_children(root_, 0, 0); }

 private:
  double whole() const { return root_.value; }

  void print_line(double value, std::size_t indent, const std::string& text, style how) {
    const std::string head = fmt::format("{:>7}  {:>9}  ", profiler::say_share(value, settings_.whole),
                                         say(settings_.what->unit, value));
    const std::string share = paint(bar(value / whole()), style::good, settings_.colour);
    fmt::print("{}{} {}{}\n", head, share, std::string(indent, ' '), paint(text, how, settings_.colour));
  }

  std::size_t room(std::size_t indent) const {
    constexpr std::size_t head = 7 + 2 + 9 + 2 + bar_columns + 1;
    if (settings_.width == 0) return 0;
    return settings_.width > head + indent + 20 ? settings_.width - head - indent : 20;
  }

  void print_children(const call_node& node, std::size_t indent, std::size_t depth) {
    double rest = node.own;
    std::size_t hidden = 0;
    const bool deep = depth >= settings_.depth;
    std::vector<call_node> shown;
    for (const call_node& child : tree_.children(node)) {
      if (!deep && child.value >= settings_.least * whole()) {
        shown.push_back(child);
      } else {
        rest += child.value;
        ++hidden;
      }
    }
    if (depth == deepest && hidden > 0)
      print_line(node.value - node.own, indent, "(deeper frames are left out)", style::faint);
    // The part of the value that belongs to no shown child gets a line of its own, unless it is mere rounding.
    const bool has_rest = !shown.empty() && rest >= 0.0005 * whole();
    const std::size_t inner = indent + (shown.size() > 1 || has_rest ? 2 : 0);
    for (const call_node& child : shown) {
      print_line(child.value, inner, show_frame(tree_.frame_of(child), room(inner)), style::plain);
      print_children(child, inner, depth + 1);
    }
    if (has_rest) {
      const std::string own = node.own > 0 ? "itself" : "";
      const std::string others =
          hidden == 0 ? "" : fmt::format("{} smaller {}", hidden, hidden == 1 ? "path" : "paths");
      print_line(rest, inner, fmt::format("({}{}{})", own, own.empty() || others.empty() ? "" : ", ", others),
                 style::faint);
    }
  }

  const call_tree& tree_;
  const tree_settings& settings_;
  call_node root_;
};

// Printed node by node, as the whole JSON tree would take much more memory than the call paths.
void print_json(const call_tree& tree, const call_node& node, std::size_t depth) {
  const profiler::source_frame frame =
      depth == 0 ? profiler::source_frame{"all", {}, 0} : tree.frame_of(node);
  const std::string text = json_text({{"name", frame.function},
                                      {"file", frame.file},
                                      {"line", frame.line},
                                      {"value", node.value},
                                      {"own", node.own}});
  fmt::print("{},", std::string_view(text).substr(0, text.size() - 1));
  std::vector<call_node> children = tree.children(node);
  if (depth == deepest && !children.empty()) {
    fmt::print("\"left_out\":\"deeper frames\",");
    children.clear();
  }
  fmt::print("\"children\":[");
  const char* separator = "";
  for (const call_node& child : children) {
    fmt::print("{}\n{}", separator, std::string(depth + 1, ' '));
    print_json(tree, child, depth + 1);
    separator = ",";
  }
  fmt::print("]}}");
}

}  // namespace

int show_tree(const view_request& asked) {
  tree_settings settings;
  settings.least = asked.least_percent / 100;
  settings.depth = asked.depth == 0 ? deepest : std::min(asked.depth, deepest);
  settings.width = terminal_width(STDOUT_FILENO);
  settings.colour = wants_colour(STDOUT_FILENO);
  const profiler::profile p = load_for_command(asked.path, asked.process, profiler::profile_detail::figures);
  settings.what = &asked.metric_for(p);
  const call_tree tree = call_tree::of(p, *settings.what, asked.inverted);
  const double processor = settings.what->unit == profiler::base_unit::ns ? profiler::processor_ns(p) : 0;
  settings.whole = processor > 0 ? processor : tree.root().value;
  if (asked.json) {
    print_json(tree, tree.root(), 0);
    fmt::print("\n");
    return exit_code::success;
  }
  fmt::print("{}\n\n", paint(fmt::format("{}: {}, {}", settings.what->name,
                                         say(settings.what->unit, tree.root().value), settings.what->meaning),
                             style::bold, settings.colour));
  if (tree.root().value > 0) tree_printer(tree, settings).run();
  return exit_code::success;
}

}  // namespace tarn::cli
