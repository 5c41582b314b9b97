// SPDX-License-Identifier: MIT
// Files of names that compilers write at run time: what they say, and whatever else they may contain.
#include "profiler/analyze/perf_map.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <string>

#include "../../folder_test.hpp"
#include "profiler/model/script_address.hpp"

namespace tarn::profiler {
namespace {

class perf_maps : public testing_support::folder_test {
 protected:
  perf_maps() {
    p_.modules = {{"/bin/app", "", 0x1000, 0x2000, 0}};
    p_.stacks = {{}, {0, 0x1500}, {1, 0x70011}, {2, 0x70025}, {3, 0x90001}};
  }
  std::string path() const { return folder_ + "/perf-7.map"; }
  perf_map open(std::int64_t not_before = 0, uid_t user = geteuid()) const {
    return perf_map::open(folder_, 7, user, not_before);
  }
  // The names of the path's addresses, outermost first, if the file has this text.
  std::vector<std::string> names(const std::string& text) {
    std::ofstream(path()) << text;
    profile p = p_;
    range_map<char> generated;
    generated.add(0x90000, 0x91000, 0);
    open().name_code(p, generated);
    changed_ = p.stacks_changed;
    std::vector<std::string> all;
    for (std::size_t node = 1; node < p.stacks.size(); ++node) {
      const auto known = p.symbols.find(p.stacks[node].address);
      all.push_back(known == p.symbols.end() ? "" : known->second.front().function);
    }
    return all;
  }

  profile p_;
  bool changed_ = false;
};

using texts = std::vector<std::string>;

TEST_F(perf_maps, name_addresses_that_are_in_no_file) {
  EXPECT_EQ(names("1000 1000 wrong\n70000 20 first\n70020 10 JS:*load /srv/a.js:3:14\n"),
            (texts{"", "first", "load", generated_code}));
  EXPECT_TRUE(changed_);
  EXPECT_EQ(names("0x70000 0x0000000000000020 void A.b(int)\n"),
            (texts{"", "void A.b(int)", "", generated_code}));
}

TEST_F(perf_maps, a_later_entry_for_an_address_counts) {
  EXPECT_EQ(names("70000 30 old\n70020 10 new\n"), (texts{"", "old", "new", generated_code}));
  EXPECT_EQ(names("70020 10 old\n70000 30 new\n"), (texts{"", "new", "new", generated_code}));
}

TEST_F(perf_maps, a_return_address_is_behind_its_function_s_last_instruction) {
  EXPECT_EQ(names("70000 11 ends\n70011 10 next\n")[1], "ends");
}

TEST_F(perf_maps, lines_of_no_sense_are_passed_over) {
  const texts known = {"", "good", "", generated_code};
  for (const char* junk : {"", "\n\n", "x\n", "70000\n", "70000 \n", "70000 20\n", "70000 20 \n",
                           "70000 0 no\n", "fffffffffffffffff 1 x\n", "-1 5 x\n", "70000 20 not ended"}) {
    EXPECT_EQ(names("70000 20 good\n" + std::string(junk)), known) << junk;
  }
  EXPECT_EQ(names("70000 20 a\n" + std::string(5000, 'x') + "70000 20 b\n70020 9 c\n"),
            (texts{"", "a", "c", generated_code}));
  EXPECT_EQ(names("0 ffffffffffffffff all\n")[3], "all");
}

TEST_F(perf_maps, a_long_line_is_cut_and_the_next_ones_are_read) {
  const texts found = names("70000 20 " + std::string(3 << 20, 'n') + "\n70020 10 next\n");
  EXPECT_EQ(found[1].size(), 1024 - 9U);
  EXPECT_EQ(found[2], "next");
}

TEST_F(perf_maps, hostile_bytes_do_not_reach_the_terminal) {
  EXPECT_EQ(names("70000 20 a\x1b[31m\xff\n")[1], "a\\x1b[31m\\xff");
}

TEST_F(perf_maps, many_entries_for_the_same_addresses_end) {
  std::string text;
  for (int line = 0; line < 20000; ++line) text += "0 ffffffffffff everything\n";
  p_.stacks.resize(1);
  for (std::uint64_t address = 0; address < 20000; ++address)
    p_.stacks.push_back({0, 0x100000 + 16 * address});
  EXPECT_EQ(names(text)[0], "everything");
}

TEST_F(perf_maps, one_of_another_user_or_an_earlier_process_or_no_plain_file_is_not_read) {
  std::ofstream(path()) << "70000 20 good\n";
  EXPECT_TRUE(open(time(nullptr) - 100).is_open());
  EXPECT_FALSE(open(0, geteuid() + 1).is_open());
  EXPECT_FALSE(open(time(nullptr) + 100).is_open());
  ASSERT_EQ(rename(path().c_str(), (folder_ + "/other").c_str()), 0);
  ASSERT_EQ(symlink((folder_ + "/other").c_str(), path().c_str()), 0);
  EXPECT_FALSE(open().is_open()) << "a link";
  unlink(path().c_str());
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_FALSE(open().is_open()) << "a pipe";
  unlink(path().c_str());
  EXPECT_FALSE(open().is_open());
}

TEST_F(perf_maps, generated_code_without_a_map_is_marked) {
  profile p = p_;
  range_map<char> generated;
  generated.add(0x70000, 0x70020, 0);
  perf_map().name_code(p, generated);
  EXPECT_FALSE(p.stacks_changed);
  EXPECT_EQ(p.symbols.size(), 1U);
  EXPECT_EQ(p.symbols[0x70011].front().function, generated_code);
}

TEST(generated_function, has_file_and_line_where_the_compiler_tells_them) {
  const auto check = [](const char* name, const char* function, const char* file, std::uint32_t line) {
    const source_frame frame = generated_function(name);
    EXPECT_EQ(frame.function, function) << name;
    EXPECT_EQ(frame.file, file) << name;
    EXPECT_EQ(frame.line, line) << name;
  };
  check("JS:*load /srv/app.js:3:14", "load", "/srv/app.js", 3);
  check("LazyCompile:~get size file:///srv/my app.mjs:30:1", "get size", "/srv/my app.mjs", 30);
  check("JS:^readSync node:fs:12:5", "readSync", "node:fs", 12);
  check("JS:+/srv/app.js:5:9", "(anonymous)", "/srv/app.js", 5);
  check("JS:~ /srv/app.js:5:9", "(anonymous)", "/srv/app.js", 5);
  check("Script:~ /srv/app.js:1:1", "(script)", "/srv/app.js", 1);
  check("JS:*load", "JS:*load", "", 0);
  check("JS:*load /srv/app.js:3", "JS:*load /srv/app.js:3", "", 0);
  check("JS:", "JS:", "", 0);
  check("Builtin:ArrayPush", "Builtin:ArrayPush", "", 0);
  check("void Rows.add(int)", "void Rows.add(int)", "", 0);
}

}  // namespace
}  // namespace tarn::profiler
