// SPDX-License-Identifier: MIT
// process_tree: which process is meant by an id or a serial, and which image an event belongs to.
#include "profiler/collect/process_tree.hpp"

#include <gtest/gtest.h>

#include <set>

#include "../../unit/broken_invariant.hpp"

namespace tarn::profiler {
namespace {

class process_trees : public testing::Test {
 protected:
  recorded_process& add(std::uint32_t pid, std::uint64_t serial, std::uint64_t parent = 0, uid_t user = 1) {
    process_identity who{.serial = serial, .parent_serial = parent, .pid = pid, .user = user};
    return tree_.add(
        std::make_unique<recorded_process>(around_, model_settings{}, who, process_usage(), nullptr));
  }

  recording_settings settings_ = [] {
    recording_settings settings;
    settings.directory = "/tmp";
    return settings;
  }();
  tick_clock clock_{tick_source::system_clock};
  fault_events faults_;
  output_files files_{settings_};
  recording_context around_{settings_, clock_, faults_, files_};
  process_tree tree_;
};

TEST_F(process_trees, an_id_means_the_newest_image) {
  EXPECT_EQ(tree_.by_id(7), nullptr);
  recorded_process& first = add(7, 1);
  recorded_process& second = add(7, 2);
  EXPECT_EQ(tree_.by_id(7), &second);
  EXPECT_EQ(tree_.remove(second).get(), &second);
  EXPECT_EQ(tree_.by_id(7), &first);
}

TEST_F(process_trees, a_parent_has_the_same_user) {
  recorded_process& parent = add(7, 1, 0, 1000);
  EXPECT_EQ(tree_.parent_of(add(8, 2, 1, 1000)), &parent);
  EXPECT_EQ(tree_.parent_of(add(9, 3, 1, 1001)), nullptr);
  EXPECT_EQ(tree_.parent_of(add(10, 0, 0, 1000)), nullptr) << "none is named";
}

TEST_F(process_trees, all_processes_have_their_turn) {
  std::set<const recorded_process*> all = {&add(7, 1), &add(8, 2), &add(9, 3)};
  for (int turn = 0; turn < 3; ++turn) EXPECT_EQ(all.erase(&tree_.next()), 1U);
}

TEST_F(process_trees, an_event_is_of_the_next_image_from_its_exec_on) {
  EXPECT_FALSE(tree_.is_of_next_image(7, 100));
  tree_.note_exec(7, 200);
  tree_.note_exec(7, 100);
  EXPECT_FALSE(tree_.is_of_next_image(7, 99));
  EXPECT_TRUE(tree_.is_of_next_image(7, 100));
  EXPECT_EQ(tree_.take_exec(7, 150), 100U);
  EXPECT_FALSE(tree_.is_of_next_image(7, 199));
  EXPECT_EQ(tree_.take_exec(7, 199), 0U) << "the exec is later";
  EXPECT_EQ(tree_.take_exec(7, 300), 200U);
  EXPECT_FALSE(tree_.is_of_next_image(7, 300));
}

TEST_F(process_trees, finds_a_broken_invariant) {
  add(7, 1);
  tree_.validate();
  EXPECT_BROKEN(
      {
        add(8, 1);
        tree_.validate();
      },
      "process_tree", "serial == 0 || serials.insert(serial).second", &tree_);
}

}  // namespace
}  // namespace tarn::profiler
