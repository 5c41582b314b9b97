// SPDX-License-Identifier: MIT
#include "samples/followed/black_box.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../../../folder_test.hpp"
#include "base/units.hpp"
#include "samples/followed/call_sites.hpp"

namespace tarn {
namespace {

struct found_record {
  box_record::content kind;
  std::string content;
};

class black_box_test : public testing_support::folder_test {
 protected:
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path());
    return names;
  }
  static std::string content_of(const std::string& path) {
    std::string bytes(std::filesystem::file_size(path), '\0');
    std::ifstream(path, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }
  static std::vector<found_record> records_in(const std::string& bytes) {
    std::vector<found_record> all;
    for (std::size_t at = align_up(sizeof(box_header), box_unit); at + box_unit <= bytes.size();) {
      std::uint32_t head[2];
      std::memcpy(head, bytes.data() + at, sizeof head);
      if (head[1] == 0) break;
      all.push_back(
          {static_cast<box_record::content>(head[0]), bytes.substr(at + box_unit, head[1] - box_unit)});
      at += head[1];
    }
    return all;
  }

  // A site at a path of this program, as call_sites makes it.
  struct own_site {
    std::uintptr_t path[64];
    call_site site;

    explicit own_site(std::uint32_t number, std::uint32_t frames = 3) {
      for (std::uint32_t i = 0; i < frames; ++i) path[i] = here() + 1 + i;
      site.frames = path;
      site.count = frames;
      site.number = number;
    }
  };
  static std::uintptr_t here() { return reinterpret_cast<std::uintptr_t>(&records_in); }
  static bool write(black_box& box, call_site& site) {
    box.prepare();
    return box.write(site, true);
  }
  static box_site copy_of(const found_record& record) {
    box_site copy;
    std::memcpy(&copy, record.content.data(), sizeof copy);
    return copy;
  }
};

TEST_F(black_box_test, what_is_written_is_in_the_file) {
  black_box box;
  ASSERT_TRUE(box.open(folder_.c_str()));
  box.note_mean(1000);
  box.note_change({10, 20, 30}, 500, 7);
  box.note_change({10, 20, 30}, -200, 3);
  own_site one(1);
  ASSERT_TRUE(write(box, one.site));
  one.site.figures.live_bytes = 77;
  ASSERT_TRUE(write(box, one.site));
  ASSERT_EQ(files().size(), 1U);
  const std::string bytes = content_of(files().front());
  ASSERT_EQ(bytes.size(), most_box_bytes);
  box_header head;
  std::memcpy(&head, bytes.data(), sizeof head);
  EXPECT_EQ(std::memcmp(head.magic, box_magic, sizeof head.magic), 0);
  EXPECT_EQ(head.process, static_cast<std::uint64_t>(getpid()));
  EXPECT_EQ(head.mean, 1000U);
  EXPECT_EQ(head.heap_free, 20U);
  EXPECT_EQ(head.sampled_change, 300);
  EXPECT_EQ(head.change_variance, 10);
  EXPECT_NE(std::string(head.program).find("_tests"), std::string::npos);
  const std::vector<found_record> records = records_in(bytes);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].kind, box_record::content::module);
  EXPECT_EQ(records[1].kind, box_record::content::site);
  box_module module;
  std::memcpy(&module, records[0].content.data(), sizeof module);
  EXPECT_LE(module.start, here());
  EXPECT_GT(module.end, here());
  EXPECT_EQ(module.path_length, 0U);
  EXPECT_EQ(copy_of(records[1]).live_bytes, 77U);
  EXPECT_EQ(copy_of(records[1]).count, 3U);
}

TEST_F(black_box_test, it_goes_with_a_process_that_ends_well) {
  for (const int status : {3, 0}) {
    const pid_t child = fork();
    if (child == 0) {
      black_box box;
      const bool is_open = box.open(folder_.c_str());
      box.end(status);
      _exit(is_open ? 0 : 1);
    }
    int ended = 0;
    waitpid(child, &ended, 0);
    EXPECT_EQ(ended, 0);
    EXPECT_EQ(files().size(), 1U) << status;
  }
}

// As what another user's image has left in a sticky folder.
TEST_F(black_box_test, what_cannot_be_removed_keeps_its_name) {
  {
    black_box first;
    ASSERT_TRUE(first.open(folder_.c_str()));
  }
  const std::string taken = files().front();
  std::filesystem::remove(taken);
  std::filesystem::create_directory(taken);
  black_box box;
  ASSERT_TRUE(box.open(folder_.c_str()));
  const std::string made = taken.substr(0, taken.size() - 4) + "-1.box";
  EXPECT_TRUE(std::filesystem::is_regular_file(made)) << made;
  box.end(0);
  EXPECT_FALSE(std::filesystem::exists(made));
  EXPECT_TRUE(std::filesystem::is_directory(taken));
}

TEST_F(black_box_test, a_full_box_says_so) {
  black_box box;
  ASSERT_TRUE(box.open(folder_.c_str()));
  own_site one(1, 64);
  std::size_t count = 0;
  for (; write(box, one.site); ++count) one.site.box_epoch = 0;  // as another site
  EXPECT_GT(count * (sizeof(box_site) + 64 * sizeof(std::uintptr_t)), most_box_bytes * 8 / 10);
  EXPECT_EQ(records_in(content_of(files().front())).size(), count + 1);
  EXPECT_FALSE(write(box, one.site));
}

TEST_F(black_box_test, the_newest_figures_are_whole) {
  black_box box;
  ASSERT_TRUE(box.open(folder_.c_str()));
  EXPECT_TRUE(box.take_due_figures());
  EXPECT_FALSE(box.take_due_figures()) << "within a second";
  const auto newest = [this] {
    const std::string bytes = content_of(files().front());
    box_header head;
    std::memcpy(&head, bytes.data(), sizeof head);
    const std::size_t which = (head.figures_written - 1) % 2;
    return bytes.substr(box_figures_at + which * box_figures_room, head.figures[which].bytes);
  };
  for (const std::size_t length : {std::size_t{5}, 70 * kib, std::size_t{0}, box_figures_room, 3 * kib}) {
    const std::string text(length, static_cast<char>('a' + length % 7));
    box.write_figures(text);
    EXPECT_EQ(newest(), text);
  }
  box.write_figures(std::string(box_figures_room + 1, 'x'));
  EXPECT_EQ(newest(), std::string(box_figures_room, 'x'));
}

TEST_F(black_box_test, a_child_makes_its_own) {
  black_box box;
  ASSERT_TRUE(box.open(folder_.c_str()));
  own_site one(1);
  one.site.figures.live_bytes = 5;
  ASSERT_TRUE(write(box, one.site));
  const pid_t child = fork();
  if (child == 0) {
    one.site.figures.live_bytes = 6;
    const bool nothing = box.write(one.site, true);  // before prepare(): it has none yet
    box.prepare();
    const bool own = box.write(one.site, false);  // its module is the parent's
    _exit(nothing && own && box.epoch() == 2 ? 0 : 1);
  }
  int ended = 0;
  waitpid(child, &ended, 0);
  EXPECT_EQ(ended, 0);
  ASSERT_EQ(files().size(), 2U);
  for (const std::string& path : files()) {
    const bool is_childs = path.find("/" + std::to_string(child) + "-") != std::string::npos;
    const auto records = records_in(content_of(path));
    ASSERT_EQ(records.size(), 2U);
    EXPECT_EQ(copy_of(records[1]).live_bytes, is_childs ? 6U : 5U);
  }
}

TEST_F(black_box_test, a_child_that_may_not_make_one_is_silent) {
  black_box box;
  ASSERT_TRUE(box.open(folder_.c_str()));
  std::filesystem::remove_all(folder_);
  const pid_t child = fork();
  if (child == 0) {
    own_site one(1);
    const bool ignored = write(box, one.site);
    _exit(ignored && !box.is_wanted() ? 0 : 1);
  }
  int ended = 0;
  waitpid(child, &ended, 0);
  EXPECT_EQ(ended, 0);
}

TEST_F(black_box_test, without_a_folder_there_is_none) {
  black_box box;
  EXPECT_FALSE(box.open("/nowhere"));
  EXPECT_FALSE(box.is_wanted());
  own_site one(1);
  EXPECT_TRUE(box.write(one.site, true));
  box.end(0);
}

}  // namespace
}  // namespace tarn
