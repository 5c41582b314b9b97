// SPDX-License-Identifier: MIT
// plan: what `tarn run --plan` does to a program without changing its code: environment variables, a malloc, and sites
// whose blocks come from pools. A small JSON file, written by `tarn advise --plan`, which may be edited.
// docs/explanation/advice.md describes it. Not thread-safe. Errors are profile_error, and say what to do.
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

enum class plan_use : std::uint8_t {
  pool,     // the site's blocks come from a pool of slots of one size
  buffers,  // they come from a buffer pool, which has every size but small ones: those are left to malloc
};

// A return address in a form that is the same in every run.
struct plan_frame {
  std::string module;        // path of the file; without a build-id only its name is compared
  std::string build_id;      // lower-case hexadecimal; empty: the module has none
  std::uint64_t offset = 0;  // in the module's file
};

struct plan_site {
  plan_use use = plan_use::pool;
  std::uint64_t size = 0;   // pool: bytes of a slot; larger blocks are left to malloc. buffers: 0, not used
  std::uint32_t group = 0;  // sites of one group share a pool
  std::string type = {};    // for readers; `place` likewise
  std::string place = {};
  // Innermost first; as many as distinguish the site from sites that are not in the plan.
  std::vector<plan_frame> frames;
};

struct plan {
  std::string program;
  std::vector<environment_variable> variables;
  bool on_tarn = false;  // start the program on libtarn; implied by sites
  std::string library;   // start the program on this malloc instead; excludes sites
  std::vector<plan_site> sites;
  std::vector<std::string> headlines;  // of the advice that it carries out
};

// The part of `all` that needs no change of the program: the first kind that applies of (variables), (malloc),
// (pools). `number`: the index in `all` of the only advice to carry out, even a refuted one; -1: all that can be combined and
// are not refuted. If nothing applies, the plan is empty in all three.
plan plan_of(const profile& p, const std::vector<advice>& all, int number = -1);

std::string write_plan(const plan& what);                          // JSON
plan read_plan(const std::string& text, const std::string& name);  // `name` is the file's name in messages

}  // namespace tarn::profiler
