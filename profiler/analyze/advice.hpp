// SPDX-License-Identifier: MIT
// advice: what would make a program's memory allocation cheaper, by how much, and what speaks for it. Rules and their
// figures: docs/advice.md.
// Pure functions of a profile; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

enum class advice_kind : std::uint8_t {
  leave_it,     // nothing here is worth a change
  tunable,      // start the program with a variable set; no code changes
  huge_pages,   // likewise
  allocator,    // start it on another allocator
  buffer_pool,  // tarn/buffer_pool.hpp
  typed_pool,   // tarn/pooled.hpp, local_pool.hpp, pooled_allocator.hpp: one thread at a time
  object_pool,  // tarn/object_pool.hpp: across threads
  recycler,     // tarn/recycler.hpp
  arena,        // tarn/arena.hpp
  ask_for_less,
  reserve,
  placement,  // where blocks lie may cost time that no rule and no replay sees: a remark
};

// What the saving rests on: the price list; the trace run against the real allocators and pools; the program itself
// run with the change in place, which saves CPU time (proven), or does not (disproved).
enum class advice_grade : std::uint8_t { estimated, replayed, proven, disproved };

struct environment_variable {
  std::string name;
  std::string value;
};

// Invariants: low_ns <= saving_ns <= high_ns; the costliest site comes first in `sites`, which is empty where the whole
// program is meant.
struct advice {
  advice_kind kind = advice_kind::leave_it;
  advice_grade grade = advice_grade::estimated;
  std::uint32_t site = 0;             // the costliest: an index into profile::sites
  std::vector<std::uint32_t> sites;   // all that it covers
  std::string type;                   // "": not known, or several
  std::string place;                  // "file:line function" of what would be changed; "": the whole program
  std::string headline;               // one line
  std::string reason;                 // a sentence or two
  std::string change;                 // the lines to write, or the command
  std::vector<std::string> evidence;  // the figures that led to it, a sentence each
  std::vector<environment_variable> variables;  // what a change without code sets
  std::string library;                          // the malloc to preload; empty: tarn's, or none
  double saving_ns = 0;                         // of CPU time, over the whole run
  double low_ns = 0;                            // the interval that it lies in, by experience.hpp
  double high_ns = 0;
  double raw_ns = 0;        // what the rule or the replay says, before experience
  double raw_fault_ns = 0;  // of it, page faults; only of another malloc, which saves both
  double share = 0;         // saving_ns of the program's CPU time
  double memory_bytes = 0;  // what would stay in memory that goes back now
  // Of an earlier piece of advice that would save the same cost already, its index; -1: none.
  int instead_of = -1;
};

struct advice_settings {
  double least_share = 0.01;  // of CPU time: below, leaving it is the advice
  std::size_t most = 12;      // pieces of advice besides those to leave things alone
};

// Sorted by saving; where one saves about as much as another for the same cost, what changes no code comes first. If
// nothing saves `least_share`, the first is leave_it for the whole program; otherwise the last is, for the rest. What
// measuring has disproved stands behind all that is advised.
// Never empty. Requires: `p` is as load_profile made it.
std::vector<advice> advise(const profile& p, const advice_settings& settings = {});

// The same for advice whose figures have changed since, as by a replay.
std::vector<advice> arrange_advice(const profile& p, std::vector<advice> candidates,
                                   const advice_settings& settings = {});

// User and system time of the program; its duration where that was not counted. In ns, at least 1.
double cpu_time_of(const profile& p);

bool is_remark(const advice& one);           // it saves nothing by itself
double peak_bytes_of(const profile& p);      // live when most was
const char* kind_name(advice_kind kind);     // "buffer pool"
const char* grade_name(advice_grade grade);  // "estimated"
nlohmann::json as_json(const advice& one);

}  // namespace tarn::profiler
