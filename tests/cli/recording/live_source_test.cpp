// SPDX-License-Identifier: MIT
// Snapshots of a profile that is being written; processes that are not recorded.
#include "cli/recording/live_source.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "profiler/model/store_profile.hpp"
#include "tests/profiler/scratch_file.hpp"

namespace tarn::cli {
namespace {

TEST(live_source, each_checkpoint_is_given_once) {
  profiler::scratch_file file;
  live_source source(file.path());
  EXPECT_FALSE(source.next()) << "nothing is written yet";
  profiler::table_writer out(file.path());
  EXPECT_FALSE(source.next());
  profiler::profile p;
  p.meta = {{"duration_ns", 1e9}};
  profiler::stored_rows already;
  profiler::store_profile(out, p, already);
  ASSERT_TRUE(source.next());
  EXPECT_FALSE(source.next());
  out.append_json("other", "{}");
  EXPECT_FALSE(source.next()) << "the same checkpoint";
  p.meta["duration_ns"] = 2e9;
  p.stacks = {{}, {0, 0x10}};
  profiler::store_profile(out, p, already);
  const std::uint64_t whole = out.bytes();
  p.meta["duration_ns"] = 3e9;
  profiler::store_profile(out, p, already);
  auto bytes = file.contents();
  bytes.resize(whole + 40);
  file.set(bytes);
  const auto snapshot = source.next();
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->meta["duration_ns"], 2e9);
  EXPECT_EQ(snapshot->damage, "") << "the file is still being written";
  EXPECT_EQ(snapshot->stacks.size(), 2U);
}

TEST(live_source, a_file_that_is_gone_has_none) { EXPECT_FALSE(live_source("/nowhere/at/all").next()); }

TEST(live_source, why_a_process_has_no_recording) {
  std::string reason;
  EXPECT_FALSE(find_recording_of(getpid(), reason));
  EXPECT_EQ(reason, "it was not started under tarn profile, so its costs by call site are unknown");
  EXPECT_FALSE(find_recording_of(0x7ffffffe, reason));
  EXPECT_EQ(reason, "it has ended, or does not exist");
}

}  // namespace
}  // namespace tarn::cli
