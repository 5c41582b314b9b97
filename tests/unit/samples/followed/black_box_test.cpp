// SPDX-License-Identifier: MIT
#include "samples/followed/black_box.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "../../../folder_test.hpp"
#include "base/units.hpp"

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
  static call_site* add_site(black_box& box, std::uint64_t number, std::size_t frames = 3) {
    std::uintptr_t path[64];
    for (std::size_t i = 0; i < frames; ++i) path[i] = reinterpret_cast<std::uintptr_t>(&add_site) + 1 + i;
    void* const memory = box.reserve_site(sizeof(call_site) + frames * sizeof(std::uintptr_t), path, frames);
    if (memory == nullptr) return nullptr;
    auto* const site = new (memory) call_site;
    site->count = static_cast<std::uint32_t>(frames);
    site->number = static_cast<std::uint32_t>(number);
    std::memcpy(site + 1, path, frames * sizeof(std::uintptr_t));
    box.publish_site(site);
    return site;
  }
};

TEST_F(black_box_test, what_is_published_is_in_the_file) {
  black_box box;
  ASSERT_TRUE(box.open(folder_.c_str()));
  box.note_mean(1000);
  box.note_heap({10, 20, 30});
  add_site(box, 1)->figures.live_bytes = 77;
  box.other_site()->figures.live_bytes = 88;
  ASSERT_EQ(files().size(), 1U);
  const std::string bytes = content_of(files().front());
  ASSERT_EQ(bytes.size(), most_box_bytes);
  box_header head;
  std::memcpy(static_cast<void*>(&head), bytes.data(), sizeof head);
  EXPECT_EQ(std::memcmp(head.magic, box_magic, sizeof head.magic), 0);
  EXPECT_EQ(head.process, static_cast<std::uint64_t>(getpid()));
  EXPECT_EQ(head.mean, 1000U);
  EXPECT_EQ(head.heap_free, 20U);
  EXPECT_EQ(head.other.figures.live_bytes, 88U);
  EXPECT_NE(std::string(head.program).find("_tests"), std::string::npos);
  const std::vector<found_record> records = records_in(bytes);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].kind, box_record::content::module);
  EXPECT_EQ(records[1].kind, box_record::content::site);
  box_module module;
  std::memcpy(&module, records[0].content.data(), sizeof module);
  const auto here = reinterpret_cast<std::uintptr_t>(&add_site);
  EXPECT_LE(module.start, here);
  EXPECT_GT(module.end, here);
  EXPECT_EQ(module.path_length, 0U);
  call_site site;
  std::memcpy(static_cast<void*>(&site), records[1].content.data(), sizeof site);
  EXPECT_EQ(site.figures.live_bytes, 77U);
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

TEST_F(black_box_test, a_full_box_says_so) {
  black_box box;
  ASSERT_TRUE(box.open(folder_.c_str()));
  std::size_t count = 0;
  while (add_site(box, count, 64) != nullptr) ++count;
  EXPECT_GT(count * (sizeof(call_site) + 64 * sizeof(std::uintptr_t)), most_box_bytes * 9 / 10);
  EXPECT_EQ(records_in(content_of(files().front())).size(), count + 1);
  EXPECT_EQ(add_site(box, 0, 64), nullptr);
}

TEST_F(black_box_test, threads_fill_it_together) {
  black_box box;
  ASSERT_TRUE(box.open(folder_.c_str()));
  constexpr std::uint64_t each = 1000;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&box, t] {
      for (std::uint64_t i = 0; i < each; ++i) add_site(box, t * each + i + 1, i % 40);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<bool> is_there(4 * each + 1);
  for (const found_record& record : records_in(content_of(files().front()))) {
    ASSERT_NE(record.kind, box_record::content::none);
    if (record.kind != box_record::content::site) continue;
    call_site site;
    std::memcpy(static_cast<void*>(&site), record.content.data(), sizeof site);
    ASSERT_LE(site.number, 4 * each);
    EXPECT_FALSE(is_there[site.number]);
    is_there[site.number] = true;
  }
  EXPECT_EQ(std::count(is_there.begin(), is_there.end(), true), static_cast<std::ptrdiff_t>(4 * each));
}

TEST_F(black_box_test, a_child_leaves_its_parents) {
  black_box box;
  ASSERT_TRUE(box.open(folder_.c_str()));
  call_site* const site = add_site(box, 1);
  site->figures.live_bytes = 5;
  const pid_t child = fork();
  if (child == 0) {
    box.note_forked_child();
    box.leave_parents();
    site->figures.live_bytes = 6;
    const bool can_add = add_site(box, 2) != nullptr;
    _exit(can_add ? 0 : 1);
  }
  int ended = 0;
  waitpid(child, &ended, 0);
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(site->figures.live_bytes, 5U);
  ASSERT_EQ(files().size(), 2U);
  for (const std::string& path : files()) {
    const bool is_childs = path.find("/" + std::to_string(child) + "-") != std::string::npos;
    const auto records = records_in(content_of(path));
    ASSERT_EQ(records.size(), is_childs ? 3U : 2U);
    call_site copy;
    std::memcpy(static_cast<void*>(&copy), records[1].content.data(), sizeof copy);
    EXPECT_EQ(copy.figures.live_bytes, is_childs ? 6U : 5U);
  }
}

TEST_F(black_box_test, without_a_folder_there_is_none) {
  black_box box;
  EXPECT_FALSE(box.open("/nowhere"));
  EXPECT_FALSE(box.is_open());
  box.publish_site(nullptr);
  box.end(0);
}

}  // namespace
}  // namespace tarn
