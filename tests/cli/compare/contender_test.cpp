// SPDX-License-Identifier: MIT
// The allocators that are compared, and the environment that each is started in.
#include "cli/compare/contender.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "../../refusal.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {
namespace {

using words = std::vector<std::string>;

std::string contender_refusal(const words& with, const words& only, const words& others = {}) {
  return testing_support::refusal_of<cli_error>([&] { choose_contenders(with, only, others); });
}

std::string libm() {
  Dl_info about;
  EXPECT_NE(dladdr(dlsym(RTLD_DEFAULT, "cos"), &about), 0);
  return about.dli_fname;
}

TEST(contender, a_library_has_a_name_of_its_own) {
  const std::string example = " | For example: --malloc snmalloc=/opt/lib/libsnmallocshim.so";
  for (const char* word : {"snmalloc", "=lib.so", "name=", ""})
    EXPECT_EQ(contender_refusal({word}, {"system"}),
              "2 --malloc " + std::string(word) + ": not of the form NAME=LIBRARY" + example);
  EXPECT_EQ(
      contender_refusal({"system=/lib/x.so"}, {}),
      "2 --malloc system=/lib/x.so: 'system' cannot be a library's name | 'system' stands for the system's own malloc; "
      "choose another name, without commas.");
  EXPECT_EQ(
      contender_refusal({"pools=/lib/x.so"}, {}, {"pools"}),
      "2 --malloc pools=/lib/x.so: 'pools' cannot be a library's name | 'pools' is a way without an allocator; choose "
      "another name.");
}

TEST(contender, the_chosen_ones_keep_the_usual_order) {
  const std::string library = libm();
  const auto chosen = choose_contenders({"mine=" + library, "other=" + library}, {"other", "mine", "system"});
  ASSERT_EQ(chosen.size(), 3U);
  EXPECT_EQ(chosen[0].name, "system");
  EXPECT_EQ(chosen[0].library, "");
  EXPECT_EQ(chosen[1].name, "mine");
  EXPECT_EQ(chosen[2].name, "other");
  EXPECT_FALSE(chosen[2].library.empty());
  EXPECT_TRUE(choose_contenders({}, {"pools"}, {"pools"}).empty()) << "what others do is theirs";
}

TEST(contender, an_unknown_name_is_answered_with_the_nearest) {
  EXPECT_EQ(contender_refusal({}, {"sistem"}),
            "2 --only sistem: no allocator has this name | Did you mean 'system'?");
  EXPECT_EQ(contender_refusal({}, {"poolz"}, {"pools"}),
            "2 --only poolz: no way has this name | Did you mean 'pools'?");
  EXPECT_TRUE(
      contender_refusal({}, {"quite-another"})
          .starts_with("2 --only quite-another: no allocator has this name | Available: system, tarn"));
}

TEST(contender, a_preloaded_malloc_is_removed_from_all_runs) {
  Dl_info libc;
  ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, "getppid"), &libc), 0);
  const std::string preloads = std::string(libc.dli_fname) + ":" + libm();
  setenv("LD_PRELOAD", preloads.c_str(), 1);
  setenv("TARN_LIBRARY", "/opt/libtarn.so", 1);
  const words allocators = preloaded_allocators();
  std::vector<std::string> notes;
  note_preloads(notes);
  const environment plain = environment_for({"system", ""});
  const environment mine = environment_for({"mine", "/opt/libmine.so", {{"MINE", "1"}}});
  const environment kept = environment_for({"kept", "", {}, true});
  unsetenv("LD_PRELOAD");
  unsetenv("TARN_LIBRARY");
  EXPECT_EQ(allocators, words{libc.dli_fname});
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0],
            std::string(libc.dli_fname) + " in LD_PRELOAD is a malloc, too; it is removed from all runs");
  EXPECT_EQ(plain.preloads(), words{libm()});
  EXPECT_EQ(plain.get("TARN_LIBRARY"), std::nullopt);
  EXPECT_EQ(mine.preloads(), (words{"/opt/libmine.so", libm()}));
  EXPECT_EQ(mine.get("MINE"), "1");
  EXPECT_EQ(kept.preloads(), (words{libc.dli_fname, libm()}));
}

}  // namespace
}  // namespace tarn::cli
