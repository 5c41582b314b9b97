// SPDX-License-Identifier: MIT
// Which files of recorded processes the collector maps: only those that stay as long as they are.
#include "profiler/collect/process_memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace tarn::profiler {
namespace {

constexpr std::uint32_t words_of_a_ring = 1024;

class made_file {
 public:
  explicit made_file(std::uint64_t bytes, int seals = process_seals)
      : file_(memfd_create("tarn-test", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    EXPECT_EQ(ftruncate(file_, static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(fcntl(file_, F_ADD_SEALS, seals), 0);
  }
  ~made_file() { close(file_); }
  made_file(const made_file&) = delete;
  made_file& operator=(const made_file&) = delete;

  std::unique_ptr<process_memory> mapped() const { return process_memory::map(file_, words_of_a_ring); }

 private:
  int file_;
};

TEST(process_memory, a_sealed_file_of_whole_rings_is_mapped) {
  const made_file file(process_file_bytes(3, words_of_a_ring));
  const auto memory = file.mapped();
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory->rings(), 0U);
  EXPECT_EQ(memory->words(2) - memory->words(0), 2 * std::ptrdiff_t{words_of_a_ring});
  EXPECT_FALSE(memory->waits_at_end());
  EXPECT_EQ(memory->lost_events(), 0);
}

TEST(process_memory, a_file_that_may_shrink_or_grow_is_not) {
  for (const int seals : {0, F_SEAL_SHRINK, F_SEAL_GROW})
    EXPECT_EQ(made_file(process_file_bytes(1, words_of_a_ring), seals).mapped(), nullptr) << seals;
}

TEST(process_memory, a_file_of_another_length_is_not) {
  const std::uint64_t one = process_file_bytes(1, words_of_a_ring);
  for (const std::uint64_t bytes : {std::uint64_t{0}, one - 8 * words_of_a_ring, one - 1, one + 1, one + 8})
    EXPECT_EQ(made_file(bytes).mapped(), nullptr) << bytes;
}

TEST(process_memory, a_file_on_a_disk_and_no_file_are_not) {
  std::string path = (std::filesystem::temp_directory_path() / "tarn-test-XXXXXX").string();
  const int file = mkstemp(path.data());
  ASSERT_GE(file, 0);
  unlink(path.c_str());
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(process_file_bytes(1, words_of_a_ring))), 0);
  EXPECT_EQ(process_memory::map(file, words_of_a_ring), nullptr) << "it cannot be sealed";
  close(file);
  EXPECT_EQ(process_memory::map(-1, words_of_a_ring), nullptr);
}

// The process may write any number.
TEST(process_memory, there_are_as_many_rings_as_the_file_has_room_for) {
  const auto memory = made_file(process_file_bytes(3, words_of_a_ring)).mapped();
  ASSERT_NE(memory, nullptr);
  auto& page = const_cast<process_page&>(memory->page());
  page.rings = 2;
  EXPECT_EQ(memory->rings(), 2U);
  page.rings = 0xffffffff;
  EXPECT_EQ(memory->rings(), 3U);
  page.lost_waiting = 1;
  page.lost_nested = 2;
  page.lost_threads = 4;
  EXPECT_EQ(memory->lost_events(), 3) << "threads are no events";
  const std::vector<std::string> losses = memory->losses();
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_TRUE(losses[0].starts_with("1 event was lost")) << losses[0];
  EXPECT_TRUE(losses[1].starts_with("4 threads were not recorded, as there is room for")) << losses[1];
  page.ended = ended_and_waits;
  EXPECT_TRUE(memory->waits_at_end());
}

}  // namespace
}  // namespace tarn::profiler
