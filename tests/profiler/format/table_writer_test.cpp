// SPDX-License-Identifier: MIT
// The three ways to begin a profile's file, and what is said when that fails.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "../../folder_test.hpp"
#include "../../refusal.hpp"
#include "profiler/format/chunk.hpp"
#include "profiler/format/table_file.hpp"

namespace tarn::profiler {
namespace {

class table_writer_test : public testing_support::folder_test {
 protected:
  std::string path() const { return folder_ + "/p.tarn"; }
  std::size_t tables() const {
    std::size_t count = 0;
    read_tables(path(), [&count](table&&) { ++count; });
    return count;
  }
};

// The message of the error of this type that opening the file in this way throws.
template <class Error>
std::string opening_refusal(const std::string& path, table_writer::start how) {
  return testing_support::refusal_of<Error>([&] { table_writer(path, how); });
}

TEST_F(table_writer_test, only_the_owner_may_read_a_new_file) {
  table_writer out(path());
  EXPECT_EQ(out.bytes(), file_header_bytes);
  struct stat about;
  ASSERT_EQ(stat(path().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0600U);
}

TEST_F(table_writer_test, fresh_leaves_an_existing_file_as_it_is) {
  table_writer(path(), table_writer::start::fresh).append_json("meta", "{}");
  EXPECT_EQ(opening_refusal<file_exists>(path(), table_writer::start::fresh),
            "the profile " + path() + " exists already; name another file: -o FILE");
  EXPECT_EQ(tables(), 1U);
}

TEST_F(table_writer_test, replace_begins_anew_and_go_on_appends) {
  table_writer(path()).append_json("meta", "{}");
  table_writer(path(), table_writer::start::go_on).append_json("proof", "{}");
  EXPECT_EQ(tables(), 2U);
  table_writer(path()).append_json("meta", "{}");
  EXPECT_EQ(tables(), 1U);
}

TEST_F(table_writer_test, nothing_is_added_to_what_is_no_whole_profile) {
  EXPECT_EQ(opening_refusal<profile_error>(path(), table_writer::start::go_on),
            "the profile " + path() +
                " cannot be opened: No such file or directory; tarn profile -- PROGRAM makes one");
  EXPECT_FALSE(std::filesystem::exists(path()));
  table_writer(path()).append_json("meta", "{}");
  std::ofstream(path(), std::ios::app) << "TCHK";
  EXPECT_EQ(opening_refusal<profile_error>(path(), table_writer::start::go_on),
            "nothing can be added to the profile " + path() + ": the file ends too early after " +
                std::to_string(std::filesystem::file_size(path()) - 4) + " of " +
                std::to_string(std::filesystem::file_size(path())) +
                " bytes; record the program again: tarn profile -- PROGRAM");
  std::ofstream(path()) << "text";
  EXPECT_EQ(opening_refusal<profile_error>(path(), table_writer::start::go_on),
            path() + " is not a profile of tarn; tarn profile -- PROGRAM makes one");
}

TEST_F(table_writer_test, a_file_that_cannot_be_created_is_named_with_advice) {
  const std::string nowhere = folder_ + "/nowhere/p.tarn";
  EXPECT_EQ(
      opening_refusal<file_not_opened>(nowhere, table_writer::start::replace),
      "the profile " + nowhere +
          " cannot be created: No such file or directory; name a file in a folder that you may write to");
  EXPECT_EQ(
      opening_refusal<profile_error>("/dev/full", table_writer::start::replace),
      "the profile /dev/full cannot be written: No space left on device; make room, or name another file: -o FILE");
}

// The names of the tables in the file.
std::string names_in(const std::string& path) {
  std::string names;
  read_tables(path, [&names](table&& one) { names += one.name + " "; });
  return names;
}

TEST_F(table_writer_test, a_file_written_beside_takes_the_place_at_once_and_keeps_the_rights) {
  table_writer out(path());
  out.append_json("old", "{}");
  ASSERT_EQ(chmod(path().c_str(), 0640), 0);
  const std::unique_ptr<table_writer> fresh = out.beside();
  ASSERT_NE(fresh, nullptr);
  fresh->append_json("new", "{}");
  EXPECT_EQ(names_in(path()), "old ");
  fresh->take_place();
  EXPECT_EQ(names_in(path()), "new ");
  fresh->append_json("more", "{}");
  EXPECT_EQ(names_in(path()), "new more ");
  EXPECT_FALSE(std::filesystem::exists(path() + ".tarn-new"));
  struct stat about;
  ASSERT_EQ(stat(path().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0640U);
  EXPECT_EQ(out.beside(), nullptr) << "the path leads to another file by now";
}

TEST_F(table_writer_test, what_does_not_take_the_place_goes) {
  table_writer out(path());
  { EXPECT_NE(out.beside(), nullptr); }
  EXPECT_FALSE(std::filesystem::exists(path() + ".tarn-new"));
  table_writer(path() + ".tarn-new").append_json("of a killed one", "{}");
  EXPECT_NE(out.beside(), nullptr);
  std::ofstream(path() + ".tarn-new") << "something of the user's";
  EXPECT_EQ(out.beside(), nullptr);
  EXPECT_TRUE(std::filesystem::exists(path() + ".tarn-new"));
}

TEST_F(table_writer_test, a_link_to_the_file_stays_a_link_and_a_file_of_two_names_stays_one) {
  const std::string link = folder_ + "/link";
  ASSERT_EQ(symlink(path().c_str(), link.c_str()), 0);
  table_writer out(link);
  const std::unique_ptr<table_writer> fresh = out.beside();
  ASSERT_NE(fresh, nullptr);
  fresh->append_json("new", "{}");
  fresh->take_place();
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(names_in(path()), "new ");
  ASSERT_EQ(::link(path().c_str(), (folder_ + "/other").c_str()), 0);
  EXPECT_EQ(fresh->beside(), nullptr);
}

TEST_F(table_writer_test, chunks_are_copied_and_cut_off) {
  table_writer out(path());
  const std::uint64_t begin = out.bytes();
  out.append_json("a", "{}");
  const std::uint64_t end = out.bytes();
  out.append_json("b", "{}");
  const std::unique_ptr<table_writer> fresh = out.beside();
  ASSERT_NE(fresh, nullptr);
  fresh->append_from(out, begin, end - begin);
  fresh->append_json("c", "{}");
  fresh->take_place();
  EXPECT_EQ(names_in(path()), "a c ");
  fresh->cut(end);
  EXPECT_EQ(names_in(path()), "a ");
  fresh->append_json("d", "{}");
  EXPECT_EQ(names_in(path()), "a d ");
  table_writer other(folder_ + "/other");
  EXPECT_THROW(other.append_from(*fresh, begin, 1 << 20), profile_error) << "there are not so many bytes";
}

TEST_F(table_writer_test, a_link_is_followed_if_it_is_the_users_own) {
  const std::string link = folder_ + "/link";
  ASSERT_EQ(symlink(path().c_str(), link.c_str()), 0);
  const int file = open_for_writing(link, 0);
  ASSERT_GE(file, 0);
  close(file);
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(table_writer_test, another_users_link_is_not_followed) {
  const std::string link = folder_ + "/link";
  ASSERT_EQ(symlink(path().c_str(), link.c_str()), 0);
  if (lchown(link.c_str(), 12345, 12345) != 0) GTEST_SKIP() << "only root can make another user's link";
  errno = 0;
  EXPECT_EQ(open_for_writing(link, 0), -1);
  EXPECT_EQ(errno, ELOOP);
  EXPECT_FALSE(std::filesystem::exists(path()));
}

}  // namespace
}  // namespace tarn::profiler
