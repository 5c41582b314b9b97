// SPDX-License-Identifier: MIT
// Several threads allocate, resize and free spans of one page heap. Another one ages, trims or unmaps its free memory.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "../unit/own_engine.hpp"
#include "os/memory.hpp"
#include "pages/page_heap.hpp"
#include "rounds.hpp"

namespace tarn {
namespace {

using testing_support::in_threads;
using testing_support::rounds;
using source = page_heap::source;
using use = page_heap::use;

struct own_span {
  span* s;
  std::uint64_t stamp;

  void mark() const {
    *reinterpret_cast<std::uint64_t*>(s->start) = stamp;
    *reinterpret_cast<std::uint64_t*>(s->end() - 8) = ~stamp;
  }
  [[nodiscard]] bool intact() const {
    return *reinterpret_cast<std::uint64_t*>(s->start) == stamp &&
           *reinterpret_cast<std::uint64_t*>(s->end() - 8) == ~stamp;
  }
};

class page_heap_stress : public testing::Test {
 protected:
  void churn(unsigned me, int steps) {
    std::mt19937_64 random(me);
    std::vector<own_span> mine;
    for (int i = 0; i < steps; ++i) {
      const auto what = random() % 8;
      if (mine.size() < 10 || (what < 4 && mine.size() < 60)) {
        take(random, mine);
        continue;
      }
      std::swap(mine[random() % mine.size()], mine.back());
      own_span& b = mine.back();
      if (!b.intact()) damaged_.fetch_add(1);
      if (what == 4) {
        heap_.extend(b.s, b.s->pages + 1 + random() % 20);
        b.mark();
      } else if (what == 5 && b.s->pages > 1) {
        heap_.shrink(b.s, 1 + random() % (b.s->pages - 1));
        b.mark();
      } else if (what == 6 && b.s->pages > 3) {
        b.s = split_and_join(b.s);
      } else {
        heap_.deallocate(b.s);
        mine.pop_back();
      }
    }
    for (const own_span& b : mine) {
      if (!b.intact()) damaged_.fetch_add(1);
      heap_.deallocate(b.s);
    }
  }

  void take(std::mt19937_64& random, std::vector<own_span>& mine) {
    const std::size_t pages = 1 + random() % (random() % 8 == 0 ? 700 : 30);
    const std::size_t alignment = random() % 8 == 0 ? std::size_t{1} << (random() % 9) : 1;
    span* const s =
        heap_.allocate(pages, alignment, span_state::large, random() % 2 == 0 ? source::any : source::warm,
                       random() % 2 == 0 ? use::dense : use::sparse);
    if (s == nullptr) return;
    if (s->pages != pages || s->start % (alignment << page_shift) != 0) damaged_.fetch_add(1);
    mine.push_back({s, random()});
    mine.back().mark();
  }

  // As a scope does that cuts spans from its memory and then ends.
  span* split_and_join(span* s) {
    const std::size_t third = s->pages / 3;
    span* const second = heap_.split(s, third);
    span* const last = second != nullptr ? heap_.split(second, third) : nullptr;
    span_run run;
    for (span* const part : {s, second, last}) {
      if (part == nullptr) continue;
      run.add(part);
      std::this_thread::yield();
    }
    return heap_.join(run);
  }

  std::unique_ptr<testing_support::own_engine> engine_ = testing_support::make_engine();
  page_heap& heap_ = engine_->heap;
  std::atomic<int> damaged_{0};
};

// Another thread maps memory all the time, often in the address space that the heap has just unmapped, and checks that
// nobody else writes to it.
TEST_F(page_heap_stress, free_parts_of_reservations_go_and_nothing_reaches_what_is_mapped_there) {
  std::atomic<int> working{4};
  std::atomic<std::size_t> unmapped{0};
  in_threads(6, [&, this](unsigned t) {
    if (t < 4) {
      for (int i = 0; i < 10; ++i) churn(10 * t + i, rounds(6000));
      working.fetch_sub(1);
    }
    while (t == 4 && working.load() != 0) {
      unmapped.fetch_add(heap_.unmap_free(4 * mib));
      heap_.age();
      heap_.validate();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    for (std::uint64_t i = 0; t == 5 && working.load() != 0; ++i) {
      constexpr std::size_t words = mib / sizeof i;
      auto* const foreign = static_cast<std::uint64_t*>(os::map_block(mib, os::system_page_size()));
      if (foreign == nullptr) continue;
      // What the heap's users wrote here before it was unmapped, and will write here later, is ordered by the system calls,
      // which ThreadSanitizer does not see: the heap's lock shows it. Whoever still writes now is found.
      (void)heap_.stats();
      for (std::size_t at = 0; at < words; at += 128) foreign[at] = i;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      for (std::size_t at = 0; at < words; at += 128) {
        if (foreign[at] != i) damaged_.fetch_add(1);
      }
      (void)heap_.stats();
      os::release(foreign, mib);
    }
  });
  EXPECT_EQ(damaged_.load(), 0);
  EXPECT_EQ(heap_.stats().in_use, 0U);
  heap_.trim(0);
  heap_.validate();
  while (const std::size_t bytes = heap_.unmap_free(gib)) unmapped.fetch_add(bytes);
  EXPECT_NE(unmapped.load(), 0U);
  EXPECT_EQ(heap_.stats().reserved, 0U);
}

TEST_F(page_heap_stress, spans_do_not_overlap_and_figures_add_up) {
  heap_.limits().set_most_free(16 * mib);
  std::atomic<int> working{4};
  in_threads(5, [this, &working](unsigned t) {
    if (t < 4) {
      churn(t, rounds(60000));
      working.fetch_sub(1);
      return;
    }
    for (int i = 0; working.load() != 0; ++i) {
      if (i % 4 == 0) {
        heap_.trim(mib);
      } else {
        heap_.age();
      }
      heap_.validate();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_EQ(damaged_.load(), 0);
  EXPECT_EQ(heap_.stats().in_use, 0U);
  heap_.trim(0);
  const page_heap_stats s = heap_.stats();
  EXPECT_EQ(s.free_dirty, 0U);
  EXPECT_EQ(s.reserved, s.free_clean);
  heap_.validate();
}

}  // namespace
}  // namespace tarn
