// SPDX-License-Identifier: MIT
#include "cli/compare/advice_replay.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>

#include "cli/compare/statistics.hpp"
#include "cli/launch/library_search.hpp"
#include "cli/launch/memory_conditioner.hpp"
#include "cli/show/cli_error.hpp"
#include "profiler/analyze/experience.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/replay/trace.hpp"

namespace tarn::cli {

using profiler::advice;
using profiler::advice_kind;

namespace {

// Each replay takes as long as the program's own allocations.
constexpr std::size_t most_replayed_pools = 3;

bool has_route(advice_kind kind) {
  return kind == advice_kind::typed_pool || kind == advice_kind::object_pool ||
         kind == advice_kind::buffer_pool || kind == advice_kind::arena;
}

// tarn's pools without its malloc, as an edited program would use them; the library with both if the pools' own
// library is missing.
std::string pools_library(std::vector<std::string>& notes) {
  std::string tarn = find_tarn_library();
  const std::filesystem::path folder = std::filesystem::path(tarn).parent_path();
  for (const char* name : {"libtarn-api.so.1", "libtarn-api.so"}) {
    if (std::filesystem::exists(folder / name)) return (folder / name).string();
  }
  notes.emplace_back(
      "libtarn-api.so is not in the folder of libtarn; pools are replayed with tarn's malloc "
      "instead");
  return tarn;
}

class advice_replay {
 public:
  advice_replay(const std::string& path, const profiler::profile& p, std::vector<std::string>& notes)
      : path_(path), p_(p), notes_(notes) {
    profiler::trace plain = profiler::load_trace(path, p, {});
    duration_ns_ = plain.duration_ns;
    if (plain.peak_bytes > 0.5 * static_cast<double>(available_bytes())) {
      throw cli_error(
          exit_code::refused,
          fmt::format("a replay would take {} of memory, more than half of what is available here",
                      profiler::say_bytes(plain.peak_bytes)),
          "Without a replay: tarn advise --estimate FILE");
    }
    double all = 0;
    for (const profiler::site& one : p.sites) all += one.figures.allocations;
    scale_ = std::max(1.0, all / static_cast<double>(plain.allocations));
    if (plain.cut || (plain.sampled && scale_ > 1.5)) {
      notes.push_back(
          fmt::format("only a part of the run is replayed; savings are multiplied by {:.1f}", scale_));
    }
    if (!plain.damage.empty())
      notes.push_back(fmt::format("the file is damaged ({}); only the events before the damage are replayed",
                                  plain.damage));
    images_.emplace_back(plain);
    ways_.push_back({"as it was", {system_name, "", {}}, profiler::play_mode::heap, &images_.front()});
  }

  std::vector<advice> run(std::vector<advice> all, const profiler::advice_settings& which,
                          replay_settings settings) {
    settings.timeout_seconds = replay_timeout(duration_ns_);
    for (std::size_t index = 0; index < all.size(); ++index) {
      if (all[index].high_ns >= which.least_share * profiler::cpu_time_of(p_)) add(all[index], index);
    }
    if (way_of_.empty()) return all;
    const std::vector<replay_result> results = replay_all(ways_, settings);
    if (!results.front().failure.empty()) {
      throw cli_error(exit_code::refused, "the trace cannot be replayed: " + results.front().failure);
    }
    for (const auto& [index, way] : way_of_) set(all[index], results[way], results.front());
    return all;
  }

 private:
  void add(const advice& one, std::size_t index) {
    // A proof by the program itself counts more than a replay.
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
    one.evidence.push_back(fmt::format("the estimate was {} ({} to {})", profiler::say_time(one.saving_ns),
                                       profiler::say_time(one.low_ns), profiler::say_time(one.high_ns)));
    one.grade = profiler::advice_grade::replayed;
    const double part = part_of(base);
    profiler::apply_experience(
        one,
        {part * saving->raw_ns, part * saving->least_ns, part * saving->most_ns, 0, part * saving->fault_ns},
        judged_);
    one.evidence.push_back(fmt::format(
        "replayed: {} less CPU time than without the change, {} page faults instead of {}",
        profiler::say_time(part * saving->raw_ns), profiler::say_count(result.rounds.front().faults),
        profiler::say_count(base.rounds.front().faults)));
  }

  // The program's time that 1 ns of the replay stands for. First, in the ratio of the numbers of calls. But a
  // replay consists of little besides calls, which wait for each other and for memory more than the program's do:
  // if it takes longer than the program was measured to spend on memory, its differences are scaled down to that.
  double part_of(const replay_result& base) const {
    std::vector<double> taken;
    for (const profiler::play_figures& round : base.rounds) taken.push_back(1e9 * round.cpu_seconds());
    const double replayed = scale_ * median(taken);
    const double charged = cost_of_all(p_).total();
    return scale_ * (charged > 0 && replayed > charged ? charged / replayed : 1);
  }

  const std::string& path_;
  const profiler::profile& p_;
  std::vector<std::string>& notes_;
  const profiler::judged_program judged_ = judged_program_of(p_);
  double scale_ = 1;
  double duration_ns_ = 0;
  std::string library_;
  std::size_t pools_ = 0;
  std::deque<profiler::trace_image> images_;  // `ways_` point into it
  std::vector<replay_way> ways_;
  std::map<std::size_t, std::size_t> way_of_;  // by index of the advice
};

}  // namespace

std::vector<advice> replay_advice(const std::string& path, const profiler::profile& p,
                                  std::vector<advice> all, const profiler::advice_settings& which,
                                  const replay_settings& settings, std::vector<std::string>& notes) {
  return arrange_advice(p, advice_replay(path, p, notes).run(std::move(all), which, settings), which);
}

}  // namespace tarn::cli
