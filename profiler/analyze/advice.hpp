// SPDX-License-Identifier: MIT
// advice: what would make a program's memory allocation cheaper, by how much, and the evidence for it. Rules and
// their figures: docs/explanation/advice.md. Pure functions of a profile; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "profiler/analyze/advice_kinds.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// What the saving is based on: the price list; a replay of the trace against the real allocators and pools; or runs
// of the program itself with the change in effect, which save CPU time (proven) or do not (disproved).
enum class advice_grade : std::uint8_t { estimated, replayed, proven, disproved };

struct environment_variable {
  std::string name;
  std::string value;
};

// Invariants: low_ns <= saving_ns <= high_ns; `sites` begins with the costliest site, and is empty if the advice is
// for the whole program.
struct advice {
  advice_kind kind = advice_kind::leave_it;
  advice_grade grade = advice_grade::estimated;
  std::uint32_t site = 0;             // the costliest site: an index into profile::sites
  std::vector<std::uint32_t> sites;   // all sites that the advice covers
  std::string type;                   // "": not known, or several
  std::string place;                  // "file:line function" of what would be changed; "": the whole program
  std::string headline;               // one line
  std::string reason;                 // a sentence or two
  std::string change;                 // the lines to write, or the command to use
  std::vector<std::string> evidence;  // the figures behind the advice, one sentence each
  std::vector<environment_variable> variables;  // variables to set, for advice without a change of code
  std::string library;                          // the malloc to preload; empty: tarn's, or none
  double saving_ns = 0;                         // of CPU time, over the whole run
  double low_ns = 0;                            // lower end of the saving's interval, by experience.hpp
  double high_ns = 0;
  double raw_ns = 0;        // the saving by the rule or the replay, before the correction by experience
  double raw_fault_ns = 0;  // the part of raw_ns in page faults; only for another malloc, which saves both
  double share = 0;         // saving_ns / the program's CPU time
  double memory_bytes = 0;  // bytes that would stay resident and are released now
  // Index of the earlier advice that already saves the same cost; -1: none.
  int instead_of = -1;
};

struct advice_settings {
  double least_share = 0.01;  // share of CPU time; if less can be saved, the advice is to change nothing
  std::size_t most = 12;      // largest number of pieces of advice, without those to change nothing
};

// Sorted by saving; of two that save about as much of the same cost, the one that changes no code comes first. If
// nothing saves `least_share`, the first piece is leave_it for the whole program; otherwise the last is, for
// everything else. Advice that measurements have disproved comes last of all. Never empty. Requires: `p` is from
// load_profile.
std::vector<advice> advise(const profile& p, const advice_settings& settings = {});

// Sorts advice again whose figures were changed, for example by a replay.
std::vector<advice> arrange_advice(const profile& p, std::vector<advice> candidates,
                                   const advice_settings& settings = {});

// The kernel counts processor time of running processes in ticks: none counted means less than this.
inline constexpr double clock_tick_ns = 1e7;
// User and system time of the program in ns, at least 1, to take shares of. Not counted at all: its duration. Less than
// a tick: a tick, or the duration if that is less, or the cost of memory if that is more.
double cpu_time_of(const profile& p);

bool is_remark(const advice& one);           // it saves nothing by itself
double peak_bytes_of(const profile& p);      // live bytes at the program's peak
const char* kind_name(advice_kind kind);     // "buffer pool"
const char* grade_name(advice_grade grade);  // "estimated"
nlohmann::json as_json(const advice& one);

}  // namespace tarn::profiler
