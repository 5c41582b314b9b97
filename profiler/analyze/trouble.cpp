// SPDX-License-Identifier: MIT
#include "profiler/analyze/trouble.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstring>

#include "profiler/format/quantity.hpp"
#include "profiler/model/known_meta.hpp"
#include "profiler/model/recorded_command.hpp"

namespace tarn::profiler {

namespace {

constexpr std::size_t growth_parts = 4;
constexpr double least_growth = 1 << 20;
constexpr double least_exact_growth = 1 << 16;  // of live blocks of which each is known
constexpr double least_growth_share = 0.1;

int signal_in(const profile& p) {
  const nlohmann::json* end = member_in(p.meta, "exit");
  return end != nullptr ? static_cast<int>(number_in(*end, "signal")) : 0;
}

// Whether the program was still at work when the recording ended. One that ends by itself has built up what it needed.
bool was_cut_off(const profile& p) {
  const nlohmann::json* end = member_in(p.meta, "exit");
  return end == nullptr || signal_in(p) != 0 || member_in(p.meta, "attached") != nullptr;
}

// What the readings of a figure say of a part of the time.
struct part_mean {
  double time_ns = 0;
  double bytes = 0;
  double variance = 0;  // of that mean, as the readings scatter
};
using part_means = std::array<part_mean, growth_parts>;

// A figure in equal parts of the time from `from` on; empty if a part has no reading. A single reading may be one with a
// large block that comes and goes.
std::optional<part_means> means_of(const profile& p, double counter_row::*figure, std::uint64_t from) {
  std::array<double, growth_parts> times{}, sums{}, squares{}, counts{};
  const std::uint64_t length = p.counters.back().time_ns - from;
  for (const counter_row& row : p.counters) {
    if (row.time_ns < from) continue;
    const std::size_t part =
        std::min<std::size_t>(growth_parts - 1, growth_parts * (row.time_ns - from) / length);
    times[part] += static_cast<double>(row.time_ns);
    sums[part] += row.*figure;
    squares[part] += row.*figure * (row.*figure);
    ++counts[part];
  }
  part_means means;
  for (std::size_t part = 0; part < growth_parts; ++part) {
    const double count = counts[part];
    if (count == 0) return std::nullopt;
    means[part].time_ns = times[part] / count;
    means[part].bytes = sums[part] / count;
    means[part].variance =
        std::max(0.0, squares[part] / count - means[part].bytes * means[part].bytes) / count;
  }
  return means;
}

// Half the width of the interval of a difference.
double margin_between(const part_mean& one, const part_mean& other, double variance_of_byte) {
  return margin_of(one.variance + other.variance + variance_of_byte * (one.bytes + other.bytes));
}

// Of what lives, due to sampling, for its size.
double variance_of_live_byte(const profile& p) {
  double bytes = 0;
  double variance = 0;
  for (const site& one : p.sites) {
    bytes += one.figures.live_bytes;
    variance += one.figures.live_bytes_variance;
  }
  return bytes > 0 ? variance / bytes : number_in(p.meta, "sample_bytes");
}

// What grows from each part of the time to the next, by half of the mean step at least, and by more than chance explains.
std::optional<memory_growth> growth_of(const profile& p, bool is_live) {
  const auto from = static_cast<std::uint64_t>(number_in(p.meta, "growth_from_ns"));
  if (from == 0 || p.counters.empty() || p.counters.back().time_ns <= from) return std::nullopt;
  const auto live = means_of(p, &counter_row::live_bytes, from);
  const auto resident = means_of(p, &counter_row::resident_bytes, from);
  const auto& means = is_live ? live : resident;
  if (!live || !resident) return std::nullopt;
  const double step = (means->back().bytes - means->front().bytes) / (growth_parts - 1);
  for (std::size_t part = 1; part < growth_parts; ++part) {
    const part_mean& before = (*means)[part - 1];
    const part_mean& after = (*means)[part];
    if (after.bytes - before.bytes + margin_between(before, after, 0) < step / 2) return std::nullopt;
  }
  const double sample_bytes = number_in(p.meta, "sample_bytes");
  const memory_growth found{
      .is_live = is_live,
      .is_sampled = sample_bytes > 0,
      .from_ns = static_cast<std::uint64_t>(means->front().time_ns),
      .to_ns = static_cast<std::uint64_t>(means->back().time_ns),
      .from_bytes = means->front().bytes,
      .to_bytes = means->back().bytes,
      .live_bytes = live->back().bytes - live->front().bytes,
      .live_margin = margin_between(live->front(), live->back(), variance_of_live_byte(p))};
  const double chance = is_live ? found.live_margin : margin_between(means->front(), means->back(), 0);
  // What lives may be a large block that is not touched.
  const double most_held = std::min(found.to_bytes, resident->back().bytes);
  const bool counts = step > 0 && found.bytes() > chance &&
                      found.bytes() >= (is_live && !found.is_sampled ? least_exact_growth : least_growth) &&
                      found.bytes() >= least_growth_share * most_held;
  return counts ? std::optional(found) : std::nullopt;
}

double peak_of(const profile& p) {
  double peak = number_in(p.meta, "peak_resident_bytes");
  for (const counter_row& row : p.counters) peak = std::max(peak, row.resident_bytes);
  if (flag_in(p.meta, "peak_resident_exact")) return peak;
  for (const memory_row& row : p.memory.rows) peak = std::max(peak, row.sum());
  return peak;
}

double recorder_at_peak(const profile& p, double peak_bytes) {
  const memory_row* most = nullptr;
  for (const memory_row& row : p.memory.rows) {
    if (most == nullptr || row.resident_bytes > most->resident_bytes) most = &row;
  }
  return most != nullptr ? std::min(most->recorder, peak_bytes) : 0;
}

trouble_kind kind_of(const profile& p, const trouble& what) {
  constexpr double crowded = 0.5;
  constexpr double noticeable = 0.01;  // less of what there is hurts nobody
  if (what.signal != 0) return trouble_kind::death;
  const double share = what.available_bytes() > 0 ? what.peak_bytes / what.available_bytes() : 0;
  const bool crowds = what.machine_bytes > 0 && what.peak_bytes >= crowded * what.machine_bytes;
  if (what.is_near_limit() || what.gave_up() || crowds) return trouble_kind::peak;
  if (what.growth && was_cut_off(p)) return trouble_kind::growth;
  const double whole = processor_ns(p);
  return whole > 0 && !p.memory.rows.empty() && share >= noticeable && share > cost_of_all(p).total() / whole
             ? trouble_kind::peak
             : trouble_kind::time;
}

std::string say_growth(const memory_growth& growth) {
  const double seconds = static_cast<double>(growth.to_ns - growth.from_ns) * 1e-9;
  return fmt::format("from {} at {} to {} at {} ({} a second)", say_bytes(growth.from_bytes),
                     say_time(static_cast<double>(growth.from_ns)), say_bytes(growth.to_bytes),
                     say_time(static_cast<double>(growth.to_ns)), say_bytes(growth.bytes() / seconds));
}

std::string growth_words(const memory_growth& growth) {
  if (growth.is_live) return "its live blocks still grew at the end: " + say_growth(growth);
  std::string text = "its resident memory still grew at the end: " + say_growth(growth);
  const double half = growth.bytes() / 2;
  if (growth.live_bytes + growth.live_margin < half)
    text += "; its live blocks make up less than half of that";
  else if (growth.live_bytes - growth.live_margin < half)
    text += growth.is_sampled
                ? "; samples do not tell whether its live blocks did: record longer, or with --mode full"
                : "; its live blocks rise and fall too much to tell whether they did: record longer";
  return text;
}

std::string peak_words(const trouble& what) {
  constexpr double noticeable = 0.1;  // of the peak
  std::string text = fmt::format("its resident memory reached {}{}", what.is_peak_exact ? "" : "at least ",
                                 say_bytes(what.peak_bytes));
  if (what.recorder_bytes > noticeable * what.peak_bytes)
    text += fmt::format(" ({} of it tarn's recorder)", say_bytes(what.recorder_bytes));
  return text;
}

std::string limit_words(const trouble& what) {
  std::string text;
  if (what.limit_bytes > 0)
    text += fmt::format("; the limit of its control group is {}", say_bytes(what.limit_bytes));
  if (what.address_bytes > 0)
    text += fmt::format("; the limit of its address space (ulimit -v) is {}", say_bytes(what.address_bytes));
  if (what.peak_address_bytes > 0)
    text += fmt::format(", of which it used {}", say_bytes(what.peak_address_bytes));
  return text;
}

}  // namespace

double trouble::available_bytes() const noexcept {
  return limit_bytes > 0 && (machine_bytes <= 0 || limit_bytes < machine_bytes) ? limit_bytes : machine_bytes;
}

bool trouble::may_be_memory() const noexcept {
  // At the end of the address space malloc returns null: an exception that nobody catches ends the program by SIGABRT, the use
  // of that pointer by SIGSEGV.
  return is_near_limit() || signal == SIGKILL || (signal == SIGABRT && address_bytes > 0) ||
         (signal == SIGSEGV && is_near_address_limit());
}

trouble trouble_of(const profile& p) {
  trouble what;
  const int signal = signal_in(p);
  what.signal = is_request_to_end(signal) ? 0 : signal;
  what.out_of_memory = text_in(p.meta, "out_of_memory");
  if (const nlohmann::json* end = member_in(p.meta, "exit"))
    what.status = static_cast<int>(number_in(*end, "status"));
  what.peak_bytes = peak_of(p);
  what.is_peak_exact = flag_in(p.meta, "peak_resident_exact");
  what.recorder_bytes = recorder_at_peak(p, what.peak_bytes);
  what.limit_bytes = number_in(p.meta, "memory_limit_bytes");
  what.address_bytes = number_in(p.meta, "address_limit_bytes");
  what.peak_address_bytes = number_in(p.meta, "peak_address_bytes");
  what.machine_bytes = number_in(p.meta, "machine_memory_bytes");
  // A merged profile's processes were measured at different times.
  if (!p.meta.contains("processes")) {
    what.growth = growth_of(p, true);
    if (!what.growth) what.growth = growth_of(p, false);
  }
  what.kind = kind_of(p, what);
  return what;
}

const char* name_of(trouble_kind kind) {
  switch (kind) {
    case trouble_kind::death: return "death";
    case trouble_kind::peak: return "peak";
    case trouble_kind::growth: return "growth";
    case trouble_kind::time: break;
  }
  return "time";
}

std::string sentence_of(const trouble& what) {
  if (what.kind == trouble_kind::death) {
    const std::string by =
        what.out_of_memory == "group"
            ? "the kernel, as memory had run out (OOM killer)"
            : fmt::format("signal {} ({}){}", what.signal, strsignal(what.signal),
                          what.out_of_memory == "machine"
                              ? ", perhaps by the kernel: it killed a process for lack of memory then"
                              : "");
    return "killed by " + by + (what.peak_bytes > 0 ? "; " + peak_words(what) : "") + limit_words(what);
  }
  if (what.kind == trouble_kind::growth) return growth_words(*what.growth);
  if (what.gave_up())
    return fmt::format("it ended with status {}; ", what.status) + peak_words(what) + limit_words(what);
  if (what.is_near_limit()) return peak_words(what) + limit_words(what);
  std::string text = peak_words(what);
  if (what.available_bytes() > 0) {
    text += fmt::format(", {} of the {} of its {}", say_share(what.peak_bytes, what.available_bytes()),
                        say_bytes(what.available_bytes()),
                        what.available_bytes() == what.limit_bytes ? "control group" : "machine");
  }
  return text;
}

const memory_row* reading_for(const profile& p, const trouble& what) {
  if (p.memory.rows.empty()) return nullptr;
  return what.kind == trouble_kind::death && what.may_be_memory() ? &p.memory.rows.back()
                                                                  : p.memory.highest();
}

}  // namespace tarn::profiler
