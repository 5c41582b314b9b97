// SPDX-License-Identifier: MIT
// ring_set: which ring each stream decodes, and in which order events and faults reach the model.
#include "profiler/collect/ring_set.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "../../unit/broken_invariant.hpp"

namespace tarn::profiler {

class ring_set_test_access {
 public:
  static void swap_rings(ring_set& set) { std::swap(set.rings_[0], set.rings_[1]); }
  static void drop_memory(ring_set& set) { set.memory_.reset(); }
};

namespace {

constexpr std::uint32_t ring_words = 4096;

class no_modules final : public module_sink {
 public:
  void loaded(loaded_elf /*library*/) override {}
  void add_script_line(std::uint64_t /*address*/, const source_frame& /*line*/) override {}
};

// The memory file of a process that has taken two rings. Null: the system has no sealed files.
class ring_sets : public testing::Test {
 protected:
  void SetUp() override {
    const int file = memfd_create("ring_set_test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const std::uint64_t bytes = process_file_bytes(2, ring_words);
    if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0 &&
        fcntl(file, F_ADD_SEALS, process_seals) == 0) {
      memory_ = process_memory::map(file, ring_words);
      void* there = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (there != MAP_FAILED) page_ = static_cast<process_page*>(there);
    }
    if (file >= 0) close(file);
    if (memory_ == nullptr || page_ == nullptr) GTEST_SKIP() << "the system has no sealed files";
    page_->rings = 2;
  }

  const tick_clock clock_{tick_source::system_clock};
  process_model model_{model_settings{}};
  no_modules sink_;
  std::unique_ptr<process_memory> memory_;
  process_page* page_ = nullptr;  // as the process has it
};

TEST_F(ring_sets, finds_a_broken_invariant) {
  ring_set rings(std::move(memory_), model_, clock_, sink_, 0);
  rings.find_rings();
  rings.validate();
  ring_set_test_access::swap_rings(rings);
  EXPECT_BROKEN(rings.validate(), "ring_set", "rings_[i].stream.words() == memory_->words(i)", &rings);
  ring_set_test_access::swap_rings(rings);
  ring_set_test_access::drop_memory(rings);
  EXPECT_BROKEN(rings.validate(), "ring_set", "rings_.empty() || memory_ != nullptr", &rings);
}

TEST_F(ring_sets, a_fault_waits_until_its_time) {
  ring_set rings(std::move(memory_), model_, clock_, sink_, 1000);
  for (const std::uint64_t time_ns : {3000U, 1500U}) {
    page_fault fault;
    fault.time_ns = time_ns;
    rings.add(std::move(fault));
  }
  EXPECT_FALSE(rings.drain(2000, [] {}));
  EXPECT_EQ(model_.seen_faults(), 1);
  rings.drain(3000, [] {});
  EXPECT_EQ(model_.seen_faults(), 2);
}

TEST_F(ring_sets, a_head_that_no_recorder_writes_is_told) {
  ring_set rings(std::move(memory_), model_, clock_, sink_, 0);
  rings.find_rings();
  rings.drain(1, [] {});
  EXPECT_FALSE(rings.is_overwritten());
  EXPECT_TRUE(rings.refusals().empty());
  rings.memory()->ring(1).head = ring_words + 1;
  rings.drain(1, [] {});
  EXPECT_TRUE(rings.is_overwritten());
  EXPECT_EQ(rings.refusals().size(), 1U);
}

// What is read is given back before the process may use it again. It keeps the page that it writes to.
TEST_F(ring_sets, memory_of_words_that_were_read_is_given_back) {
  const auto page_words = static_cast<std::uint64_t>(getpagesize()) / 8;
  if (ring_words / page_words < 8) GTEST_SKIP() << "a page holds too much of a ring";
  ring_set rings(std::move(memory_), model_, clock_, sink_, 0);
  rings.find_rings();
  auto* words = reinterpret_cast<std::uint64_t*>(reinterpret_cast<char*>(page_) + words_offset) + ring_words;
  std::uint64_t head = 0;
  const auto tell = [&](std::uint64_t count) {
    for (const std::uint64_t end = head + count; head < end; ++head)
      words[head % ring_words] = static_cast<std::uint64_t>(word_kind::time) | head << kind_bits;
    rings.memory()->ring(1).head = head;
    rings.drain(1, [] {});
  };
  const auto resident = [&] {
    unsigned char states[ring_words / 512] = {};
    EXPECT_EQ(mincore(words, ring_words * 8, states), 0);
    return std::count(std::begin(states), std::end(states), 1);
  };
  tell(3 * page_words + 1);
  EXPECT_EQ(rings.memory()->ring(1).tail, 3 * page_words);
  EXPECT_EQ(resident(), 1);
  tell(page_words - 2);
  EXPECT_EQ(rings.memory()->ring(1).tail, 3 * page_words) << "a page that is not read to its end";
  EXPECT_EQ(words[head - 1] & 15, static_cast<std::uint64_t>(word_kind::time));
  tell(ring_words - page_words);
  EXPECT_EQ(rings.memory()->ring(1).tail, ring_words + 2 * page_words) << "across the end of the ring";
  EXPECT_EQ(resident(), 1);
  EXPECT_FALSE(rings.is_overwritten());
}

TEST_F(ring_sets, what_a_process_does_not_tell_is_a_sentence_each) {
  page_->unread_scripts = unread_python | unread_lua;
  page_->silent_because = silence::strict_mode;
  ring_set rings(std::move(memory_), model_, clock_, sink_, 0);
  EXPECT_EQ(rings.refusals().size(), 3U);
  rings.close();
  EXPECT_TRUE(rings.refusals().empty());
  EXPECT_EQ(rings.page(), nullptr);
}

}  // namespace
}  // namespace tarn::profiler
