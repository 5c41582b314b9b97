// SPDX-License-Identifier: MIT
// Events compiled into a trace: lanes, places, touches.
#include "profiler/replay/trace.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>

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

TEST(Trace, AThreadReusesItsPlaces) {
  const trace t = compile({{0, 1, 1, 64}, {0, 5, 1}, {0, 4, 2, 64}, {0, 10, 2}});
  ASSERT_EQ(t.lanes.size(), 1U);
  EXPECT_EQ(t.places, 1U);
  EXPECT_EQ(t.lanes[0].ops.size(), 4U);
  EXPECT_EQ(t.allocations, 2U);
}

TEST(Trace, BlocksThatCrossThreadsHavePlacesOfTheirOwn) {
  // Thread 0 frees block 1 and allocates block 2, which thread 1 frees. If both blocks had one place, thread 1 might
  // free block 1 instead.
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
  // Block 1 has 16 pages. Thread 1 touched 4 and does not free it; 2 more were found when thread 0 freed it.
  const trace t =
      compile({{1, 1, 9, 8}, {0, 1, 1, 65536}, {1, 9, 1, 0, 4}, {0, 9, 1, 0, 2}, {0, 5, 1}, {1, 5, 9}});
  ASSERT_EQ(t.lanes.size(), 2U);
  const std::vector<replay_op>& ops = t.lanes[1].ops;  // thread 0's first event is the second row
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

TEST(Trace, MappingsAreUnmappedInParts) {
  const trace t =
      compile({{0, 7, 1, 65536}, {0, 7, 2, 8192}, {0, 8, 1, 16384}, {1, 8, 1, 49152}, {0, 8, 2, 8192}});
  ASSERT_EQ(t.lanes.size(), 2U);
  EXPECT_EQ(t.lanes[0].ops.size(), 3U);
  ASSERT_EQ(t.lanes[1].ops.size(), 1U);
  EXPECT_EQ(t.lanes[1].ops[0].kind, replay_kind::unmap);
  EXPECT_EQ(t.lanes[1].ops[0].size, 65536U);
  EXPECT_NE(t.lanes[0].ops[0].place, t.lanes[0].ops[1].place);
}

TEST(Trace, TellsHowMuchLivesAtOnce) {
  const trace t = compile(
      {{0, 1, 1, 100}, {0, 6, 2, 300, 1}, {0, 7, 3, 1 << 20}, {0, 1, 4, 50}, {0, 5, 2}, {0, 1, 5, 10}});
  EXPECT_EQ(t.peak_bytes, 350);
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
  profile faults = full_profile();
  faults.mode = profile_mode::faults;
  EXPECT_NE(refusal({{0, 1, 1, 8}}, faults).find("no calls"), std::string::npos);
  EXPECT_NE(refusal({}).find("no events"), std::string::npos);
  EXPECT_NE(refusal({{0, 5, 1}}).find("allocate nothing"), std::string::npos);
  EXPECT_NE(refusal({{0, 1, 1, 8}, {0, 1, 1, 8}}).find("second time"), std::string::npos);
  EXPECT_NE(refusal({{0, 1, 1, std::uint64_t{1} << 60}}).find("no sense"), std::string::npos);
  trace_settings few;
  few.most_lanes = 1;
  EXPECT_NE(refusal({{0, 1, 1, 8}, {1, 1, 2, 8}, {0, 5, 1}, {1, 5, 2}}, full_profile(), few).find("at once"),
            std::string::npos);
}

profile sampled_profile() {
  profile p = full_profile();
  p.mode = profile_mode::sample;
  p.meta = {{"sample_bytes", 6400.0}};
  return p;
}

// Blocks of 64 bytes, sampled at a mean distance of 6,400 bytes: each stands for 1 / (1 - exp(-64 / 6400)) = 100.5.
std::vector<row> sampled_rows(int samples) {
  std::vector<row> rows;
  for (std::uint64_t sample = 1; sample <= static_cast<std::uint64_t>(samples); ++sample) {
    rows.push_back({0, 1, sample, 64});
    rows.push_back({0, 5, sample});
  }
  return rows;
}

TEST(Trace, ASampleStandsForItsKind) {
  const scratch_file file;
  write_events(file.path(), sampled_rows(20));
  const trace t = load_trace(file.path(), sampled_profile(), {});
  EXPECT_TRUE(t.sampled);
  EXPECT_NEAR(static_cast<double>(t.allocations), 20 * 100.5, 2);
  EXPECT_EQ(t.operations, 2 * t.allocations);
  EXPECT_EQ(t.lanes.size(), 1U);
  EXPECT_NEAR(t.bytes, 20 * 100.5 * 64, 2 * 64);
}

TEST(Trace, OfManySamplesAPartIsReplayed) {
  const scratch_file file;
  std::vector<row> rows = sampled_rows(200);
  rows.insert(rows.begin(), {0, 1, 1000, 64});  // is never freed
  write_events(file.path(), rows);
  trace_settings settings;
  settings.most_expanded = 4000;
  const trace t = load_trace(file.path(), sampled_profile(), settings);
  EXPECT_LE(t.operations, 4000U);
  EXPECT_GE(t.operations, 1500U);
  // The block that lives when the part begins is allocated, and not freed.
  EXPECT_NEAR(static_cast<double>(2 * t.allocations - t.operations), 100.5, 2);
}

TEST(Trace, LargeBlocksStandForThemselvesAndGrow) {
  const scratch_file file;
  write_events(file.path(), {{0, 1, 1, 1 << 20}, {0, 9, 1, 0, 7}, {0, 6, 2, 2 << 20, 1}, {0, 5, 2}});
  const trace t = load_trace(file.path(), sampled_profile(), {});
  ASSERT_EQ(t.lanes.size(), 1U);
  const std::vector<replay_op>& ops = t.lanes[0].ops;
  ASSERT_GE(ops.size(), 3U);
  EXPECT_EQ(ops[0].other, 7U) << "touched pages";
  EXPECT_EQ(ops[1].kind, replay_kind::reallocate);
  EXPECT_EQ(ops.back().kind, replay_kind::free);
}

TEST(Trace, NoSampleMakesMoreEventsThanAreWanted) {
  const scratch_file file;
  write_events(file.path(), {{0, 1, 1, 1}, {0, 5, 1}});
  profile p = sampled_profile();
  p.meta["sample_bytes"] = 1e15;
  trace_settings settings;
  settings.most_expanded = 1000;
  EXPECT_LE(load_trace(file.path(), p, settings).operations, 2000U);
}

// The program's own work took 4,000 ns and its allocations 1,000 ns: at most three times the latter is replayed as
// work.
TEST(Trace, TheProgramsOwnWorkIsBetweenTheCalls) {
  profile p = full_profile();
  p.counters.emplace_back();
  p.counters.back().user_ns = 5000;
  p.sites.emplace_back();
  p.sites[0].figures.allocations = 2;
  p.sites[0].figures.malloc_ns = 1000;
  const scratch_file file;
  std::vector<row> rows;
  for (std::uint64_t i = 0; i < 3000; ++i) rows.push_back({1, 1, i + 1, 8});
  p.sites[0].figures.allocations = 3000;
  write_events(file.path(), rows);
  const trace t = load_trace(file.path(), p, {});
  EXPECT_GT(t.work_ns, 0);
  EXPECT_LE(t.work_ns, 3000);
  EXPECT_EQ(load_trace(file.path(), full_profile(), {}).work_ns, 0) << "processor time is not known";
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

// Over all lanes, each place is filled as often as it is emptied, or once more if its last block was never freed.
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

TEST(Trace, PagesOfTheLargestSizeDoNotWrap) {
  const trace t = compile({{1, 1, 1, std::uint64_t{1} << 46}});
  ASSERT_EQ(t.lanes.size(), 1U);
  EXPECT_EQ(t.lanes[0].ops[0].other, 0xffffffff);
}

// As many threads as a hostile file may claim: the refusal must not take time in proportion to their square.
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
