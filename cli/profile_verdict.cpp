// SPDX-License-Identifier: MIT
#include "profile_verdict.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "text.hpp"

namespace tarn::cli {

namespace {

constexpr std::size_t most_sites = 5;

std::string show_ns(double ns) { return show_short_time(ns / 1e9).text; }

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

// The innermost function that is not the allocator's or the C++ library's own, by name if it is known.
std::string name_of(const profiler::profile& p, std::uint32_t stack) {
  const std::vector<profiler::source_frame> frames = profiler::frames_of(p, stack);
  if (frames.empty()) return "(no call path)";
  for (const profiler::source_frame& frame : frames) {
    if (frame.function.starts_with("operator new") || frame.function.starts_with("std::") ||
        frame.function.starts_with("__gnu_cxx::") || frame.function.starts_with("void std::")) {
      continue;
    }
    std::string where;
    if (!frame.file.empty()) {
      where = fmt::format(" ({}:{})", frame.file.substr(frame.file.rfind('/') + 1), frame.line);
    }
    return frame.function + where;
  }
  return frames.front().function;
}

}  // namespace

std::string render_verdict(const profiler::profile& p) {
  const profiler::cost all = profiler::cost_of_all(p);
  double allocations = 0;
  double bytes = 0;
  double joined = 0;
  for (const profiler::site& site : p.sites) {
    allocations += site.figures.allocations;
    bytes += site.figures.bytes;
    joined += site.figures.faults;
  }
  const double user = p.counters.empty() ? 0 : p.counters.back().user_ns + p.counters.back().system_ns;
  std::string text = fmt::format("{} allocations of {}", show_count(allocations).text, show_bytes(bytes).text);
  text += fmt::format("; memory truly cost about {} of {} processor time\n", show_ns(all.total()), show_ns(user));
  text += fmt::format("  in malloc and free {} ({:.0f} %), which a timer around them sees; afterwards in the kernel {} of "
                      "page faults and {} of giving back ({:.0f} %), which it does not\n",
                      show_ns(all.malloc_ns), percent(all.malloc_ns, all.total()), show_ns(all.fault_ns),
                      show_ns(all.unmap_ns), percent(all.hidden(), all.total()));
  text += fmt::format("  page faults: {} on blocks of a known site, {} elsewhere (images, stacks, the allocator's own), {} not "
                      "seen\n",
                      show_count(joined).text, show_count(p.other_faults).text, show_count(p.unseen_faults).text);
  std::vector<std::pair<double, const profiler::site*>> sites;
  for (const profiler::site& site : p.sites) sites.emplace_back(profiler::cost_of(p, site.figures).total(), &site);
  std::sort(sites.begin(), sites.end(), [](const auto& left, const auto& right) { return left.first > right.first; });
  if (sites.size() > most_sites) sites.resize(most_sites);
  for (const auto& [cost, site] : sites) {
    if (cost <= 0) break;
    text += fmt::format("  {:>9} {:>4.0f} %  {:>8} x {:>10}  {}\n", show_ns(cost), percent(cost, all.total()),
                        show_count(site->figures.allocations).text,
                        show_bytes(site->figures.bytes / std::max(1.0, site->figures.allocations)).text,
                        name_of(p, site->stack));
  }
  if (p.lost_events > 0) text += fmt::format("  {:.0f} events were lost\n", p.lost_events);
  return text;
}

void print_verdict(const profiler::profile& p) {
  fmt::print(stderr, "tarn: {}", render_verdict(p));
  if (!p.meta.contains("refused")) return;
  for (const auto& sentence : p.meta["refused"]) {
    if (sentence.is_string()) fmt::print(stderr, "  not seen: {}\n", sentence.get<std::string>());
  }
}

}  // namespace tarn::cli
