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

// The mean of a figure in equal parts of the time from `from` on; empty if a part has no reading.
std::optional<std::array<double, growth_parts>> means_of(const profile& p, double counter_row::*figure,
                                                         std::uint64_t from) {
  std::array<double, growth_parts> sums{};
  std::array<double, growth_parts> counts{};
  const std::uint64_t length = p.counters.back().time_ns - from;
  for (const counter_row& row : p.counters) {
    if (row.time_ns < from) continue;
    const std::size_t part =
        std::min<std::size_t>(growth_parts - 1, growth_parts * (row.time_ns - from) / length);
    sums[part] += row.*figure;
    ++counts[part];
  }
  for (std::size_t part = 0; part < growth_parts; ++part) {
    if (counts[part] == 0) return std::nullopt;
    sums[part] /= counts[part];
  }
  return sums;
}

// What grows from each part of the time to the next, by half of the mean step at least, and by more than chance explains.
std::optional<memory_growth> growth_of(const profile& p, bool is_live) {
  const auto from = static_cast<std::uint64_t>(number_in(p.meta, "growth_from_ns"));
  if (from == 0 || p.counters.empty() || p.counters.back().time_ns <= from) return std::nullopt;
  double counter_row::*const figure = is_live ? &counter_row::live_bytes : &counter_row::resident_bytes;
  const auto means = means_of(p, figure, from);
  if (!means) return std::nullopt;
  const double step = (means->back() - means->front()) / (growth_parts - 1);
  for (std::size_t part = 1; part < growth_parts; ++part) {
    if ((*means)[part] - (*means)[part - 1] < step / 2) return std::nullopt;
  }
  const auto first = std::find_if(p.counters.begin(), p.counters.end(),
                                  [from](const counter_row& row) { return row.time_ns >= from; });
  const counter_row& last = p.counters.back();
  // Each sampled block stands for so many bytes, and both ends are counts of them.
  const double sample_bytes = number_in(p.meta, "sample_bytes");
  const double chance = 1.96 * std::sqrt(sample_bytes * (first->live_bytes + last.live_bytes));
  const memory_growth found{is_live,      first->time_ns,
                            last.time_ns, (*first).*figure,
                            last.*figure, last.live_bytes - first->live_bytes,
                            chance};
  const bool counts = step > 0 && found.bytes() > (is_live ? chance : 0) &&
                      found.bytes() >= (is_live && sample_bytes == 0 ? least_exact_growth : least_growth) &&
                      found.bytes() >= least_growth_share * found.to_bytes;
  return counts ? std::optional(found) : std::nullopt;
}

double peak_of(const profile& p) {
  double peak = number_in(p.meta, "peak_resident_bytes");
  for (const counter_row& row : p.counters) peak = std::max(peak, row.resident_bytes);
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
  if (growth.live_bytes + growth.live_margin < growth.bytes() / 2)
    text += "; its live blocks make up less than half of that";
  else if (growth.live_margin > 0)
    text += "; samples do not tell whether its live blocks did: record longer, or with --mode full";
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
    return fmt::format("killed by signal {} ({})", what.signal, strsignal(what.signal)) + "; " +
           peak_words(what) + limit_words(what);
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
