// SPDX-License-Identifier: MIT
// heap_samples: places of sampled blocks, what is known of them, and its invariants.
#include "samples/followed/heap_samples.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "broken_invariant.hpp"
#include "own_engine.hpp"
#include "slots/size_class.hpp"

namespace tarn {

class heap_samples_test_access {
 public:
  static std::atomic<std::size_t>& live_count(heap_samples& s) { return s.live_count_; }
  static sample_owner* owners(heap_samples& s) { return s.owners_; }
  static sample_cells* roomy(heap_samples& s) { return s.roomy_.front(); }
};

namespace {

using access = heap_samples_test_access;

struct heap_samples_test : testing::Test {
  std::unique_ptr<testing_support::own_engine> engine = testing_support::make_engine();
  std::unique_ptr<heap_samples> samples =
      std::make_unique<heap_samples>(engine->metadata, engine->map, engine->central_tier);
  byte_samples chosen;

  heap_samples_test() { chosen.set_mean(512 * kib); }

  char* allocate(std::size_t size) { return static_cast<char*>(samples->allocate(chosen, size, size)); }
  span* span_of(const void* block) { return engine->map.span_of(address_of(block)); }
  std::size_t size_of(const void* block) { return samples->size_of(span_of(block), block); }
  std::size_t deallocate(void* block) { return samples->deallocate(span_of(block), block); }
  void check() {
    os::lock_guard guard(samples->lock());
    samples->validate_locked();
  }
  site_figures sum() {
    site_figures all;
    samples->for_each_site([&](const call_site& s) {
      all.bytes += s.figures.bytes;
      all.live_bytes += s.figures.live_bytes;
      all.samples += s.figures.samples;
      all.live_samples += s.figures.live_samples;
    });
    return all;
  }
};

TEST_F(heap_samples_test, every_class_has_its_size_and_alignment) {
  std::vector<char*> blocks;
  for (unsigned c = 1; c < size_classes::count; ++c) {
    const std::size_t size = class_info(c).size;
    for (int i = 0; i < 3; ++i) {
      char* const block = allocate(size);
      ASSERT_NE(block, nullptr);
      const std::size_t alignment = std::min<std::size_t>(size & (~size + 1), page_size);
      EXPECT_EQ(address_of(block) % alignment, 0U) << size;
      EXPECT_EQ(engine->map.class_of(address_of(block)), 0U);
      EXPECT_EQ(engine->map.class_of(address_of(block + size - 1)), 0U);
      EXPECT_TRUE(heap_samples::has(span_of(block)));
      EXPECT_EQ(size_of(block), size);
      std::memset(block, static_cast<int>(c), size);
      blocks.push_back(block);
    }
  }
  check();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::size_t size = class_info(static_cast<unsigned>(1 + i / 3)).size;
    EXPECT_EQ(blocks[i][0], static_cast<char>(1 + i / 3)) << "another block was written here";
    EXPECT_EQ(blocks[i][size - 1], static_cast<char>(1 + i / 3));
    EXPECT_EQ(deallocate(blocks[i]), size);
  }
  check();
  EXPECT_EQ(samples->live_count(), 0U);
  EXPECT_EQ(sum().live_bytes, 0U);
  EXPECT_EQ(engine->heap.in_use_bytes(), sample_cells::span_pages << page_shift)
      << "one span of cells is kept";
}

TEST_F(heap_samples_test, a_pointer_that_is_no_block_has_no_size_and_is_not_freed) {
  char* const small = allocate(100);
  char* const large = allocate(100000);
  for (char* const block : {small, large}) {
    for (const std::ptrdiff_t distance : {1, 8, 64, 4096}) {
      if (span_of(block + distance) == nullptr) continue;
      EXPECT_EQ(size_of(block + distance), 0U);
      EXPECT_EQ(deallocate(block + distance), 0U);
    }
    span* const s = span_of(block);
    EXPECT_NE(samples->deallocate(s, block), 0U);
    EXPECT_EQ(samples->deallocate(s, block), 0U) << "freed twice";
  }
}

TEST_F(heap_samples_test, small_blocks_share_spans) {
  std::vector<char*> blocks;
  for (int i = 0; i < 5000; ++i) blocks.push_back(allocate(48));
  EXPECT_LE(engine->heap.in_use_bytes(), 5000 * sample_cells::cell_bytes * 11 / 10 + 2 * 32 * kib);
  std::shuffle(blocks.begin(), blocks.end(), std::minstd_rand(1));
  for (char* block : blocks) EXPECT_EQ(deallocate(block), 48U);
  EXPECT_LE(engine->heap.in_use_bytes(), 32 * kib);
  check();
}

TEST_F(heap_samples_test, mixed_sizes_in_random_order) {
  std::minstd_rand random(1);
  std::vector<std::pair<char*, std::size_t>> live;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0 || live.empty()) {
      const std::size_t size = class_info(1 + static_cast<unsigned>(random() % 60)).size;
      char* const block = allocate(size);
      ASSERT_NE(block, nullptr);
      std::memset(block, static_cast<int>(size % 251), size);
      live.emplace_back(block, size);
    } else {
      std::swap(live[random() % live.size()], live.back());
      const auto [block, size] = live.back();
      live.pop_back();
      ASSERT_EQ(block[0], static_cast<char>(size % 251));
      ASSERT_EQ(block[size - 1], static_cast<char>(size % 251));
      ASSERT_EQ(deallocate(block), size);
    }
  }
  EXPECT_EQ(samples->live_count(), live.size());
  EXPECT_EQ(sum().live_samples, live.size());
  check();
  for (const auto& [block, size] : live) EXPECT_EQ(deallocate(block), size);
  check();
}

TEST_F(heap_samples_test, a_block_weighs_what_it_stands_for) {
  char* const small = allocate(64);
  EXPECT_NEAR(static_cast<double>(sum().live_bytes), 512 * 1024, 64)
      << "a small block stands for the mean distance";
  deallocate(small);
  chosen.set_mean(1);
  char* const certain = allocate(64);
  EXPECT_EQ(sum().live_bytes, 64U) << "every block is sampled";
  deallocate(certain);
}

TEST_F(heap_samples_test, without_a_mean_there_is_no_block) {
  chosen.set_mean(0);
  EXPECT_EQ(allocate(64), nullptr);
}

TEST_F(heap_samples_test, a_large_block_keeps_its_sample_in_its_span) {
  span* const s = engine->central_tier.take_pages(100, 1, span_state::large, page_heap::use::sparse);
  s->owner.store(nullptr);
  samples->remove_large(s);
  samples->add_large(chosen, s, 800000, s->bytes());
  EXPECT_EQ(samples->live_count(), 1U);
  EXPECT_GE(sum().live_bytes, s->bytes());
  samples->remove_large(s);
  EXPECT_EQ(samples->live_count(), 0U);
  samples->remove_large(s);
  check();
}

TEST_F(heap_samples_test, an_owner_hands_its_live_samples_over) {
  sample_owner from;
  sample_owner to;
  const auto allocate_for = [&](sample_owner& owner) { return samples->allocate(chosen, 100, 112, &owner); };
  const auto handed_over = [&] {
    std::vector<std::uintptr_t> seen;
    samples->hand_over(from, to, [&seen](const live_sample& s) { seen.push_back(s.address); });
    check();
    return seen;
  };
  char* const of_nobody = allocate(100);
  void* const of_heir = allocate_for(to);
  EXPECT_TRUE(handed_over().empty());
  void* const freed = allocate_for(from);
  void* const survivor = allocate_for(from);
  live_sample* const large = samples->add(chosen, 64 * mib, mib, mib, &from);
  check();
  EXPECT_EQ(samples->live_count(), 5U);
  deallocate(freed);
  EXPECT_EQ(handed_over(), (std::vector<std::uintptr_t>{large->address, address_of(survivor)}));
  EXPECT_TRUE(handed_over().empty());
  EXPECT_EQ(from.first, nullptr);
  std::size_t live = 0;
  samples->for_each_live([&live](const live_sample&) { ++live; });
  EXPECT_EQ(live, 4U);
  samples->remove(large);
  for (void* const block : {static_cast<void*>(of_nobody), of_heir, survivor})
    EXPECT_NE(deallocate(block), 0U);
  EXPECT_EQ(samples->live_count(), 0U);
  EXPECT_EQ(to.first, nullptr);
  check();
}

TEST_F(heap_samples_test, finds_a_broken_invariant) {
  static_cast<void>(allocate(64));
  ++access::live_count(*samples);
  EXPECT_BROKEN(check(), "heap_samples", "live == live_count()", samples.get());
  --access::live_count(*samples);
  sample_owner* const owner = access::owners(*samples);
  live_sample* const live = owner->first;
  live->previous = live;
  EXPECT_BROKEN(check(), "heap_samples", "chain::is_linked(o->first, s) && s->owner == o", live);
  live->previous = nullptr;
  live->owner = nullptr;
  EXPECT_BROKEN(check(), "heap_samples", "chain::is_linked(o->first, s) && s->owner == o", live);
  live->owner = owner;
  owner->first = nullptr;
  EXPECT_BROKEN(check(), "heap_samples", "chain::is_linked(owners_, o) && o->first != nullptr", owner);
  owner->first = live;
  sample_cells* const cells = access::roomy(*samples);
  cells->first[0] = nullptr;
  EXPECT_BROKEN(check(), "heap_samples", "cells->first[at] == s && cells->is_taken(at)", live);
  cells->first[0] = live;
  ++cells->free_cells;
  EXPECT_BROKEN(check(), "heap_samples", "c->bits_set() + c->free_cells == sample_cells::count", cells);
  --cells->free_cells;
  live->taken += sample_cells::cell_bytes;
  EXPECT_BROKEN(check(), "heap_samples", "of_blocks == c->bits_set()", cells);
  live->taken -= sample_cells::cell_bytes;
  cells->is_listed = false;
  EXPECT_BROKEN(check(), "heap_samples", "c->is_listed", cells);
  cells->is_listed = true;
  --live->site->figures.live_samples;
  EXPECT_BROKEN(check(), "heap_samples", "of_sites == live", samples.get());
}

}  // namespace
}  // namespace tarn
