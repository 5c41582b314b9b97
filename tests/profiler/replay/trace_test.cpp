// SPDX-License-Identifier: MIT
#include "profiler/replay/trace.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>

#include "profiler/model/store_profile.hpp"
#include "profiler/replay/player.hpp"
#include "profiler/replay/trace_image.hpp"
#include "tests/profiler/scratch_file.hpp"
#include "tests/profiler/synthetic_profile.hpp"

namespace tarn::profiler {
namespace {

struct row {
  std::uint64_t thread;
  std::uint64_t kind;
  std::uint64_t block;
  std::uint64_t size = 0;
  std::uint64_t extra = 0;
  std::uint64_t stack = 0;
};

void write_events(const std::string& path, const std::vector<row>& rows) {
  integers columns[7];
  std::uint64_t time = 0;
  for (const row& each : rows) {
    const std::uint64_t values[] = {++time,    each.thread, each.kind, each.block,
                                    each.size, each.stack,  each.extra};
    for (std::size_t index = 0; index < 7; ++index) columns[index].push_back(values[index]);
  }
  table events;
  events.name = "events";
  events.rows = rows.size();
  const char* const names[] = {"time_ns", "thread", "kind", "block", "size", "stack", "extra"};
  for (std::size_t index = 0; index < 7; ++index) events.columns.push_back({names[index], columns[index]});
  table_writer(path).append(events);
}

profile full_profile() {
  profile p;
  p.mode = profile_mode::full;
  p.stacks.emplace_back();
  return p;
}

trace compile(const std::vector<row>& rows, const trace_settings& settings = {}) {
  const scratch_file file;
  write_events(file.path(), rows);
  return load_trace(file.path(), full_profile(), settings);
}

std::string refusal(const std::vector<row>& rows, profile p = full_profile(),
                    const trace_settings& settings = {}) {
  const scratch_file file;
  write_events(file.path(), rows);
  try {
    load_trace(file.path(), p, settings);
  } catch (const profile_error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Trace, OneThreadUsesItsPlacesAgain) {
  const trace t = compile({{0, 1, 1, 64}, {0, 5, 1}, {0, 4, 2, 64}, {0, 10, 2}});
  ASSERT_EQ(t.lanes.size(), 1U);
  EXPECT_EQ(t.places, 1U);
  EXPECT_EQ(t.lanes[0].ops.size(), 4U);
  EXPECT_EQ(t.allocations, 2U);
}

TEST(Trace, BlocksThatCrossThreadsHavePlacesOfTheirOwn) {
  // Thread 0 frees block 1 and takes block 2, which thread 1 frees: it must not find block 1 in its place.
  const trace t = compile({{0, 1, 1, 64}, {0, 5, 1}, {0, 1, 2, 64}, {1, 5, 2}, {0, 1, 3, 64}, {0, 5, 3}});
  ASSERT_EQ(t.lanes.size(), 2U);
  EXPECT_EQ(t.places, 2U);
  EXPECT_NE(t.lanes[0].ops[0].place, t.lanes[0].ops[2].place);
  EXPECT_EQ(t.lanes[0].ops[2].place, t.lanes[1].ops[0].place);
}

TEST(Trace, ThreadsOneAfterAnotherShareALane) {
  const trace t = compile({{0, 1, 1, 8}, {0, 5, 1}, {1, 1, 2, 8}, {1, 5, 2}, {2, 1, 3, 8}});
  EXPECT_EQ(t.lanes.size(), 1U);
  EXPECT_EQ(t.threads, 3U);
}

TEST(Trace, TouchesByOtherLanesAndAtTheEndMoveToTheAllocation) {
  // 16 pages: 4 touched by thread 1, which does not free; 2 found when thread 0 frees it.
  const trace t =
      compile({{1, 1, 9, 8}, {0, 1, 1, 65536}, {1, 9, 1, 0, 4}, {0, 9, 1, 0, 2}, {0, 5, 1}, {1, 5, 9}});
  ASSERT_EQ(t.lanes.size(), 2U);
  const std::vector<replay_op>& ops = t.lanes[1].ops;  // thread 0 came second
  ASSERT_EQ(ops.size(), 2U);
  EXPECT_EQ(ops[0].other, 6U);
  EXPECT_EQ(t.lanes[0].ops[1].place, no_place);
}

TEST(Trace, ReallocNamesItsOldPlace) {
  const trace t = compile({{0, 1, 1, 100}, {0, 6, 2, 200, 1}, {0, 5, 2}, {0, 6, 3, 50, 0}});
  const std::vector<replay_op>& ops = t.lanes[0].ops;
  ASSERT_EQ(ops.size(), 4U);
  EXPECT_EQ(ops[1].kind, replay_kind::reallocate);
  EXPECT_EQ(ops[1].other, ops[0].place);
  EXPECT_EQ(ops[3].kind, replay_kind::allocate);
}

TEST(Trace, MappingsGoInParts) {
  const trace t =
      compile({{0, 7, 1, 65536}, {0, 7, 2, 8192}, {0, 8, 1, 16384}, {1, 8, 1, 49152}, {0, 8, 2, 8192}});
  ASSERT_EQ(t.lanes.size(), 2U);
  EXPECT_EQ(t.lanes[0].ops.size(), 3U);
  ASSERT_EQ(t.lanes[1].ops.size(), 1U);
  EXPECT_EQ(t.lanes[1].ops[0].kind, replay_kind::unmap);
  EXPECT_EQ(t.lanes[1].ops[0].size, 65536U);
  EXPECT_NE(t.lanes[0].ops[0].place, t.lanes[0].ops[1].place);
}

TEST(Trace, MappingsWithoutANumberAreLeftOut) {
  const trace t = compile({{0, 7, 0, 65536}, {0, 1, 1, 64}, {0, 7, 0, 65536}, {0, 8, 0, 65536}, {0, 5, 1}});
  EXPECT_EQ(t.lanes[0].ops.size(), 2U);
  EXPECT_EQ(t.unknown, 0U);
}

TEST(Trace, FreesOfUnknownBlocksAreCounted) {
  const trace t = compile({{0, 1, 1, 8}, {0, 5, 77}, {0, 5, 1}});
  EXPECT_EQ(t.unknown, 1U);
  EXPECT_EQ(t.operations, 2U);
}

TEST(Trace, SaysWhyAFileCannotBeReplayed) {
  profile sampled = full_profile();
  sampled.mode = profile_mode::sample;
  EXPECT_NE(refusal({{0, 1, 1, 8}}, sampled).find("--mode full"), std::string::npos);
  EXPECT_NE(refusal({}).find("no events"), std::string::npos);
  EXPECT_NE(refusal({{0, 5, 1}}).find("allocate nothing"), std::string::npos);
  EXPECT_NE(refusal({{0, 1, 1, 8}, {0, 1, 1, 8}}).find("second time"), std::string::npos);
  EXPECT_NE(refusal({{0, 1, 1, std::uint64_t{1} << 60}}).find("no sense"), std::string::npos);
  trace_settings few;
  few.most_lanes = 1;
  EXPECT_NE(refusal({{0, 1, 1, 8}, {1, 1, 2, 8}, {0, 5, 1}, {1, 5, 2}}, full_profile(), few).find("at once"),
            std::string::npos);
}

TEST(Trace, RoutesFollowTheAdvice) {
  const profile p = synthetic_profile();
  trace_settings settings;
  add_routes(settings, p, advise(p, {0.0001, 50}));
  ASSERT_GT(settings.routes.size(), 1U);
  EXPECT_EQ(settings.routes[0].kind, route_kind::heap);
  ASSERT_EQ(settings.route_of_site.size(), p.sites.size());
  for (const std::uint8_t route : settings.route_of_site) EXPECT_LT(route, settings.routes.size());
}

// Every place is filled before it is emptied, by its lane or another, and at the end holds what was never freed.
TEST(Trace, SyntheticEventsBalance) {
  const scratch_file file;
  synthetic_events events(3);
  {
    table_writer out(file.path());
    for (int part = 0; part < 4; ++part) out.append(events.next(20000));
  }
  const trace t = load_trace(file.path(), full_profile(), {});
  std::map<std::uint32_t, long> held;
  for (const replay_lane& lane : t.lanes) {
    for (const replay_op& op : lane.ops) held[op.place] += op.kind == replay_kind::free ? -1 : 1;
  }
  for (const auto& [place, count] : held) {
    EXPECT_GE(count, 0);
    EXPECT_LE(count, 1);
  }
}

TEST(Player, PlaysThreadsThatDependOnEachOther) {
  const scratch_file file;
  synthetic_events events(5);
  {
    table_writer out(file.path());
    for (int part = 0; part < 4; ++part) out.append(events.next(20000));
  }
  const trace_image image(load_trace(file.path(), full_profile(), {}));
  for (const play_mode mode : {play_mode::nothing, play_mode::heap}) {
    const play_figures figures = play(image.descriptor(), mode);
    EXPECT_GT(figures.wall_seconds, 0);
    EXPECT_EQ(figures.failed, 0);
  }
}

TEST(Player, RefusesWhatIsNoTrace) {
  const scratch_file file;
  write_events(file.path(), {{0, 1, 1, 8}});
  std::FILE* const open = std::fopen(file.path().c_str(), "r");
  EXPECT_THROW(play(fileno(open), play_mode::heap), profile_error);
  std::fclose(open);
}

TEST(Trace, PagesOfTheLargestSizeDoNotWrap) {
  const trace t = compile({{1, 1, 1, std::uint64_t{1} << 46}});
  ASSERT_EQ(t.lanes.size(), 1U);
  EXPECT_EQ(t.lanes[0].ops[0].other, 0xffffffff);
}

// As many as a hostile file may tell of: the answer must not take a look at each pair of them.
TEST(Trace, TwoHundredThousandThreadsAtOnceAreRefusedAtOnce) {
  std::vector<row> rows;
  for (std::uint64_t thread = 0; thread < 200'000; ++thread) rows.push_back({thread, 1, thread + 1, 8});
  for (std::uint64_t thread = 0; thread < 200'000; ++thread) rows.push_back({thread, 5, thread + 1, 8});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(refusal(rows).find("lived at once"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
}

}  // namespace
}  // namespace tarn::profiler
