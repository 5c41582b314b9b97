// SPDX-License-Identifier: MIT
#include "advice_replay.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>

#include "cli_error.hpp"
#include "library_search.hpp"
#include "profiler/analyze/quantity.hpp"
#include "profiler/replay/trace.hpp"

namespace tarn::cli {

using profiler::advice;
using profiler::advice_kind;

namespace {

// Each takes as long as the program's own allocations do.
constexpr std::size_t most_replayed_pools = 4;

bool has_route(advice_kind kind) {
  return kind == advice_kind::typed_pool || kind == advice_kind::object_pool ||
         kind == advice_kind::buffer_pool || kind == advice_kind::arena;
}

// tarn's pools without its malloc, as a program that is edited would use them; with it where that library is missing.
std::string pools_library(std::vector<std::string>& notes) {
  std::string tarn = find_tarn_library();
  const std::filesystem::path folder = std::filesystem::path(tarn).parent_path();
  for (const char* name : {"libtarn-api.so.1", "libtarn-api.so"}) {
    if (std::filesystem::exists(folder / name)) return (folder / name).string();
  }
  notes.emplace_back("libtarn-api.so is not beside libtarn: pools are replayed on tarn's malloc");
  return tarn;
}

class advice_replay {
 public:
  advice_replay(const std::string& path, const profiler::profile& p, std::vector<std::string>& notes)
      : path_(path), p_(p), notes_(notes) {
    profiler::trace plain = profiler::load_trace(path, p, {});
    duration_ns_ = plain.duration_ns;
    double all = 0;
    for (const profiler::site& one : p.sites) all += one.figures.allocations;
    scale_ = std::max(1.0, all / static_cast<double>(plain.allocations));
    if (plain.cut)
      notes.push_back(
          fmt::format("a part of the events is replayed; savings are multiplied by {:.2f}", scale_));
    if (!plain.damage.empty())
      notes.push_back(
          fmt::format("the file is damaged ({}); what comes before it is replayed", plain.damage));
    images_.emplace_back(plain);
    ways_.push_back({"as it was", {system_name, "", {}}, profiler::play_mode::heap, &images_.front()});
  }

  std::vector<advice> run(std::vector<advice> all, replay_settings settings) {
    settings.timeout_seconds = replay_timeout(duration_ns_);
    for (std::size_t index = 0; index < all.size(); ++index) add(all[index], index);
    const std::vector<replay_result> results = replay_all(ways_, settings);
    if (!results.front().failure.empty()) {
      throw cli_error(exit_code::refused, "the trace cannot be replayed: " + results.front().failure);
    }
    for (const auto& [index, way] : way_of_) set(all[index], results[way], results.front());
    return all;
  }

 private:
  void add(const advice& one, std::size_t index) {
    // The program itself has told more than a replay can.
    if (one.grade == profiler::advice_grade::proven || one.grade == profiler::advice_grade::disproved) return;
    replay_way way{one.headline, {system_name, "", {}}, profiler::play_mode::heap, &images_.front()};
    if (!one.variables.empty()) {
      for (const profiler::environment_variable& each : one.variables)
        way.who.variables.emplace_back(each.name, each.value);
    } else if (one.kind == advice_kind::allocator) {
      way.who = {tarn_name, find_tarn_library(), {}};
    } else if (has_route(one.kind) && pools_++ < most_replayed_pools) {
      profiler::trace_settings settings;
      profiler::add_routes(settings, p_, {one});
      images_.emplace_back(profiler::load_trace(path_, p_, settings));
      if (library_.empty()) library_ = pools_library(notes_);
      way.who.library = library_;
      way.mode = profiler::play_mode::routes;
      way.image = &images_.back();
    } else {
      return;
    }
    way_of_[index] = ways_.size();
    ways_.push_back(std::move(way));
  }

  void set(advice& one, const replay_result& result, const replay_result& base) {
    const auto saving = saving_of(result, base);
    if (!saving) {
      notes_.push_back(fmt::format("'{}' could not be replayed: {}", one.headline, result.failure));
      return;
    }
    one.evidence.push_back(fmt::format("the price list said {} ({} to {})", profiler::say_time(one.saving_ns),
                                       profiler::say_time(one.low_ns), profiler::say_time(one.high_ns)));
    one.grade = profiler::advice_grade::replayed;
    // A replay has nothing but calls, which wait for each other where the program's would not: it may take longer than the
    // program itself, which saves no more than it takes.
    const double cpu_ns = profiler::cpu_time_of(p_);
    one.saving_ns = std::clamp(scale_ * saving->saving_ns, 0.0, cpu_ns);
    one.low_ns = std::clamp(scale_ * saving->low_ns, 0.0, one.saving_ns);
    one.high_ns = std::clamp(scale_ * saving->high_ns, one.saving_ns, cpu_ns);
    one.share = one.saving_ns / cpu_ns;
    one.evidence.push_back(fmt::format(
        "replayed: {} of CPU time less than as it was, {} page faults instead of {}",
        profiler::say_time(scale_ * saving->saving_ns), profiler::say_count(result.rounds.front().faults),
        profiler::say_count(base.rounds.front().faults)));
  }

  const std::string& path_;
  const profiler::profile& p_;
  std::vector<std::string>& notes_;
  double scale_ = 1;
  double duration_ns_ = 0;
  std::string library_;
  std::size_t pools_ = 0;
  std::deque<profiler::trace_image> images_;  // ways point into it
  std::vector<replay_way> ways_;
  std::map<std::size_t, std::size_t> way_of_;  // by advice
};

}  // namespace

std::vector<advice> replay_advice(const std::string& path, const profiler::profile& p,
                                  std::vector<advice> all, const profiler::advice_settings& which,
                                  const replay_settings& settings, std::vector<std::string>& notes) {
  return arrange_advice(p, advice_replay(path, p, notes).run(std::move(all), settings), which);
}

}  // namespace tarn::cli
