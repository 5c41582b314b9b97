// SPDX-License-Identifier: MIT
// Writes the report of a synthetic profile, for the browser tests: report_sample KIND FILE
//   usual    a server of 200 sites, five minutes
//   large    20,000 sites under deep call paths, as a compiler has, ten minutes
//   huge     250,000 sites under deep call paths
//   deep     a function that calls itself 5,000 times
//   hostile  every name contains markup and script
//   faults   a profile in mode faults
//   changed  `usual`, compared with an earlier recording
//   parts    `usual`, with what each call path did in each part of the run
//   empty    nothing was recorded
//   damaged  mode sample, without symbols, damaged and with lost events
//   file     not a report but the profile of `usual`, as tarn profile would write it
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "cli/show/profile_verdict.hpp"
#include "profiler/analyze/advice.hpp"
#include "profiler/report/difference_data.hpp"
#include "profiler/report/report_file.hpp"
#include "tests/profiler/synthetic_profile.hpp"

namespace {

using namespace tarn::profiler;

std::uint64_t next_random(std::uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return state >> 33;
}

// Gives each site a call path of its own, of 20 to 59 frames out of 4,000 functions with long names.
void deepen(profile& p) {
  std::uint64_t state = 1;
  const std::uint64_t base = p.modules.front().start + 0x100000;
  const auto address_of = [&](std::uint64_t number) { return base + 16 * number + 1; };
  for (std::uint64_t number = 0; number < 4000; ++number) {
    const std::string name = "cc::pass_" + std::to_string(number % 97) + "::visitor<cc::node_" +
                             std::to_string(number) +
                             ", std::allocator<cc::node> >::walk(cc::tree const&, std::vector<cc::node*>&)";
    p.symbols[address_of(number)] = {{name, "/src/cc/pass_" + std::to_string(number % 97) + ".cpp",
                                      static_cast<std::uint32_t>(number), false}};
  }
  for (site& one : p.sites) {
    std::uint32_t node = 0;
    const std::uint64_t depth = 20 + next_random(state) % 40;
    for (std::uint64_t level = 0; level < depth; ++level) {
      const std::uint64_t choices = level < 8 ? 1 + level : 4000 / (1 + level % 7);
      p.stacks.push_back({node, address_of((level * 131 + next_random(state) % choices) % 4000)});
      node = static_cast<std::uint32_t>(p.stacks.size() - 1);
    }
    one.stack = node;
  }
}

void poison(profile& p) {
  const std::string evil =
      "</script><script>window.pwned=1</script><img src=x onerror='window.pwned=1'>\"'><svg/onload=window.pwned=1>";
  for (auto& [address, frames] : p.symbols) {
    for (source_frame& frame : frames) {
      frame.function = evil + frame.function;
      frame.file = evil + frame.file;
    }
  }
  for (module_info& one : p.modules) one.path += evil;
  for (thread_info& one : p.threads) one.name += evil;
  for (site& one : p.sites) one.type = evil + one.type;
  for (const char* name : {"program", "allocator", "kernel", "thp", "privilege"}) p.meta[name] = evil;
  p.meta["arguments"] = {evil, evil};
  p.meta["refused"] = {evil};
  p.damage = evil;
}

bool make(const std::string& kind, profile& p) {
  if (kind == "usual" || kind == "changed" || kind == "parts") {
    p = synthetic_profile();
  } else if (kind == "large" || kind == "huge") {
    p = synthetic_profile({.sites = kind == "huge" ? 250'000U : 20'000U, .seconds = 600});
    deepen(p);
  } else if (kind == "deep") {
    p = synthetic_profile({.sites = 20});
    std::uint32_t node = p.sites[0].stack;
    for (int level = 0; level < 5000; ++level) {
      p.stacks.push_back({node, p.stacks[p.sites[1].stack].address});
      node = static_cast<std::uint32_t>(p.stacks.size() - 1);
    }
    p.sites[0].stack = node;
  } else if (kind == "hostile") {
    p = synthetic_profile();
    poison(p);
  } else if (kind == "faults") {
    p = synthetic_profile({.mode = profile_mode::faults});
    for (site& one : p.sites) {
      one.lifetimes.clear();
      one.threads.clear();
    }
  } else if (kind == "empty") {
    p.stacks.resize(1);
  } else if (kind == "damaged") {
    p = synthetic_profile({.mode = profile_mode::sample, .symbols = false});
    p.damage = "chunk 12 ends in the middle";
    p.lost_events = 12345;
  } else {
    return false;
  }
  return true;
}

}  // namespace

int main(int count, char** words) {
  if (count == 3 && std::strcmp(words[1], "file") == 0) {
    write_synthetic_profile(words[2]);
    return 0;
  }
  profile p;
  if (count != 3 || !make(words[1], p)) {
    std::fprintf(stderr,
                 "usage: %s usual|large|huge|deep|hostile|faults|changed|parts|empty|damaged|file FILE\n",
                 words[0]);
    return 2;
  }
  std::ofstream file(words[2], std::ios::binary);
  report_settings page;
  page.summary = [](const profile& one, const std::vector<advice>& actions) {
    const tarn::cli::summary said = tarn::cli::summarise(one, actions);
    return report_summary{said.problem, said.next};
  };
  if (std::strcmp(words[1], "changed") == 0)
    page.changes = difference_data(difference::between(synthetic_profile({.sites = 230, .seed = 2}), p));
  if (std::strcmp(words[1], "parts") == 0) {
    page.slices.ends_ns = {100'000'000'000, 200'000'000'000, 300'000'000'000};
    for (std::uint32_t site = 0; site < 20; ++site)
      page.slices.cells.push_back({p.sites[site].stack, site % 3, site + 1.0, 1000.0 * site, 500.0 * site});
  }
  file << render_report(p, advise(p), page).html;
  return file.good() ? 0 : 1;
}
