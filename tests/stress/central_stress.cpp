// SPDX-License-Identifier: MIT
// Several threads take and return objects of one size class of a separate engine: no object is handed out twice, no
// span is lost.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <vector>

#include "../unit/own_engine.hpp"
#include "rounds.hpp"
#include "slots/central.hpp"
#include "slots/free_mark.hpp"
#include "slots/objects.hpp"

namespace tarn {
namespace {

using testing_support::in_threads;
using testing_support::rounds;

constexpr unsigned threads = 6;
constexpr unsigned homes = threads / 2;

class central_stress : public testing::TestWithParam<unsigned> {
 protected:
  // The first word of an object that has an owner: the number of the owner + 1.
  using owner = std::atomic<std::uintptr_t>;

  // Each two threads have the same home. Classes of large objects get a depot for each home.
  void churn(unsigned me) {
    const unsigned c = GetParam();
    std::mt19937 random(me);
    std::vector<void*> mine;
    for (int i = 0; i < rounds(4000); ++i) {
      if (mine.size() < 1000 && random() % 2 == 0) {
        take(c, me, random, mine);
      } else {
        give(c, me, random, mine);
      }
      if (random() % 64 == 0) engine_->central_tier.release_spares(random() % 2 == 0);
      engine_->central_tier.release_surplus(c);
      if (random() % 64 == 0) engine_->central_tier.flush_idle_magazines(random() % 2 == 0);
      if (random() % 64 == 0) engine_->central_tier.purge_idle_pages(random() % 2 == 0);
    }
    while (!mine.empty()) give(c, me, random, mine);
  }

  void take(unsigned c, unsigned me, std::mt19937& random, std::vector<void*>& mine) {
    central& central_tier = engine_->central_tier;
    magazine* m = random() % 4 == 0 ? central_tier.take_full(c, me % homes) : nullptr;
    if (m == nullptr) {
      m = central_tier.magazines().allocate(engine_->metadata, 2);
      const std::size_t most = 1 + random() % class_info(c).magazine;
      m->count = static_cast<std::uint16_t>(central_tier.refill(c, m, most, me % homes));
      if (m->count == 0 || m->count > most) wrong_.fetch_add(1);
    }
    for (std::size_t slot = 1; slot <= m->count; ++slot) {
      if (!free_mark::is_set(engine_->map, c, m->slots[slot])) wrong_.fetch_add(1);
      free_mark::clear(engine_->map, c, m->slots[slot]);
      static_cast<owner*>(m->slots[slot])->store(me + 1);
      mine.push_back(m->slots[slot]);
    }
    dispose(c, me, m);
  }

  // Of an empty magazine.
  void dispose(unsigned c, unsigned me, magazine* m) {
    central& central_tier = engine_->central_tier;
    if (!central_tier.leave_empty(c, m, me % homes)) central_tier.magazines().deallocate(m);
  }

  void give(unsigned c, unsigned me, std::mt19937& random, std::vector<void*>& mine) {
    central& central_tier = engine_->central_tier;
    magazine* const m = central_tier.magazines().allocate(engine_->metadata, 2);
    const std::size_t most = class_info(c).magazine;
    while (m->count < most && !mine.empty()) {
      std::swap(mine[random() % mine.size()], mine.back());
      void* const object = mine.back();
      mine.pop_back();
      if (static_cast<owner*>(object)->exchange(0) != me + 1) wrong_.fetch_add(1);
      free_mark::set(engine_->map, c, object);
      m->slots[++m->count] = object;
    }
    magazine* empty = nullptr;
    if (m->count == most && random() % 4 == 0 && central_tier.give_full(c, m, me % homes, &empty)) {
      if (empty != nullptr) {
        if (empty->count != 0 || empty->capacity < most) wrong_.fetch_add(1);
        central_tier.magazines().deallocate(empty);
      }
      return;
    }
    central_tier.flush(c, m->bottom(), m->count);
    dispose(c, me, m);
  }

  std::unique_ptr<testing_support::own_engine> engine_ = testing_support::make_engine();
  std::atomic<int> wrong_{0};
};

TEST_P(central_stress, nothing_twice_and_nothing_lost) {
  for (unsigned home = 0; home < homes; ++home) engine_->central_tier.homes().enter();
  in_threads(threads, [this](unsigned t) { churn(t); });
  EXPECT_EQ(wrong_.load(), 0) << "objects handed out twice, or a refill of no or too many objects";
  engine_->central_tier.flush_idle_magazines(true);
  engine_->central_tier.release_spares(true);
  EXPECT_EQ(engine_->central_tier.depots().spare_bytes(), 0U);
  EXPECT_EQ(engine_->heap.stats().in_use, 0U) << "a span was lost";
  std::uint64_t made = 0;
  std::uint64_t freed = 0;
  engine_->central_tier.depots().for_each(GetParam(), [&](const slot_depot& d) {
    made += d.counters.spans_made.load();
    freed += d.counters.spans_freed.load();
  });
  EXPECT_EQ(made, freed);
  engine_->heap.validate();
}

INSTANTIATE_TEST_SUITE_P(classes, central_stress,
                         testing::Values(1U, class_of_size(64), class_of_size(1500), class_of_size(20000),
                                         size_classes::count - 1));

}  // namespace
}  // namespace tarn
