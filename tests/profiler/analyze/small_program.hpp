// SPDX-License-Identifier: MIT
// small_program: the profile of a made-up program, for tests of advice and of what it is made from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// A program that takes one second of CPU time under glibc; tests add its sites.
class small_program {
 public:
  small_program() {
    p.meta = {{"program", "/bin/p"},
              {"duration_ns", 1e9},
              {"allocator", "glibc 2.36"},
              {"thp", "never"},
              {"page_bytes", 4096}};
    p.mode = profile_mode::full;
    p.prices = {1000, 0, 0, 100, 200, 10};
    p.stacks.emplace_back();
    p.counters.push_back({.time_ns = 1000000000, .user_ns = 5e8, .system_ns = 5e8});
  }

  // Adds a site with this call path; `functions`: innermost first.
  site& add(const std::vector<std::string>& functions, std::uint64_t size, double allocations) {
    std::uint32_t node = 0;
    for (auto each = functions.rbegin(); each != functions.rend(); ++each) {
      const std::uint64_t address = 0x1000 + 16 * p.stacks.size();
      p.stacks.push_back({node, address});
      node = static_cast<std::uint32_t>(p.stacks.size() - 1);
      p.symbols[address] = {{*each, "/src/p.cpp", static_cast<std::uint32_t>(p.stacks.size()), false}};
    }
    site one{.stack = node, .sizes = {{size, allocations, true}}};
    site_figures& f = one.figures;
    f.samples = f.allocations = f.frees = allocations;
    f.bytes = f.freed_bytes = allocations * static_cast<double>(size);
    f.peak_bytes = f.bytes_at_peak = 10 * static_cast<double>(size);
    f.lifetime_ns = allocations * 1e4;
    f.malloc_ns = allocations * 10;
    if (size >= 65536) {
      f.large = allocations;
      f.large_bytes = f.bytes;
    }
    p.sites.push_back(one);
    return p.sites.back();
  }

  // Removes the name of the innermost frame, which is then in `file`.
  void strip(const site& one, const char* file) {
    const std::uint64_t address = p.stacks[one.stack].address;
    p.symbols.erase(address);
    p.modules.push_back({file, "", address - 1, address + 1, 0});
  }

  profile p;
};

}  // namespace tarn::profiler
