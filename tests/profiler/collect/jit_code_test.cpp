// SPDX-License-Identifier: MIT
// Code that this process makes at run time, and the file with its names.
#include "profiler/collect/jit_code.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "profiler/proc/proc_status.hpp"
#include "tests/profiler/analyze/small_program.hpp"

namespace tarn::profiler {
namespace {

class jit_codes : public testing::Test {
 protected:
  jit_codes() {
    code_ = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    program_.add({"grow", "run", "main"}, 1000, 100);
    run_ = program_.p.stacks[program_.p.sites[0].stack].parent;
    program_.p.symbols.erase(program_.p.stacks[run_].address);
    program_.p.stacks[run_].address = reinterpret_cast<std::uint64_t>(code_) + 0x10;
  }
  ~jit_codes() override {
    munmap(code_, 4096);
    unlink(map_.c_str());
  }
  void look_and_name() {
    jit_code jit;
    const auto self = read_process(static_cast<std::uint32_t>(getpid()));
    ASSERT_TRUE(self);
    jit.look_at(self->id, self->start_ticks);
    jit.name_in(program_.p);
    jit_code::note_missing(program_.p);
  }
  std::string name() { return frames_of(program_.p, program_.p.sites[0].stack)[1].function; }

  void* code_;
  small_program program_;
  std::uint32_t run_ = 0;
  std::string map_ = "/tmp/perf-" + std::to_string(getpid()) + ".map";
};

TEST_F(jit_codes, have_the_names_in_the_file_of_the_process) {
  if (access(map_.c_str(), F_OK) == 0) GTEST_SKIP() << map_ << " is there";
  std::ofstream(map_) << std::hex << reinterpret_cast<std::uint64_t>(code_)
                      << " 100 JS:*run /srv/app.js:7:1\n";
  look_and_name();
  EXPECT_EQ(name(), "run");
  EXPECT_FALSE(program_.p.meta.contains("refused"));
}

TEST_F(jit_codes, without_names_say_how_to_have_them) {
  look_and_name();
  EXPECT_EQ(name(), generated_code);
  ASSERT_EQ(program_.p.meta["refused"].size(), 1U);
  const std::string text = program_.p.meta["refused"][0];
  EXPECT_NE(text.find("from which 100 % of the cost comes: node --perf-basic-prof"), std::string::npos)
      << text;
}

TEST_F(jit_codes, that_cost_little_are_not_worth_a_sentence) {
  program_.add({"load", "main"}, 1000, 100000);
  look_and_name();
  EXPECT_FALSE(program_.p.meta.contains("refused"));
}

TEST(jit_code, that_v8_interprets_has_no_names_either) {
  small_program program;
  program.add({"grow", "Builtins_InterpreterEntryTrampoline", "main"}, 1000, 100);
  jit_code::note_missing(program.p);
  EXPECT_EQ(program.p.meta["refused"].size(), 1U);
}

TEST(jit_code, interpreters_that_are_not_read_are_named) {
  small_program program;
  program.p.modules = {{"/usr/bin/ruby3.1", "", 1, 2, 0},
                       {"/usr/lib/libruby-3.1.so.3.1", "", 2, 3, 0},
                       {"/usr/lib/libxperl.so", "", 3, 4, 0}};
  jit_code::note_missing(program.p);
  ASSERT_EQ(program.p.meta["refused"].size(), 1U);
  EXPECT_TRUE(
      program.p.meta["refused"][0].get<std::string>().starts_with("functions of Ruby, which are not read"));
}

TEST(jit_code, is_executable_memory_of_no_file) {
  const auto is = [](const char* name, bool executable = true) {
    mapping one{.name = name, .executable = executable};
    return is_generated(one);
  };
  EXPECT_TRUE(is(""));
  EXPECT_TRUE(is("[anon:v8]"));
  EXPECT_TRUE(is("/memfd:doublemapper (deleted)"));
  EXPECT_FALSE(is("", false));
  EXPECT_FALSE(is("/usr/bin/node"));
  EXPECT_FALSE(is("[vdso]"));
}

}  // namespace
}  // namespace tarn::profiler
