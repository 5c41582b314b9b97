// SPDX-License-Identifier: MIT
// process_code: limits on modules and source lines, and what counts once.
#include "profiler/collect/process_code.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

TEST(process_code, a_module_counts_once_and_the_program_itself_has_its_path) {
  process_identity who;
  who.program = "/proc/self/exe";
  profile p;
  process_code code(who, p);
  for (int times = 0; times < 2; ++times) code.loaded({"", "", 0x1000, 0x1000, 0x2000});
  const std::size_t count = p.modules.size();
  EXPECT_EQ(count, 1U);
  code.loaded({"/proc/self/exe", "", 0x1000, 0x1000, 0x2000});
  EXPECT_EQ(p.modules.size(), count) << "by its path";
  code.loaded({"", "", 0x9000, 0x9000, 0xa000});
  EXPECT_EQ(p.modules.size(), 2 * count) << "at another address";
}

TEST(process_code, modules_and_lines_are_limited) {
  const process_identity who;
  profile p;
  process_code code(who, p);
  p.modules.resize(most_modules);
  code.loaded({"/lib/one.so", "", 0x1000, 0x1000, 0x2000});
  EXPECT_EQ(p.modules.size(), most_modules);
  source_frame line;
  for (std::uint64_t address = 0; address <= most_lines; ++address) code.add_script_line(address, line);
  EXPECT_EQ(p.symbols.size(), most_lines);
  EXPECT_EQ(p.symbols.count(most_lines), 0U);
}

TEST(process_code, a_forked_process_has_what_its_parent_has_loaded) {
  const process_identity who;
  profile p;
  profile q;
  process_code parent(who, p);
  process_code child(who, q);
  mapping_event event{.start = 0x1000, .bytes = 0x1000, .executable = true, .path = "/proc/self/exe"};
  parent.map(event);
  child.inherit(parent);
  child.map(event);
  EXPECT_EQ(q.modules.size(), 1U);
  EXPECT_EQ(child.regions().at(0x1800), "/proc/self/exe");
}

}  // namespace
}  // namespace tarn::profiler
