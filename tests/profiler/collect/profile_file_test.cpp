// SPDX-License-Identifier: MIT
// A file that is written again and again: how long it gets, and what is left of it when a write fails.
#include "profiler/collect/profile_file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>

#include "../../folder_test.hpp"
#include "tests/profiler/synthetic_profile.hpp"

namespace tarn::profiler {
namespace {

class profile_file_test : public testing_support::folder_test {
 protected:
  void SetUp() override { p_ = synthetic_profile({.sites = 500, .seconds = 100, .symbols = false}); }

  std::string path() const { return folder_ + "/p.prof"; }
  std::uint64_t size() const { return std::filesystem::file_size(path()); }
  std::size_t rows_of(std::string_view name) const {
    std::size_t rows = 0;
    read_tables(path(), [&](table&& one) { rows += one.name == name ? one.rows : 0; });
    return rows;
  }
  std::unique_ptr<profile_file> file(std::optional<table> command = {}) const {
    return std::make_unique<profile_file>(path(), table_writer::start::replace, std::move(command));
  }
  // One more moment of the run.
  void go_on() {
    p_.counters.push_back(p_.counters.back());
    p_.counters.back().time_ns += 1'000'000'000;
    p_.meta["duration_ns"] = p_.counters.back().time_ns;
  }

  profile p_;
};

// Files of this process cannot become longer than `bytes`.
class short_files {
 public:
  explicit short_files(std::uint64_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~short_files() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }
  short_files(const short_files&) = delete;
  short_files& operator=(const short_files&) = delete;

 private:
  rlimit before_ = {};
  void (*handler_)(int);
};

TEST_F(profile_file_test, is_never_longer_than_twice_what_counts) {
  const auto out = file();
  out->checkpoint(p_);
  const std::uint64_t once = size();
  for (int checkpoint = 0; checkpoint < 100; ++checkpoint) {
    go_on();
    out->checkpoint(p_);
    EXPECT_EQ(out->bytes(), size());
    EXPECT_LE(size(), 3 * once + profile_file::least_worn_bytes);
    const profile back = load_profile(path());
    EXPECT_EQ(back.damage, "");
    EXPECT_EQ(back.counters.size(), p_.counters.size());
    EXPECT_EQ(back.meta["duration_ns"], p_.meta["duration_ns"]);
    EXPECT_EQ(back.sites.size(), p_.sites.size());
  }
  out->finish(p_);
  EXPECT_LE(size(), once + once / 10);
  EXPECT_EQ(load_profile(path()).counters.size(), p_.counters.size());
}

TEST_F(profile_file_test, command_and_events_are_there_once_whatever_happens) {
  table command;
  command.name = "command";
  command.replaces = true;
  const auto out = file(command);
  synthetic_events events;
  out->checkpoint(p_);
  std::size_t rows = 0;
  for (int checkpoint = 0; checkpoint < 60; ++checkpoint) {
    out->append_events(events.next(500));
    out->append_events(events.next(500));
    rows += 1000;
    go_on();
    out->checkpoint(p_);
    std::size_t commands = 0;
    read_tables(path(), [&](table&& one) { commands += one.name == "command" ? 1 : 0; });
    EXPECT_EQ(commands, 1U);
    EXPECT_EQ(rows_of("events"), rows);
  }
  out->finish(p_);
  EXPECT_EQ(rows_of("events"), rows);
  EXPECT_EQ(rows_of("modules"), p_.modules.size());
  EXPECT_TRUE(out->has_events());
  out->drop_events(p_);
  EXPECT_FALSE(out->has_events());
  EXPECT_EQ(rows_of("events"), 0U);
  EXPECT_EQ(load_profile(path()).sites.size(), p_.sites.size());
}

TEST_F(profile_file_test, a_checkpoint_that_fails_changes_nothing_and_the_next_one_succeeds) {
  const auto out = file();
  out->checkpoint(p_);
  const std::uint64_t before = size();
  const std::size_t rows = p_.counters.size();
  p_.modules.push_back({"/lib/late.so", "", 0x1000, 0x2000, 0});
  go_on();
  {
    const short_files limit(before + 2000);  // room for its first tables
    EXPECT_THROW(out->checkpoint(p_), profile_error);
  }
  EXPECT_EQ(size(), before);
  EXPECT_EQ(load_profile(path()).counters.size(), rows);
  out->checkpoint(p_);
  const profile back = load_profile(path());
  EXPECT_EQ(back.damage, "");
  EXPECT_EQ(back.modules.size(), p_.modules.size());
  EXPECT_EQ(back.counters.size(), rows + 1);
}

TEST_F(profile_file_test, without_room_for_a_second_file_events_make_room) {
  const auto out = file();
  out->checkpoint(p_);
  const std::uint64_t once = size();
  synthetic_events events;
  while (size() < 4 * once) out->append_events(events.next(1000));
  {
    const std::filesystem::path other = path() + ".tarn-new";  // beside() refuses a file of the user's
    ASSERT_TRUE(std::filesystem::create_directory(other));
    const short_files limit(2 * once);
    out->drop_events(p_);
  }
  EXPECT_EQ(rows_of("events"), 0U);
  EXPECT_LE(size(), 2 * once);
  EXPECT_EQ(load_profile(path()).sites.size(), p_.sites.size());
}

}  // namespace
}  // namespace tarn::profiler
