// SPDX-License-Identifier: MIT
// What lives of a process with a black box: samples, the engine's bounds, and what is resident.
#include "cli/recording/box_memory.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace tarn::cli {
namespace {

using profiler::box_content;
using profiler::margin_of;
using profiler::memory_row;
using profiler::profile;

constexpr double mib = 0x1p20;

// A sample stands for 1 MiB: `all` of them, of which `live` live.
profiler::boxed_site place(unsigned all, unsigned live) {
  profiler::boxed_site one{};
  one.figures.samples = all;
  one.figures.live_samples = live;
  one.figures.bytes = all << 20;
  one.figures.live_bytes = live << 20;
  one.figures.blocks = std::uint64_t{all} << 24;
  one.figures.live_blocks = std::uint64_t{live} << 24;
  one.figures.bytes_variance = all * mib * mib;
  one.figures.live_bytes_variance = live * mib * mib;
  return one;
}

class box_memory : public testing::Test {
 protected:
  box_memory() {
    box_.sample_bytes = mib;
    box_.heap_in_use = 300 * mib;
    row_.mapped = 320 * mib;
  }

  void tell() {
    profile_ = profiler::profile_of(box_);
    add_holders(profile_, row_, split_anonymous(row_, box_), box_);
  }
  [[nodiscard]] const profiler::memory_part* part(unsigned site) const {
    for (const profiler::memory_part& one : profile_.memory.parts)
      if (one.site == site) return &one;
    return nullptr;
  }
  [[nodiscard]] double sum() const {
    double all = 0;
    for (const profiler::memory_part& one : profile_.memory.parts) all += one.bytes;
    return all;
  }

  box_content box_;
  memory_row row_;
  profile profile_;
};

TEST_F(box_memory, without_bounds_the_samples_tell) {
  box_.add(place(200, 100));
  box_.add(place(50, 25));
  tell();
  EXPECT_NEAR(row_.live, 125 * mib, 1);
  EXPECT_NEAR(row_.live_variance, 125 * mib * mib + profiler::variance_of_none(mib), 1);
  EXPECT_EQ(row_.kept, 300 * mib - row_.live);
  EXPECT_EQ(row_.mapped, 20 * mib);
  EXPECT_NEAR(part(1)->bytes, 100 * mib, 1);
  EXPECT_NEAR(part(2)->bytes, 25 * mib, 1);
}

TEST_F(box_memory, what_the_program_has_mapped_is_not_mallocs_though_blocks_are_not_written) {
  box_.heap_ranges = {{0x1000, 0x2000}};
  box_.add(place(250, 250));
  box_.live_between = {{249 * mib, 251 * mib, 300 * mib}};
  row_.mapped = 200 * mib;
  row_.kept = 60 * mib;
  tell();
  EXPECT_EQ(row_.mapped, 200 * mib);
  EXPECT_EQ(row_.live + row_.kept, 60 * mib);
  EXPECT_NEAR(row_.untouched, 190 * mib, mib);
}

TEST_F(box_memory, narrow_bounds_tell_the_sum_and_the_uncertain_ones_make_the_difference) {
  box_.add(place(200, 100));
  box_.add(place(50, 25));
  profiler::boxed_site large = place(1, 1);  // a block that is sampled for sure
  large.figures.live_bytes = large.figures.bytes = std::uint64_t{50} << 20;
  large.figures.bytes_variance = large.figures.live_bytes_variance = 0;
  box_.add(std::move(large));
  box_.live_between = {{199 * mib, 201 * mib, 300 * mib}};
  tell();
  EXPECT_NEAR(row_.live, 200 * mib, mib);
  EXPECT_LE(margin_of(row_.live_variance), mib);
  EXPECT_NEAR(part(1)->bytes, 120 * mib, mib);
  EXPECT_NEAR(part(2)->bytes, 30 * mib, mib);
  EXPECT_NEAR(part(3)->bytes, 50 * mib, 1);
  EXPECT_NEAR(part(3)->variance, 0, 1);
  EXPECT_LT(part(1)->variance, 50 * mib * mib) << "with the sum it is known better";
  EXPECT_NEAR(sum(), row_.live, 1);
}

TEST_F(box_memory, wide_bounds_tell_nothing_more) {
  box_.add(place(200, 100));
  box_.live_between = {{0, 290 * mib, 300 * mib}};
  tell();
  EXPECT_NEAR(row_.live, 100 * mib, 3 * mib);
  EXPECT_NEAR(part(1)->bytes, row_.live, mib);
}

TEST_F(box_memory, few_samples_leave_the_bounds) {
  box_.add(place(3, 1));
  box_.live_between = {{150 * mib, 160 * mib, 300 * mib}};
  tell();
  EXPECT_NEAR(row_.live, 155 * mib, 5 * mib);
  EXPECT_NEAR(sum(), row_.live, 1);
  EXPECT_GT(part(0)->bytes, 50 * mib) << "what no sample knows";
}

TEST_F(box_memory, what_changed_since_the_engine_wrote_is_told_by_samples_or_by_pages) {
  box_.add(place(200, 100));
  box_.live_between = {{149 * mib, 151 * mib, 300 * mib, -60 * mib, 4 * mib * mib}};
  tell();
  EXPECT_NEAR(row_.live, 90 * mib, 2 * mib) << "few came and went";
  EXPECT_GE(margin_of(row_.live_variance), 3 * mib);
  row_ = {};
  row_.mapped = 320 * mib;
  box_.live_between = {{99 * mib, 101 * mib, 290 * mib, -60 * mib, 1e4 * mib * mib}};
  tell();
  EXPECT_GE(row_.live + margin_of(row_.live_variance), 110 * mib) << "many; 10 MiB of pages more";
  EXPECT_LE(row_.live, 110 * mib);
  EXPECT_LE(margin_of(row_.live_variance), 20 * mib);
}

TEST_F(box_memory, pages_that_were_never_written_may_be_free_ones) {
  box_.add(place(400, 150));
  box_.heap_free = 100 * mib;
  box_.heap_in_use = 150 * mib;
  row_.mapped = 200 * mib;
  box_.live_between = {{149 * mib, 151 * mib, 150 * mib}};
  tell();
  const double margin = margin_of(row_.live_variance);
  EXPECT_NEAR(row_.live - margin, 100 * mib, 3 * mib);
  EXPECT_NEAR(row_.live + margin, 150 * mib, 3 * mib);
  EXPECT_EQ(row_.untouched, 0) << "not for certain";
}

TEST_F(box_memory, what_was_not_touched_is_not_resident) {
  profiler::boxed_site large = place(1, 1);
  large.figures.live_bytes = large.figures.bytes = std::uint64_t{250} << 20;
  large.figures.bytes_variance = large.figures.live_bytes_variance = 0;
  box_.add(std::move(large));
  box_.add(place(60, 30));
  box_.heap_in_use = 280 * mib;
  row_.mapped = 40 * mib;
  tell();
  EXPECT_EQ(row_.live, 40 * mib);
  EXPECT_NEAR(row_.untouched, 240 * mib, 1);
  EXPECT_NEAR(sum(), row_.live, 1);
  for (const unsigned site : {1U, 2U}) {
    const double margin = margin_of(part(site)->variance);
    EXPECT_GE(part(site)->bytes + margin, site == 1 ? 40 * mib : 30 * mib);
    EXPECT_LE(part(site)->bytes - margin, site == 1 ? 10 * mib : 0);
  }
}

TEST_F(box_memory, pools_are_known) {
  box_.engine = {{"tarn_pool_live_bytes", {{"nodes", 64 * mib}}}};
  box_.add(place(60, 30));
  tell();
  EXPECT_NEAR(row_.live, 94 * mib, 1);
  EXPECT_NEAR(sum(), row_.live, 1);
  EXPECT_EQ(part(0)->name, "typed pool nodes");
  EXPECT_EQ(part(0)->bytes, 64 * mib);
  EXPECT_EQ(part(0)->variance, 0);
}

}  // namespace
}  // namespace tarn::cli
