// SPDX-License-Identifier: MIT
// process_usage: from when on a process image's figures are its own, and what it has used since.
#include "profiler/collect/process_usage.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

image_facts loaded_program() { return {.recorded_ns = 1000, .at_start = {100, 5, 600, 400, 0}}; }

TEST(image_begin, of_a_forked_process_is_its_first_event) {
  image_facts facts = loaded_program();
  facts.is_forked = true;
  facts.executed_ns = 700;
  const image_begin begin = begin_of(facts);
  EXPECT_EQ(begin.start_ns, 1000U);
  EXPECT_EQ(begin.before.minor_faults, 0U);
}

TEST(image_begin, of_an_attached_process_is_the_attachment) {
  image_facts facts = loaded_program();
  facts.is_attached = true;
  facts.executed_ns = 700;
  const image_begin begin = begin_of(facts);
  EXPECT_EQ(begin.start_ns, 1000U);
  EXPECT_EQ(begin.before.minor_faults, 100U);
}

TEST(image_begin, is_the_exec_and_the_time_since_then_is_the_images) {
  image_facts facts = loaded_program();
  facts.executed_ns = 700;
  facts.has_earlier = true;
  facts.earlier_ns = 0;
  facts.loading_faults = 30;
  const image_begin begin = begin_of(facts);
  EXPECT_EQ(begin.start_ns, 700U);
  EXPECT_EQ(begin.before.minor_faults, 70U);
  EXPECT_EQ(begin.before.major_faults, 5U);
  // 300 of 1000 ns have passed since.
  EXPECT_EQ(begin.before.user_ns, 420U);
  EXPECT_EQ(begin.before.system_ns, 280U);
}

TEST(image_begin, an_earlier_image_leaves_less_to_this_one) {
  image_facts facts = loaded_program();
  facts.executed_ns = 700;
  facts.has_earlier = true;
  facts.earlier_ns = 900;  // of 1000 ns in all
  const image_begin begin = begin_of(facts);
  EXPECT_EQ(begin.before.user_ns + begin.before.system_ns, 900U);
}

TEST(image_begin, of_a_later_image_without_a_known_exec_is_its_first_event) {
  image_facts facts = loaded_program();
  facts.has_earlier = true;
  EXPECT_EQ(begin_of(facts).start_ns, 1000U);
  EXPECT_EQ(begin_of(facts).before.minor_faults, 100U);
}

TEST(image_begin, of_the_program_is_when_it_was_started) {
  image_facts facts = loaded_program();
  facts.started_ns = 600;
  EXPECT_EQ(begin_of(facts).start_ns, 600U);
  EXPECT_EQ(begin_of(facts).before.minor_faults, 0U);
  facts.started_ns = 1200;
  EXPECT_EQ(begin_of(facts).start_ns, 1000U);
}

process_figures used_so_far(double faults) {
  process_figures figures;
  figures.minor_faults = faults;
  return figures;
}

TEST(process_usage, what_came_before_the_image_is_not_its_own) {
  process_usage usage({.minor_faults = 40}, {.minor_faults = 60});
  EXPECT_FALSE(usage.is_loading_left_out());
  usage.read(used_so_far(100));
  counter_row row;
  usage.fill(row);
  EXPECT_EQ(row.faults, 60);
}

TEST(process_usage, a_small_child_is_in_its_parents_figures) {
  process_usage parent;
  counter_row of_child;
  of_child.faults = 5;
  parent.add_child(process_usage(), 7, 3, of_child);
  parent.read(used_so_far(100));
  counter_row row;
  parent.fill(row);
  EXPECT_EQ(row.faults, 105);
  nlohmann::json meta;
  parent.fill(meta);
  EXPECT_EQ(meta["small_children"]["processes"], 1);
  EXPECT_EQ(meta["small_children"]["allocations"], 7);
  profile p;
  parent.fill_faults(p, nullptr, 50);
  EXPECT_EQ(p.unseen_faults, 52) << "of 105, 50 were seen, and 3 are the recorder's";
}

TEST(process_usage, the_memory_of_a_process_that_has_ended_is_its_last) {
  process_usage usage;
  process_figures figures;
  figures.resident_bytes = 4096;
  usage.read(figures);
  figures.resident_bytes = 0;
  figures.state = 'Z';
  usage.read(figures);
  EXPECT_EQ(usage.last().resident_bytes, 4096);
}

}  // namespace
}  // namespace tarn::profiler
