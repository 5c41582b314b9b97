// SPDX-License-Identifier: MIT
// Search for libraries by name and version, and refusal of unusable ones, in a temporary folder.
#include "cli/launch/library_search.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../../folder_test.hpp"
#include "cli/launch/elf_file.hpp"
#include "cli/show/cli_error.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {
namespace {

class library_search : public testing_support::folder_test {
 protected:
  library_search() {
    // Tests copy the dynamic loader, as a shared library that every machine has.
    loader_ = summarize_file("/proc/self/exe").interpreter;
  }

  std::string add_library(const std::string& name) {
    fs::copy_file(loader_, folder_ + "/" + name);
    return folder_ + "/" + name;
  }

  std::string loader_;
};

TEST_F(library_search, takes_the_newest_and_only_libraries) {
  add_library("libthing.so.2.9");
  const std::string newest = add_library("libthing.so.2.10");
  add_library("libthing.so.bak");
  add_library("libthing_debug.so.9");
  std::ofstream(folder_ + "/libthing.so.99") << "not a library";
  EXPECT_EQ(find_newest_library("thing", {folder_}), fs::canonical(newest).string());
  EXPECT_FALSE(find_newest_library("other", {folder_}).has_value());
  EXPECT_FALSE(find_newest_library("thing", {"/nonexistent"}).has_value());
}

TEST_F(library_search, a_trusted_library_is_one_that_no_other_user_can_write) {
  const std::string library = add_library("libtrusted.so.1");
  const char* before = getenv("LD_LIBRARY_PATH");
  setenv("LD_LIBRARY_PATH", folder_.c_str(), 1);
  const auto trusted_with = [&](fs::perms permissions) {
    fs::permissions(library, permissions);
    return find_trusted_library("libtrusted.so.1");
  };
  const fs::perms own = fs::perms::owner_all | fs::perms::others_read;
  EXPECT_EQ(trusted_with(own), fs::canonical(library).string());
  EXPECT_FALSE(trusted_with(own | fs::perms::others_write));
  EXPECT_FALSE(trusted_with(own | fs::perms::group_write));
  if (geteuid() == 0) {
    EXPECT_EQ(chown(library.c_str(), 65534, 65534), 0);
    EXPECT_FALSE(trusted_with(own));
  }
  EXPECT_FALSE(find_trusted_library("libother.so.1"));
  before != nullptr ? setenv("LD_LIBRARY_PATH", before, 1) : unsetenv("LD_LIBRARY_PATH");
}

TEST_F(library_search, unusable_libraries_are_explained) {
  std::ofstream(folder_ + "/text.so") << "text";
  EXPECT_THROW(require_usable_library(folder_ + "/text.so", "x"), cli_error);
  EXPECT_THROW(require_usable_library(folder_ + "/absent.so", "x"), cli_error);
  const std::string blank = add_library("with blank.so");
  EXPECT_THROW(require_usable_library(blank, "x"), cli_error);
  EXPECT_NO_THROW(require_usable_library(add_library("good.so"), "x"));
  EXPECT_THROW(resolve_named_library("libno-such-library-at-all.so"), cli_error);
}

TEST_F(library_search, the_loaders_folders_contain_libc) {
  const auto directories = loader_directories();
  EXPECT_NE(std::find(directories.begin(), directories.end(), "/usr/lib"), directories.end());
  EXPECT_TRUE(find_newest_library("c", directories).has_value());
}

}  // namespace
}  // namespace tarn::cli
