// SPDX-License-Identifier: MIT
// plan: what `tarn apply` does to a program that it does not change: variables to start it with, a malloc to start it on,
// and sites whose blocks come from pools. A small JSON file, written by `tarn advise --plan`, that people may edit.
// docs/advice.md describes it.
// Not thread-safe. Errors are profile_error, and say what to do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/analyze/advice.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

inline constexpr int plan_version = 1;
inline constexpr std::size_t most_plan_sites = 1024;
inline constexpr std::size_t most_plan_frames = 8;

enum class plan_use : std::uint8_t { pool, buffers };

// A return address that holds from run to run.
struct plan_frame {
  std::string module;        // its path; the name alone is compared where there is no build-id
  std::string build_id;      // lower-case hexadecimal; empty: the module has none
  std::uint64_t offset = 0;  // in the module's file
};

struct plan_site {
  plan_use use = plan_use::pool;
  std::uint64_t size = 0;   // pool: of a slot; larger blocks are left to malloc
  std::uint32_t group = 0;  // sites of one group share a pool
  std::string type;         // for people, as the next
  std::string place;
  std::vector<plan_frame> frames;  // innermost first; as many as tell it from the sites that are not meant
};

struct plan {
  std::string program;
  std::vector<environment_variable> variables;
  bool on_tarn = false;  // start it on libtarn; implied by sites
  std::string library;   // start it on this malloc instead; excludes sites
  std::vector<plan_site> sites;
  std::vector<std::string> headlines;  // of the advice that it carries out
  double saving_ns = 0;                // what is predicted, over the recorded run
  double low_ns = 0;
  double high_ns = 0;
  double cpu_ns = 0;  // of the recorded run
};

// What of `all` can be done without changing the program: the first kind that applies of (variables), (malloc), (pools).
// `number` chooses one piece of advice alone, by its index; -1 takes all that go together. A plan without effect (empty
// in all three) when there is none.
plan plan_of(const profile& p, const std::vector<advice>& all, int number = -1);

std::string write_plan(const plan& what);                          // JSON
plan read_plan(const std::string& text, const std::string& name);  // `name` is how messages call the file

}  // namespace tarn::profiler
