// SPDX-License-Identifier: MIT
// fill_evidence: samples of each length, what a filled and an unfilled one change, and the bounds of trust.
#include "pages/fill_evidence.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <random>
#include <vector>

namespace tarn {

class fill_evidence_test_access {
 public:
  static std::uintptr_t sample(fill_evidence& evidence, std::size_t bytes) {
    return evidence.record_of(bytes).sample.load();
  }
};

namespace {

constexpr std::size_t length = 256 * kib;

class fill_evidence_test : public testing::Test {
 protected:
  ~fill_evidence_test() override { munmap(memory_, bytes_); }

  // The next fresh span: asks, and tells of it. `part` of 8 of its pages are written.
  bool hand_out(std::size_t heap_bytes, std::size_t part, std::size_t of_length = length) {
    const bool foreseen = evidence_.foresees(of_length, heap_bytes);
    char* const start = memory_ + used_;
    used_ += of_length;
    evidence_.note_fresh(reinterpret_cast<std::uintptr_t>(start), of_length, foreseen);
    for (std::size_t page = 0; page < of_length / page_size; ++page) {
      if (page % 8 < part) std::memset(start + page * page_size, 1, page_size);
    }
    return foreseen;
  }

  std::size_t bytes_ = 512 * mib;
  char* memory_ = static_cast<char*>(
      mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  std::size_t used_ = 0;
  fill_evidence evidence_;
};

TEST_F(fill_evidence_test, samples_in_a_row_must_be_filled) {
  for (unsigned i = 0; i < fill_evidence::first_streak; ++i) EXPECT_FALSE(hand_out(mib, 8)) << "a sample";
  EXPECT_TRUE(hand_out(mib, 8)) << "the samples were filled";
  EXPECT_FALSE(hand_out(mib, 8)) << "in a small heap a sample stands for one span";
  EXPECT_TRUE(hand_out(mib, 8));
}

TEST_F(fill_evidence_test, a_span_that_is_not_filled_stands_for_nothing) {
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(hand_out(gib, 7));
}

TEST_F(fill_evidence_test, trust_doubles_up_to_an_eighth_of_the_heap) {
  constexpr std::size_t heap = 64 * length;
  std::vector<int> between;
  int foreseen = 0;
  for (int i = 0; i < 80; ++i) {
    if (hand_out(heap, 8)) {
      ++foreseen;
    } else {
      between.push_back(foreseen);
      foreseen = 0;
    }
  }
  const std::vector<int> expected{0, 0, 0, 0, 2, 4, 8, 8, 8, 8, 8};
  between.resize(expected.size());
  EXPECT_EQ(between, expected);
}

TEST_F(fill_evidence_test, a_program_that_stops_filling_is_given_no_more_than_an_eighth_of_the_heap) {
  constexpr std::size_t heap = 64 * length;
  for (int i = 0; i < 30; ++i) hand_out(heap, 8);
  int too_early = 0;
  for (int i = 0; i < 100; ++i) too_early += hand_out(heap, 0) ? 1 : 0;
  EXPECT_LE(too_early, 8 + 8) << "what was left, and what the last filled sample gave";
  EXPECT_GT(too_early, 0);
}

// Connections that fill one of three buffers: of 800 spans, those that are prepared and not filled are few.
TEST_F(fill_evidence_test, a_program_that_fills_some_spans_only_gets_few_prepared) {
  std::mt19937 random(7);
  int too_early = 0;
  for (int i = 0; i < 800; ++i) {
    const bool fills = random() % 2 == 0;
    too_early += hand_out(gib, fills ? 8 : 1) && !fills ? 1 : 0;
  }
  EXPECT_LE(too_early, 40);
}

TEST_F(fill_evidence_test, after_a_disappointment_twice_as_many_samples_must_be_filled) {
  for (unsigned i = 0; i < fill_evidence::first_streak; ++i) hand_out(mib, 8);
  EXPECT_TRUE(hand_out(mib, 8));
  EXPECT_FALSE(hand_out(mib, 0)) << "this sample is not filled";
  unsigned samples = 0;
  while (!hand_out(mib, 8) && samples < 100) ++samples;
  EXPECT_EQ(samples, 1 + 2 * fill_evidence::first_streak) << "one passes, then the samples";
}

TEST_F(fill_evidence_test, after_samples_that_were_not_filled_fewer_spans_are_samples) {
  std::vector<int> samples;
  for (int i = 0; i < 200; ++i) {
    const auto start = reinterpret_cast<std::uintptr_t>(memory_ + used_);
    hand_out(gib, 0);
    if (fill_evidence_test_access::sample(evidence_, length) == start) samples.push_back(i);
  }
  EXPECT_EQ(samples, (std::vector<int>{0, 2, 6, 14, 30, 62, 126, 190}));
}

TEST_F(fill_evidence_test, each_power_of_two_is_judged_by_itself) {
  for (unsigned i = 0; i < fill_evidence::first_streak; ++i) {
    hand_out(gib, 8, 96 * kib);
    EXPECT_FALSE(hand_out(gib, 0, 512 * kib));
  }
  EXPECT_FALSE(hand_out(gib, 0, 512 * kib));
  EXPECT_TRUE(hand_out(gib, 8, 96 * kib));
  EXPECT_TRUE(hand_out(gib, 8, 64 * kib));
}

TEST_F(fill_evidence_test, spans_that_are_too_long_are_never_foreseen) {
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(hand_out(gib, 8, fill_evidence::longest + page_size));
}

TEST_F(fill_evidence_test, a_sample_that_is_no_longer_mapped_stands_for_nothing) {
  void* const gone = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(gone, 1, length);
  evidence_.note_fresh(reinterpret_cast<std::uintptr_t>(gone), length, false);
  munmap(gone, length);
  EXPECT_FALSE(evidence_.foresees(length, gib));
}

}  // namespace
}  // namespace tarn
