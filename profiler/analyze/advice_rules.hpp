// SPDX-License-Identifier: MIT
// advice_rules: what the rules of advice_kinds.hpp share: facts about a profile, and the making of a piece of advice.
// Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "profiler/analyze/advice.hpp"
#include "profiler/analyze/site_group.hpp"

namespace tarn::profiler {

// Blocks so small that several share a cache line or a page, alive at the program's peak.
struct small_blocks {
  double bytes = 0;
  std::size_t largest = 0;  // index of the group with the most of them; meaningless if there are none
};

struct refaults;

// Facts about a profile that several rules need.
struct advice_facts {
  const profile& p;
  std::vector<site_group> groups = {};
  double cpu_ns = 1;
  double page_bytes = 4096;
  double huge_page_bytes = 2 << 20;
  double duration_ns = 1;
  double peak_bytes = 0;  // live when most was
  double own_ns = 0;      // part of cpu_ns outside of malloc, free and page faults
  small_blocks small = {};
  bool glibc = false;    // the program's malloc
  int glibc_minor = 0;   // 36 for glibc 2.36; 0: not known
  std::string thp = {};  // "always", "madvise", "never"; "": not known

  // Page faults together cannot have taken more than the program's system time: this factor reduces the prices,
  // which were measured at another time, accordingly.
  double kernel_part = 1;

  // Whether more small blocks live at once than fit into the caches, in a program that does more than allocate: then
  // their places decide how long the program itself waits for memory.
  bool placement_may_matter() const noexcept;
  double fault_ns() const noexcept { return kernel_part * p.prices.fault; }
  double first_touch_ns() const noexcept { return kernel_part * (p.prices.fault + p.prices.unmap_page); }
  double cost_variance(const refaults& again) const noexcept;  // of what again.pages cost
};
advice_facts facts_of(const profile& p);

// Pages that malloc has faulted in beyond the most that the program ever held at once, whatever place held them:
// memory freed by one place could be used by another.
struct refaults {
  double pages = 0;  // 0 where it may be chance: the bytes that were held at once may come from samples
  double all_pages = 0;
  double variance = 0;  // of pages
  double peak_bytes = 0;
  std::vector<std::uint32_t> sites;  // sites with such pages, the costliest first
};
refaults refaults_of(const advice_facts& facts);

small_blocks small_blocks_of(const std::vector<site_group>& groups, const profile& p);

// Sets what is counted: `ns`, and its variance. Invariant afterwards: 0 <= counted_ns <= the program's CPU time.
void set_counted(advice& one, const advice_facts& facts, double ns, double variance);
// The parts of `charged` that the kind of `one` concerns, as far as calls and page faults are meant.
void set_counted(advice& one, const advice_facts& facts, const cost& charged, double call_part = 1,
                 double fault_part = 1);
advice_reach reach_of(const profile& p, const source_frame& place);
// Whether lines of C++ can be written there: it is no script, and not in Rust, Go or Java.
bool takes_cpp(const source_frame& place);
// Advice about one place in the code, and who can change that code.
advice for_group(advice_kind kind, const advice_facts& facts, const site_group& group);
// "12 % of the program's CPU time"
std::string say_of_cpu(const advice_facts& facts, double ns);

}  // namespace tarn::profiler
