// SPDX-License-Identifier: MIT
// call_sites: each path once, the bound, and figures.
#include "samples/followed/call_sites.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "broken_invariant.hpp"

namespace tarn {

class call_sites_test_access {
 public:
  static std::size_t& count(call_sites& sites) { return sites.count_; }
};

namespace {

struct call_sites_test : testing::Test {
  metadata_arena metadata;
  std::unique_ptr<call_sites> sites = std::make_unique<call_sites>();

  call_site* get(const std::vector<std::uintptr_t>& frames) {
    const std::uint64_t hash = call_sites::hash_of(frames.data(), frames.size());
    bool can_add = false;
    if (call_site* const found = sites->find(hash, frames.data(), frames.size(), can_add)) return found;
    if (!can_add) return sites->other();
    return sites->add(sites->prepare(metadata, frames.size()), hash, frames.data(), frames.size());
  }
};

TEST_F(call_sites_test, a_path_has_one_site) {
  call_site* const one = get({1, 2, 3});
  EXPECT_EQ(get({1, 2, 3}), one);
  EXPECT_NE(get({1, 2}), one);
  EXPECT_NE(get({3, 2, 1}), one);
  EXPECT_NE(get({}), one);
  EXPECT_EQ(get({}), get({}));
  EXPECT_EQ(sites->count(), 4U);
  EXPECT_EQ(one->count, 3U);
  EXPECT_EQ(one->frames[2], 3U);
  sites->validate();
}

TEST_F(call_sites_test, paths_beyond_the_bound_share_a_site) {
  for (std::uintptr_t i = 0; i < call_sites::most_sites; ++i) EXPECT_NE(get({i, i * 16}), sites->other());
  EXPECT_EQ(get({1, 2, 3, 4}), sites->other());
  EXPECT_EQ(get({5}), sites->other());
  EXPECT_EQ(get({7, 7 * 16})->number, 8U) << "those in the table are still found";
  EXPECT_EQ(sites->count(), call_sites::most_sites);
  sites->validate();
  std::size_t visited = 0;
  sites->for_each([&](const call_site& s) { EXPECT_EQ(s.number, visited++); });
  EXPECT_EQ(visited, call_sites::most_sites + 1);
}

TEST_F(call_sites_test, figures_of_blocks_that_come_and_go) {
  site_figures f;
  f.note_allocated(4096, 100);
  f.note_allocated(2 * 4096, 300);
  f.note_freed(4096, 100, 2000000000);
  EXPECT_EQ(f.blocks, 3U * 4096);
  EXPECT_EQ(f.bytes, 400U);
  EXPECT_EQ(f.live_blocks, 2U * 4096);
  EXPECT_EQ(f.live_bytes, 300U);
  EXPECT_EQ(f.live_samples, 1U);
  EXPECT_EQ(f.samples, 2U);
  EXPECT_NEAR(f.lifetime_seconds, 2, 1e-9);
  EXPECT_EQ(f.lifetimes[31], 1U) << "2 s are between 2^30 and 2^31 ns";
  f.note_freed(2 * 4096, 300, ~std::uint64_t{0});
  EXPECT_EQ(f.lifetimes[site_figures::lifetime_classes - 1], 1U);
}

// A block that is a sample for sure is exact, beside others that stand for many.
TEST_F(call_sites_test, variances_are_those_of_each_size) {
  site_figures f;
  f.note_allocated(4096, 300'000'000);
  EXPECT_EQ(f.bytes_variance, 0);
  f.note_allocated(500 * 4096, 500 * 1000);
  f.note_allocated(500 * 4096, 500 * 1000);
  EXPECT_NEAR(f.blocks_variance, 2 * 500 * 499, 1e-6);
  EXPECT_NEAR(f.bytes_variance, 2 * 1e6 * 500 * 499, 1);
  f.note_freed(500 * 4096, 500 * 1000, 1);
  EXPECT_NEAR(f.live_bytes_variance, 1e6 * 500 * 499, 1);
  EXPECT_NEAR(f.bytes_variance, 2 * 1e6 * 500 * 499, 1);
  f.note_freed(500 * 4096, 500 * 1000, 1);
  f.note_freed(4096, 300'000'000, 1);
  EXPECT_EQ(f.live_bytes_variance, 0);
}

TEST_F(call_sites_test, finds_a_broken_invariant) {
  call_site* const one = get({1, 2, 3});
  one->figures.live_bytes = 5;
  EXPECT_BROKEN(sites->validate(), "call_sites", "f.live_blocks <= f.blocks && f.live_bytes <= f.bytes", one);
  one->figures.live_bytes = 0;
  one->figures.live_samples = 1;
  EXPECT_BROKEN(sites->validate(), "call_sites", "f.live_samples <= f.samples", one);
  one->figures.live_samples = 0;
  ++one->hash;
  EXPECT_BROKEN(sites->validate(), "call_sites", "finds(*site)", one);
  --one->hash;
  call_sites_test_access::count(*sites) = call_sites::most_sites + 1;
  EXPECT_BROKEN(sites->validate(), "call_sites", "count_ <= most_sites", sites.get());
}

}  // namespace
}  // namespace tarn
