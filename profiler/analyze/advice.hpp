// SPDX-License-Identifier: MIT
// advice: which changes may make a program's memory allocation cheaper, what the places they concern cost now, and what
// `tarn prove` has measured. Nothing is predicted: what a change saves only a run of the program shows. Rules and their
// figures: docs/explanation/advice.md. Pure functions of a profile; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "profiler/analyze/advice_kinds.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

enum class advice_grade : std::uint8_t {
  counted,    // what the places cost now: the most that allocating less or cheaper there can save
  measured,   // `tarn prove` has run the program with the change in effect, and it takes less CPU time
  refuted,    // the same, and it does not
  undecided,  // the same, and it took at least worthwhile_change less, but not beyond noise
  open        // nothing is counted that the change would save: only a run can tell
};

// Who can carry it out, from the nearest.
enum class advice_reach : std::uint8_t {
  setting,   // who starts the program: an allocator, a tunable
  own_code,  // who builds the program
  package    // who builds what is only installed here: a package, an interpreter
};

struct environment_variable {
  std::string name;
  std::string value;
};

// Invariants: low_ns <= saving_ns <= high_ns, all 0 unless the program was run with the change; 0 <= saving_ns, counted_ns; `sites`
// begins with the costliest site, and is empty if the advice is for the whole program.
struct advice {
  advice_kind kind = advice_kind::leave_it;
  advice_grade grade = advice_grade::counted;
  advice_reach reach = advice_reach::setting;
  std::uint32_t site = 0;                 // the costliest site: an index into profile::sites
  std::vector<std::uint32_t> sites = {};  // all sites that the advice covers
  std::string type = {};                  // "": not known, or several
  std::string place = {};     // "file:line function" of what would be changed; "": the whole program
  std::string headline = {};  // one line
  std::string reason = {};    // a sentence or two
  std::string change = {};    // the lines to write, or the command to use
  std::vector<std::string> evidence = {};            // the figures behind the advice, one sentence each
  std::vector<environment_variable> variables = {};  // variables to set, for advice without a change of code
  std::string library = {};                          // the malloc to preload; empty: tarn's, or none
  double counted_ns = 0;                             // CPU time that the places cost now, over the whole run
  double counted_variance = 0;                       // of counted_ns, in ns squared
  double saving_ns = 0;                              // measured CPU time that the change saves
  double low_ns = 0;                                 // ends of its interval; below 0: it may cost time
  double high_ns = 0;
  double share = 0;  // of the program's CPU time: of saving_ns where it is measured, of counted_ns otherwise
  bool fails = false;       // refuted, as the program fails with it
  double memory_bytes = 0;  // measured: by how much the peak of the resident memory grows
  // Index of the earlier advice that concerns the same cost; -1: none.
  int instead_of = -1;
};

struct advice_settings {
  double least_share = 0.02;  // share of CPU time; places that cost less are left alone
  std::size_t most = 12;      // largest number of pieces of advice, without those to change nothing
  std::vector<std::string> mallocs = {};  // names of the other allocators that are installed
};

// What was measured to save comes first, by saving. Then what is counted or undecided, by what it costs now, or took less, and by
// who can change it: a setting before the program's own code; code of packages comes after everything that the reader can do, and what was measured
// to save nothing after that. The last piece is leave_it, for everything else; where nothing may save, it is the first.
// Never empty. Requires: `p` is from load_profile.
std::vector<advice> advise(const profile& p, const advice_settings& settings = {});

// The list that advise() makes of what the rules and the proof have found, without leave_it.
std::vector<advice> arrange_advice(const profile& p, std::vector<advice> candidates,
                                   const advice_settings& settings = {});

// The kernel counts processor time of running processes in ticks: none counted means less than this.
inline constexpr double clock_tick_ns = 1e7;
// User and system time of the program in ns, at least 1, to take shares of. Not counted at all: its duration. Less than
// a tick: a tick, or the duration if that is less, or the cost of memory if that is more.
double cpu_time_of(const profile& p);

bool is_remark(const advice& one);        // nothing is counted that it would save
double peak_bytes_of(const profile& p);   // live bytes at the program's peak
const char* kind_name(advice_kind kind);  // "buffer pool"
const char* grade_name(
    advice_grade grade);  // "counted", "measured", "refuted", "undecided", "only a run can tell"
const char* reach_name(advice_reach reach);  // "a setting", "your code", "a package's code"
// What is known of it in one line: "costs 53 ± 8 ms now, 12 % of CPU time; counted". "" for leave_it.
std::string say_figures(const advice& one);
nlohmann::json as_json(const advice& one);

// Adds to the advice what `tarn prove` has measured: sets the grade and the figures of each candidate that was measured, and adds actions that were found to save
// although no rule had advised them. A candidate whose measurement is inconclusive stays as it was counted, and gets
// the figures as evidence.
void apply_proof(const profile& p, std::vector<advice>& candidates);

// "12 % less (9.1 to 15)", "no difference beyond noise (2.0 % less to 1.1 % more)"; without an interval "12 % less"
std::string say_figure(const proven_figure& figure);

}  // namespace tarn::profiler
