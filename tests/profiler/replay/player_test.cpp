// SPDX-License-Identifier: MIT
// Traces played: made by hand, and of synthetic events.
#include "profiler/replay/player.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "profiler/replay/trace_image.hpp"
#include "tests/profiler/scratch_file.hpp"
#include "tests/profiler/synthetic_profile.hpp"

namespace tarn::profiler {
namespace {

replay_op operation(replay_kind kind, std::uint64_t size, std::uint32_t place, std::uint32_t other = 0) {
  replay_op op;
  op.kind = kind;
  op.size = size;
  op.place = place;
  op.other = other;
  return op;
}

trace of_lanes(std::vector<replay_lane> lanes) {
  trace made;
  made.lanes = std::move(lanes);
  made.places = 8;
  made.routes.resize(1);
  return made;
}

std::string play_refusal(const trace& from, play_mode mode) {
  try {
    play(trace_image(from).descriptor(), mode);
  } catch (const profile_error& error) {
    return error.what();
  }
  return "no error";
}

TEST(player, plays_threads_that_depend_on_each_other) {
  const scratch_file file;
  synthetic_events events(5);
  {
    table_writer out(file.path());
    for (int part = 0; part < 4; ++part) out.append(events.next(20000));
  }
  profile p;
  p.mode = profile_mode::full;
  p.stacks.emplace_back();
  const trace_image image(load_trace(file.path(), p, {}));
  for (const play_mode mode : {play_mode::nothing, play_mode::heap}) {
    const play_figures figures = play(image.descriptor(), mode);
    EXPECT_GT(figures.wall_seconds, 0);
    EXPECT_EQ(figures.failed, 0);
  }
}

TEST(player, each_kind_of_operation) {
  constexpr std::uint64_t large = std::uint64_t{8} << 20;
  replay_op aligned = operation(replay_kind::aligned, 100, 2);
  aligned.alignment = 12;
  const trace from = of_lanes(
      {{{operation(replay_kind::allocate, 64, 0, 1), operation(replay_kind::zeroed, 4096, 1, 1), aligned,
         operation(replay_kind::by_new, 32, 3), operation(replay_kind::map, large, 4),
         operation(replay_kind::touch, large, 4, large / 4096), operation(replay_kind::touch, 0, no_place),
         operation(replay_kind::reallocate, 200, 5, 0), operation(replay_kind::free, 0, 5),
         operation(replay_kind::free, 0, 1), operation(replay_kind::free, 0, 2),
         operation(replay_kind::by_delete, 0, 3), operation(replay_kind::unmap, large, 4)}}});
  const play_figures figures = play(trace_image(from).descriptor(), play_mode::heap);
  EXPECT_EQ(figures.failed, 0);
  EXPECT_GE(figures.faults, 1);
  EXPECT_GE(figures.peak_bytes, large / 2);
  EXPECT_LT(play(trace_image(from).descriptor(), play_mode::nothing).peak_bytes, large / 2);
}

TEST(player, a_lane_waits_for_the_block_that_another_one_makes) {
  const trace from =
      of_lanes({{{operation(replay_kind::free, 0, 0)}}, {{operation(replay_kind::allocate, 64, 0)}}});
  EXPECT_EQ(play(trace_image(from).descriptor(), play_mode::heap).failed, 0);
}

// The program had more memory, or another malloc.
TEST(player, what_cannot_be_allocated_is_counted_and_not_touched) {
  constexpr std::uint64_t beyond = std::uint64_t{1} << 62;
  const trace from = of_lanes(
      {{{operation(replay_kind::allocate, beyond, 0, 4096), operation(replay_kind::touch, beyond, 0, 4096),
         operation(replay_kind::free, 0, 0), operation(replay_kind::allocate, 64, 1),
         operation(replay_kind::reallocate, beyond, 2, 1), operation(replay_kind::touch, beyond, 2, 4096),
         operation(replay_kind::reallocate, 64, 3, 2), operation(replay_kind::free, 0, 3)}}});
  EXPECT_EQ(play(trace_image(from).descriptor(), play_mode::heap).failed, 2);
}

TEST(player, refuses_what_is_no_trace) {
  scratch_file file;
  const auto refusal = [&file] {
    const int descriptor = open(file.path().c_str(), O_RDONLY);
    std::string problem = "no error";
    try {
      play(descriptor, play_mode::heap);
    } catch (const profile_error& error) {
      problem = error.what();
    }
    close(descriptor);
    return problem;
  };
  const std::string no_trace = "replay: what it was given is no trace";
  EXPECT_EQ(refusal(), no_trace);
  file.set(std::vector<std::uint8_t>(sizeof(image_header)));
  EXPECT_EQ(refusal(), no_trace);
  const trace_image image(of_lanes({{{operation(replay_kind::allocate, 64, 0)}}}));
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(lseek(image.descriptor(), 0, SEEK_END)));
  ASSERT_EQ(pread(image.descriptor(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  file.set(bytes);
  EXPECT_EQ(refusal(), "no error");
  bytes.pop_back();
  file.set(bytes);
  EXPECT_EQ(refusal(), no_trace);
}

TEST(player, pools_need_the_library_that_has_them) {
  trace from = of_lanes({{{operation(replay_kind::allocate, 64, 0)}}});
  from.routes.push_back({route_kind::pool, 64});
  EXPECT_EQ(play_refusal(from, play_mode::routes), "replay: the libtarn in use has no pools");
  EXPECT_EQ(play_refusal(from, play_mode::heap), "no error");
}

}  // namespace
}  // namespace tarn::profiler
