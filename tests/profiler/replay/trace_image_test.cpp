// SPDX-License-Identifier: MIT
// The block of memory that a replaying child reads.
#include "profiler/replay/trace_image.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {
namespace {

template <typename Type>
Type read_at(const trace_image& image, std::uint64_t offset) {
  Type value;
  EXPECT_EQ(pread(image.descriptor(), &value, sizeof value, static_cast<off_t>(offset)),
            ssize_t{sizeof value});
  return value;
}

TEST(trace_image, has_the_lanes_one_after_the_other) {
  trace from;
  from.lanes.resize(3);
  from.lanes[0].ops.resize(2);
  from.lanes[2].ops.resize(1);
  from.lanes[2].ops[0].size = 77;
  from.places = 5;
  from.routes = {{route_kind::heap, 0}, {route_kind::pool, 48}};
  const trace_image image(from);
  const auto header = read_at<image_header>(image, 0);
  EXPECT_EQ(header.magic, image_magic);
  EXPECT_EQ(header.lanes, 3U);
  EXPECT_EQ(header.places, 5U);
  EXPECT_EQ(header.routes, 2U);
  EXPECT_EQ(header.route[1].size, 48U);
  struct stat about;
  ASSERT_EQ(fstat(image.descriptor(), &about), 0);
  EXPECT_EQ(header.bytes, static_cast<std::uint64_t>(about.st_size));
  const auto lane = [&](std::uint64_t index) {
    return read_at<image_lane>(image, header.lanes_offset + index * sizeof(image_lane));
  };
  EXPECT_EQ(lane(0).count, 2U);
  EXPECT_EQ(lane(1).count, 0U);
  EXPECT_EQ(lane(2).first, lane(0).first + 2 * sizeof(replay_op));
  EXPECT_EQ(read_at<replay_op>(image, lane(2).first).size, 77U);
}

TEST(trace_image, has_64_routes_at_most) {
  trace from;
  from.routes.resize(100);
  EXPECT_EQ(read_at<image_header>(trace_image(from), 0).routes, 64U);
}

// Operations count pages of this size: with another one, a replay would touch a part of the memory.
TEST(trace_image, pages_are_as_large_as_in_the_recording) {
  const scratch_file file;
  {
    table events{"events", 1, {}, false};
    for (const char* name : {"thread", "stack", "extra"}) events.columns.push_back({name, integers{0}});
    for (const char* name : {"time_ns", "kind", "block"}) events.columns.push_back({name, integers{1}});
    events.columns.push_back({"size", integers{1 << 20}});
    table_writer(file.path()).append(events);
  }
  profile p;
  p.mode = profile_mode::full;
  p.stacks.emplace_back();
  p.meta = {{"page_bytes", 65536}};
  const trace from = load_trace(file.path(), p, {});
  EXPECT_EQ(from.lanes.at(0).ops.at(0).other, 16U);
  EXPECT_EQ(read_at<image_header>(trace_image(from), 0).page_bytes, 65536U);
}

}  // namespace
}  // namespace tarn::profiler
