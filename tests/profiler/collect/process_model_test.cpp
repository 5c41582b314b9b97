// SPDX-License-Identifier: MIT
// Figures that the model computes from hand-made events, in mode full and in mode sample.
#include "profiler/collect/process_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "../../unit/broken_invariant.hpp"
#include "profiler/model/packed_sites.hpp"
#include "profiler/record/session.hpp"

namespace tarn::profiler {

class process_model_test_access {
 public:
  static site_table& sites(process_model& model) { return model.sites_; }
  static double& live(process_model& model) { return model.sites_.live_; }
  static double& live_bytes(process_model& model) { return model.sites_.live_bytes_; }
};

}  // namespace tarn::profiler

namespace {

using namespace tarn::profiler;

constexpr std::uint32_t thread_id = 100;

model_settings exact() { return {.malloc_pair_ns = 10, .join_faults = true, .most_events = 1000}; }

allocation_event allocation(std::uint64_t time, std::uint64_t address, std::uint64_t size,
                            std::uint32_t node) {
  return {.time_ns = time, .address = address, .size = size, .node = node};
}

release_event release(std::uint64_t time, std::uint64_t address) {
  return {.time_ns = time, .address = address};
}

fault_event fault(std::uint64_t time, std::uint64_t address) {
  return {.time_ns = time, .address = address, .thread = thread_id};
}

const site_figures& figures_of(const profile& p, std::uint32_t node) {
  for (const site& one : p.sites) {
    if (one.stack == node) return one.figures;
  }
  ADD_FAILURE() << "no site " << node;
  return p.sites.front().figures;
}

// A model with a thread and two call paths.
struct recorded : process_model {
  explicit recorded(const model_settings& settings)
      : process_model(settings), thread(begin_thread(thread_id, 0)), a(node(0, 0x1000)), b(node(0, 0x2000)) {}

  void allocates(std::uint64_t time, std::uint64_t address, std::uint64_t size, std::uint32_t path,
                 const call_duration& took = {}) {
    allocation_event event = allocation(time, address, size, path);
    event.took = took;
    allocated(thread, event);
  }
  void frees_at(std::uint64_t time, std::uint64_t address) { freed(thread, release(time, address)); }
  profile filled() {
    profile p;
    fill(p);
    return p;
  }
  site_figures figures(std::uint32_t path) { return figures_of(filled(), path); }

  const std::uint32_t thread;
  const std::uint32_t a;
  const std::uint32_t b;
};

TEST(process_model, nodes_are_one_per_path) {
  process_model model(exact());
  const std::uint32_t outer = model.node(0, 0x1000);
  const std::uint32_t inner = model.node(outer, 0x2000);
  EXPECT_EQ(model.node(0, 0x1000), outer);
  EXPECT_EQ(model.node(outer, 0x2000), inner);
  EXPECT_NE(model.node(0, 0x2000), inner);
  for (std::uint64_t address = 1; address < 5000; ++address) model.node(inner, address);
  EXPECT_EQ(model.node(outer, 0x2000), inner);
  EXPECT_EQ(model.node(77777777, 0x1000), outer) << "an unknown parent counts as the empty path";
}

TEST(process_model, counts_peak_and_what_lives_at_it) {
  recorded model(exact());
  model.allocates(10, 0x10000, 100, model.a);
  model.allocates(20, 0x20000, 50, model.b);  // the peak: 150
  model.frees_at(30, 0x10000);
  model.allocates(40, 0x30000, 80, model.b);
  model.frees_at(50, 0x20000);
  const site_figures first = model.figures(model.a);
  const site_figures second = model.figures(model.b);
  EXPECT_EQ(first.bytes_at_peak, 100);
  EXPECT_EQ(second.bytes_at_peak, 50);
  EXPECT_EQ(second.peak_bytes, 130);
  EXPECT_EQ(second.live_bytes, 80);
  EXPECT_EQ(first.lifetime_ns, 20);
  EXPECT_EQ(first.malloc_ns, 10);
  EXPECT_EQ(first.lifo_frees, 0) << "0x20000 was allocated later and still lives";
}

// Marks at 10, 20, 40, 80, …: of those that are kept, the one is used that leaves half of the time or more.
TEST(process_model, what_lived_at_a_mark_tells_what_has_grown_since) {
  recorded model(exact());
  for (std::uint64_t time = 10; time <= 100; time += 10) {
    model.allocates(time, 0x10000 * time, time == 50 ? 7000 : 1, time == 50 ? model.b : model.a);
    model.pass_time(time);
    if (time == 90) {
      EXPECT_EQ(model.mark_ns(), 40U);
      EXPECT_EQ(model.figures(model.a).earlier_live_bytes, 4);
      EXPECT_EQ(model.figures(model.b).earlier_live_bytes, 0);
    }
  }
  for (const std::uint64_t time : {159U, 160U}) model.pass_time(time);
  EXPECT_EQ(model.mark_ns(), 80U);
  EXPECT_EQ(model.figures(model.a).earlier_live_bytes, 7);
  EXPECT_EQ(model.figures(model.b).earlier_live_bytes, 7000);
}

TEST(process_model, faults_belong_to_the_block_that_lives_there_at_that_time) {
  recorded model(exact());
  model.allocates(10, 0x100000, 8192, model.a);
  model.fault(fault(15, 0x100500));
  model.frees_at(20, 0x100000);
  model.allocates(30, 0x100000, 8192, model.b);
  model.fault(fault(35, 0x101500));
  model.fault(fault(36, 0x500000));  // nothing lives there
  // A fault within malloc, before the allocation's event: it belongs to that block.
  model.fault(fault(40, 0x700008));
  model.allocates(41, 0x700010, 100, model.a);
  // The same, but the allocation is another thread's: the fault belongs to no site.
  model.fault(fault(50, 0x900008));
  const std::uint32_t other = model.begin_thread(thread_id + 1, 45);
  model.allocated(other, allocation(51, 0x900010, 100, model.a));
  model.finish_events();
  const profile p = model.filled();
  EXPECT_EQ(figures_of(p, model.a).faults, 2);
  EXPECT_EQ(figures_of(p, model.b).faults, 1);
  EXPECT_EQ(p.other_faults, 2);
  EXPECT_EQ(model.seen_faults(), 5);
}

TEST(process_model, realloc_moves_a_block_and_may_fail) {
  recorded model(exact());
  model.allocates(10, 0x10000, 100, model.a);
  model.realloc_begins(model.thread, release(20, 0x10000));
  model.realloc_ends(model.thread, allocation(21, 0, 1000, model.b), true);  // failed
  EXPECT_EQ(model.live_bytes(), 100);
  model.realloc_begins(model.thread, release(30, 0x10000));
  model.realloc_ends(model.thread, allocation(31, 0x20000, 300, model.b), true);
  const profile p = model.filled();
  EXPECT_EQ(figures_of(p, model.a).reallocs, 1);
  EXPECT_EQ(figures_of(p, model.a).realloc_bytes, 100);
  EXPECT_EQ(figures_of(p, model.a).live, 0);
  EXPECT_EQ(figures_of(p, model.b).live_bytes, 300);
  model.realloc_begins(model.thread, release(40, 0x20000));
  model.realloc_ends(model.thread, allocation(41, 0, 0, model.b), true);  // realloc(p, 0)
  EXPECT_EQ(model.live_blocks(), 0);
}

// A signal handler that calls realloc while the same thread is in realloc.
TEST(process_model, a_realloc_whose_end_is_not_recorded_has_freed_its_block) {
  recorded model(exact());
  model.allocates(10, 0x10000, 100, model.a);
  model.allocates(11, 0x20000, 200, model.b);
  model.realloc_begins(model.thread, release(20, 0x10000));
  model.realloc_begins(model.thread, release(21, 0x20000));
  model.realloc_ends(model.thread, allocation(22, 0x30000, 300, model.b), true);
  EXPECT_EQ(model.live_blocks(), 1);
  EXPECT_EQ(model.live_bytes(), 300);
  EXPECT_EQ(model.frees(), 2);
  EXPECT_EQ(model.odd_events(), 1);
  model.validate();
}

TEST(process_model, a_failed_realloc_of_a_block_whose_place_is_taken_has_freed_it) {
  recorded model(exact());
  model.allocates(10, 0x10000, 100, model.a);
  model.realloc_begins(model.thread, release(20, 0x10000));
  model.allocates(21, 0x10000, 200, model.b);
  model.realloc_ends(model.thread, allocation(22, 0, 1000, model.a), true);
  EXPECT_EQ(model.live_blocks(), 1);
  EXPECT_EQ(model.live_bytes(), 200);
  EXPECT_EQ(model.odd_events(), 1);
  model.validate();
}

TEST(process_model, finds_a_broken_invariant) {
  using access = process_model_test_access;
  recorded model(exact());
  model.allocates(10, 0x10000, 100, model.a);
  model.allocates(11, 0x20000, 200, model.b);
  model.realloc_begins(model.thread, release(20, 0x10000));
  site_table& sites = access::sites(model);
  model.validate();
  ++access::live(model);
  EXPECT_BROKEN(model.validate(), "process_model",
                "std::abs(live_blocks() - blocks) <= rounding * (1 + allocations_)", &model);
  --access::live(model);
  --access::live_bytes(model);
  EXPECT_BROKEN(model.validate(), "process_model",
                "std::abs(live_bytes() - bytes) <= rounding * (1 + bytes_)", &model);
  ++access::live_bytes(model);
  ++sites[0].figures.live;
  EXPECT_BROKEN(model.validate(), "site_table", "std::abs(live_ - site_blocks) <= rounding * (1 + blocks)",
                &sites);
  --sites[0].figures.live;
  --sites[1].figures.live_bytes;
  EXPECT_BROKEN(model.validate(), "site_table",
                "std::abs(live_bytes_ - site_bytes) <= rounding * (1 + bytes)", &sites);
  ++sites[1].figures.live_bytes;
  model.validate();
}

TEST(process_model, samples_stand_for_many) {
  model_settings settings = exact();
  settings.full = false;
  settings.sample_bytes = 1000;
  recorded model(settings);
  model.allocates(10, 0x10000, 100, model.a);
  model.allocates(11, 0x200000, 1 << 20, model.a);
  const double weight = 1 / (1 - std::exp(-static_cast<double>(countdown_of(100)) / 1000));
  EXPECT_NEAR(model.figures(model.a).allocations, weight + 1, 1e-9);
  EXPECT_NEAR(model.figures(model.a).bytes, 100 * weight + (1 << 20), 1e-6);
  EXPECT_EQ(model.figures(model.a).samples, 2);
}

TEST(process_model, a_site_whose_samples_are_all_freed_holds_nothing) {
  model_settings settings = exact();
  settings.full = false;
  settings.sample_bytes = 1000;
  recorded model(settings);
  constexpr std::uint64_t blocks = 50;
  for (std::uint64_t block = 1; block <= blocks; ++block)
    model.allocates(block, 0x10000 * block, 16 + 7 * block, model.a);
  for (std::uint64_t block = 1; block <= blocks; ++block) model.frees_at(100 + block, 0x10000 * block);
  EXPECT_EQ(model.figures(model.a).live, 0) << "not even the rounding of the sums";
  EXPECT_EQ(model.figures(model.a).live_bytes, 0);
  model.validate();
}

// The distance grows while the process allocates: each block counts by the distance at which it was sampled, from its
// allocation to its free.
TEST(process_model, each_sample_stands_for_as_many_as_at_its_own_distance) {
  model_settings settings = exact();
  settings.full = false;
  settings.sample_bytes = 32000;
  settings.first_halvings = 5;
  recorded model(settings);
  const auto at_distance = [&model](std::uint64_t time, std::uint64_t address, std::uint8_t halvings) {
    allocation_event event = allocation(time, address, 100, model.a);
    event.halvings = halvings;
    model.allocated(model.thread, event);
  };
  const auto weight = [](double distance) {
    return 1 / (1 - std::exp(-static_cast<double>(countdown_of(100)) / distance));
  };
  at_distance(10, 0x10000, 5);
  EXPECT_NEAR(model.figures(model.a).bytes_variance, 1e4 * weight(1000) * (weight(1000) - 1) + 1000.0 * 1000,
              1e-3)
      << "one sample more, at the distance of now";
  at_distance(11, 0x20000, 0);
  EXPECT_NEAR(model.figures(model.a).live, weight(1000) + weight(32000), 1e-9);
  model.frees_at(12, 0x10000);
  EXPECT_NEAR(model.figures(model.a).allocations, weight(1000) + weight(32000), 1e-9);
  EXPECT_NEAR(model.figures(model.a).frees, weight(1000), 1e-9);
  EXPECT_NEAR(model.figures(model.a).live, weight(32000), 1e-9);
  EXPECT_GT(model.figures(model.a).bytes_variance, 32000.0 * 32000);
  model.validate();
}

// As the recorder draws: the mean distance depends on the samples before. The sums stay unbiased, and their margins hold.
TEST(process_model, sums_are_right_while_the_distance_grows) {
  model_settings settings = exact();
  settings.full = false;
  settings.sample_bytes = 1 << 16;
  settings.first_halvings = 5;
  constexpr std::uint64_t blocks = 200'000, size = 64, before_doubling = 64;
  std::mt19937_64 random(1);
  double sum = 0;
  int within = 0;
  constexpr int rounds = 100;
  for (int round = 0; round < rounds; ++round) {
    recorded model(settings);
    std::uint64_t drawn = 0, halvings = 0;
    const auto draw = [&] {
      halvings = std::max<std::uint64_t>(5, drawn / before_doubling) - drawn / before_doubling;
      ++drawn;
      return std::exponential_distribution<double>(1 /
                                                   std::ldexp(65536, -static_cast<int>(halvings)))(random);
    };
    double left = draw();
    for (std::uint64_t block = 0; block < blocks; ++block) {
      left -= static_cast<double>(countdown_of(size));
      if (left >= 0) continue;
      allocation_event event = allocation(block + 1, 0x100000 + size * block, size, model.a);
      event.halvings = static_cast<std::uint8_t>(halvings);
      model.allocated(model.thread, event);
      left = draw();
    }
    const site_figures figures = model.figures(model.a);
    sum += figures.allocations;
    within += std::abs(figures.allocations - blocks) < 1.96 * std::sqrt(figures.allocations_variance) ? 1 : 0;
    EXPECT_LT(1.96 * std::sqrt(figures.allocations_variance), 0.25 * blocks);
  }
  EXPECT_NEAR(sum / rounds, blocks, 0.02 * blocks);
  EXPECT_GE(within, 90);
}

TEST(process_model, mappings_are_unmapped_in_parts) {
  recorded model(exact());
  model.mapped(model.thread, 1, 0x100000, 0x10000, model.a);
  model.unmapped(model.thread, 2, 0x104000, 0x4000);
  for (const std::uint64_t address : {0x103fff, 0x104000, 0x107fff, 0x108000}) model.fault(fault(3, address));
  EXPECT_EQ(model.figures(model.a).faults, 2);
  EXPECT_EQ(model.figures(model.a).mapped_bytes, 0x10000);
}

using region = std::tuple<std::uint64_t, std::uint64_t>;

std::vector<region> regions_of(const process_model& model) {
  std::vector<region> regions;
  model.for_each_region(
      [&](std::uint64_t start, std::uint64_t end, std::uint32_t) { regions.emplace_back(start, end); });
  return regions;
}

TEST(process_model, a_refused_unmap_leaves_what_was_there) {
  recorded model(exact());
  model.mapped(model.thread, 1, 0x100000, 0x4000, model.a);
  model.mapped(model.thread, 2, 0x104000, 0x4000, model.a);
  model.unmapped(model.thread, 3, 0x102000, 0x4000);
  model.unmap_refused(model.thread, 3, 0x102000);
  for (const std::uint64_t address : {0x101000, 0x102000, 0x105000, 0x107000}) model.fault(fault(4, address));
  EXPECT_EQ(figures_of(model.filled(), model.a).faults, 4);
  const table events = model.take_events();
  EXPECT_EQ(events.whole("kind"), (integers{7, 7, 8, 8, 7, 7}))
      << "a reader of the rows has both mappings again";
  EXPECT_EQ(events.whole("block"), (integers{1, 2, 1, 2, 1, 2}));
}

TEST(process_model, a_mapping_that_came_during_a_refused_unmap_stays) {
  recorded model(exact());
  model.mapped(model.thread, 1, 0x100000, 0x10000, model.a);
  model.unmapped(model.thread, 2, 0x100000, 0x10000);
  model.mapped(model.begin_thread(101, 0), 3, 0x104000, 0x1000, model.b);  // with MAP_FIXED
  model.unmap_refused(model.thread, 2, 0x100000);
  EXPECT_EQ(regions_of(model),
            (std::vector<region>{{0x100000, 0x104000}, {0x104000, 0x105000}, {0x105000, 0x110000}}));
  model.fault(fault(4, 0x104000));
  EXPECT_EQ(figures_of(model.filled(), model.b).faults, 1);
}

TEST(process_model, a_refusal_of_another_unmap_changes_nothing) {
  recorded model(exact());
  model.mapped(model.thread, 1, 0x100000, 0x10000, model.a);
  model.unmapped(model.thread, 2, 0x100000, 0x10000);
  model.unmap_refused(model.thread, 2, 0x200000);
  model.unmap_refused(model.thread, 2, 0);
  EXPECT_EQ(regions_of(model), std::vector<region>{});
  model.mapped(model.thread, 3, 0x100000, 0x10000, model.a);
  model.unmapped(model.thread, 4, 0x100000, 0x10000);
  model.unmap_refused(model.thread, 4, 0x100000);
  model.unmapped(model.thread, 5, 0x100000, 0x4000);
  model.unmap_refused(model.thread, 5, 0x100000);
  model.unmap_refused(model.thread, 5, 0x100000);  // a process may say so twice
  EXPECT_EQ(regions_of(model), (std::vector<region>{{0x100000, 0x104000}, {0x104000, 0x110000}}));
}

TEST(process_model, events_distinguish_mappings) {
  recorded model(exact());
  model.mapped(model.thread, 1, 0x100000, 0x10000, model.a);
  model.mapped(model.thread, 2, 0x200000, 0x4000, model.a);
  model.unmapped(model.thread, 3, 0x104000, 0x4000);
  model.unmapped(model.thread, 4, 0x100000, 0x200000);  // what is left of the first one, and the second
  const table events = model.take_events();
  const integers& kind = events.whole("kind");
  const integers& block = events.whole("block");
  const integers& size = events.whole("size");
  EXPECT_EQ(kind, (integers{7, 7, 8, 8, 8, 8}));
  EXPECT_EQ(block, (integers{1, 2, 1, 1, 1, 2}));
  EXPECT_EQ(size, (integers{0x10000, 0x4000, 0x4000, 0x4000, 0x8000, 0x4000}));
}

TEST(process_model, blocks_freed_together_are_a_batch_whatever_their_sites_are) {
  recorded model(exact());
  std::uint64_t time = 0;
  for (int tree = 0; tree < 3; ++tree) {
    for (std::uint64_t i = 1; i <= 4; ++i) {
      model.allocates(++time, 0x10000 * i, 100, model.a);
      model.allocates(++time, 0x10000 * i + 0x8000, 30, model.b);
    }
    for (std::uint64_t i = 1; i <= 4; ++i) {
      model.frees_at(++time, 0x10000 * i + 0x8000);
      model.frees_at(++time, 0x10000 * i);
    }
  }
  EXPECT_EQ(model.figures(model.a).batch_frees, 12);
  EXPECT_EQ(model.figures(model.b).batch_frees, 12);
}

TEST(process_model, few_frees_of_many_blocks_and_single_frees_are_no_batch) {
  recorded model(exact());
  std::uint64_t time = 0;
  for (std::uint64_t i = 1; i <= 100; ++i) model.allocates(++time, 0x10000 * i, 100, model.a);
  for (std::uint64_t i = 1; i <= 3; ++i) model.frees_at(++time, 0x10000 * i);
  for (std::uint64_t i = 0; i < 10; ++i) {
    model.allocates(++time, 0x10000000, 100, model.b);
    model.frees_at(++time, 0x10000000);
  }
  EXPECT_EQ(model.figures(model.a).batch_frees, 0);
  EXPECT_EQ(model.figures(model.b).batch_frees, 0);
}

TEST(process_model, a_child_is_added_to_its_parent) {
  process_model parent(exact());
  process_model child(exact());
  const std::uint32_t thread = parent.begin_thread(thread_id, 0);
  const std::uint32_t a = parent.node(parent.node(0, 0x1000), 0x2000);
  parent.allocated(thread, allocation(1, 0x10000, 10, a));
  const std::uint32_t other = child.begin_thread(thread_id + 1, 0);
  const std::uint32_t same = child.node(child.node(0, 0x1000), 0x2000);
  child.allocated(other, allocation(1, 0x10000, 30, same));
  child.set_lost({0, 1, 30, 1, 30});
  parent.absorb(child);
  profile p;
  parent.fill(p);
  EXPECT_EQ(figures_of(p, a).allocations, 2);
  EXPECT_EQ(figures_of(p, a).bytes, 40);
  EXPECT_EQ(figures_of(p, a).live_bytes, 10) << "blocks that live when the child ends are not counted";
  EXPECT_EQ(figures_of(p, a).lost + figures_of(p, a).indirect_bytes, 0) << "nor those that it has lost";
  EXPECT_EQ(parent.allocations(), 2);
}

TEST(process_model, an_allocation_at_address_0_is_ignored) {
  process_model model(exact());
  const std::uint32_t thread = model.begin_thread(thread_id, 0);
  model.allocated(thread, allocation(10, 0, 100, model.node(0, 0x1000)));
  model.freed(thread, release(20, 0));
  model.finish_events();
  profile p;
  model.fill(p);
  EXPECT_TRUE(p.sites.empty());
}

TEST(process_model, an_allocation_at_the_address_of_a_living_block_replaces_it) {
  recorded model(exact());
  model.allocates(1, 0x10000, 10, model.a);
  model.allocates(2, 0x10000, 20, model.a);
  EXPECT_EQ(model.odd_events(), 1);
  EXPECT_EQ(model.live_bytes(), 20);
}

// A hostile process can fill a ring with beginnings of threads, of one word each, in no time.
TEST(process_model, numbers_of_threads_and_of_pairs_of_threads_are_limited) {
  process_model model(exact());
  const std::uint32_t node = model.node(0, 0x1000);
  for (std::uint32_t id = 1; id < 300'000; ++id) {
    const std::uint32_t thread = model.begin_thread(id, id);
    if (id > 20'000) continue;
    model.allocated(thread, allocation(id, 0x10000, 16, node));
    model.freed(thread, release(id, 0x10000));
  }
  profile p;
  model.fill(p);
  EXPECT_EQ(p.threads.size(), std::size_t{1} << 18);
  ASSERT_EQ(p.sites.size(), 1U);
  EXPECT_EQ(p.sites[0].figures.frees, 20'000);
  EXPECT_LE(p.sites[0].threads.size(), 4096U);
}

// A service with a thread for each request, whose last block another thread frees.
TEST(process_model, many_threads_that_have_ended_share_a_row) {
  model_settings settings = exact();
  settings.most_events = 0;
  process_model model(settings);
  const std::uint32_t node = model.node(0, 0x1000);
  const std::uint32_t lasting = model.begin_thread(1, 1);
  model.name_thread(lasting, "main");
  constexpr std::uint32_t requests = 20'000;
  for (std::uint32_t id = 2; id < 2 + requests; ++id) {
    const std::uint32_t thread = model.begin_thread(id, id);
    model.allocated(thread, allocation(id, 0x10000, 16, node));
    model.freed(thread, release(id, 0x10000));
    if (id > 2000) model.freed(lasting, release(id, 0x20000 + (id - 2000) * 16));
    model.allocated(thread, allocation(id, 0x20000 + id * 16, 16, node));
    model.end_thread(thread, id);
  }
  profile p;
  model.fill(p);
  EXPECT_EQ(p.threads.size(), 1024U);
  EXPECT_EQ(p.threads[lasting].name, "main");
  const auto joined = std::find_if(p.threads.begin(), p.threads.end(),
                                   [](const thread_info& one) { return one.name.starts_with('['); });
  ASSERT_NE(joined, p.threads.end());
  EXPECT_EQ(joined->name, "[" + std::to_string(model.joined_threads()) + " threads that have ended]");
  EXPECT_GT(model.joined_threads(), requests - 2 * 1024);
  EXPECT_EQ(joined->start_ns, 2U);
  const site& all = p.sites.at(0);
  double own = 0;
  double foreign = 0;
  for (const thread_pair& pair : all.threads) (pair.from == pair.to ? own : foreign) += pair.count;
  EXPECT_EQ(own, requests);
  EXPECT_EQ(foreign, requests - 2000);
  EXPECT_EQ(all.figures.foreign_frees, foreign);
  EXPECT_LT(all.threads.size(), 3 * 1024U);
}

TEST(process_model, threads_keep_their_rows_while_events_name_them) {
  process_model model(exact());
  for (std::uint32_t id = 1; id <= 5000; ++id) model.end_thread(model.begin_thread(id, id), id);
  EXPECT_EQ(model.joined_threads(), 0U);
  model.drop_events();
  model.begin_thread(6000, 6000);
  EXPECT_EQ(model.joined_threads(), 5000U);
}

TEST(process_model, the_number_of_call_paths_is_limited) {
  process_model model(exact());
  std::uint32_t node = 0;
  for (std::uint64_t address = 1; address < 5'000'000; ++address) node = model.node(0, address);
  EXPECT_EQ(model.stacks().size(), (std::size_t{1} << 22) + (std::size_t{1} << 16));
  EXPECT_EQ(node, 0U);
  // A path that is not kept any more ends where it ended, and has no callers.
  EXPECT_EQ(model.node(5, 7), 7U);
}

// All that is allocated at more call paths than a profile holds is counted, in a profile that can be written.
TEST(process_model, the_number_of_sites_is_limited) {
  constexpr std::uint64_t paths = site_table::most_sites + 1000;
  recorded model(exact());
  for (std::uint64_t path = 0; path < paths; ++path)
    model.allocates(path + 1, 0x100000 + 64 * path, 64, model.node(model.node(0, 100 + path), 50));
  EXPECT_EQ(model.without_callers(), 1000);
  profile p;
  model.fill(p);
  ASSERT_EQ(p.sites.size(), site_table::most_sites + 1);
  EXPECT_EQ(p.stacks[p.sites.back().stack].address, 50U);
  EXPECT_EQ(p.stacks[p.sites.back().stack].parent, 0U);
  EXPECT_EQ(p.sites.back().figures.allocations, 1000);
  p.sites.resize(site_table::most_sites + (std::size_t{1} << 16) + 1);
  packed_sites rows(true);
  EXPECT_NO_THROW(rows.add(p.sites, true));
}

model_settings sampled() {
  model_settings settings = exact();
  settings.full = false;
  settings.sample_bytes = 64 << 10;
  return settings;
}

// A heap that grows by blocks of 64 bytes, some of which are sampled. Its page faults are one for each page, as the
// kernel counted them, and not one for each block.
TEST(process_model, faults_of_small_sampled_blocks_are_those_of_their_pages) {
  recorded model(sampled());
  constexpr std::uint64_t size = 64;
  constexpr std::uint64_t blocks = 400'000;
  constexpr double pages = static_cast<double>(size) * blocks / 4096;
  std::uint64_t seed = 1;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const std::uint64_t address = 0x100000 + size * block;
    const std::uint64_t time = 1000 * (block + 1);
    if (address % 4096 == 0) model.fault(fault(time - 600, address));
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    if ((seed >> 33) % 512 != 0) continue;  // 128 bytes of 64 KiB
    model.allocates(time, address, size, model.a, {true, true, false, 800});
  }
  // The same addresses again: their pages are not fresh any more.
  for (std::uint64_t block = 0; block < blocks; block += 900) {
    const std::uint64_t address = 0x100000 + size * block;
    model.allocates(1000 * (2 * blocks + block), address, size, model.a);
  }
  const profile p = model.filled();
  const site_figures& figures = figures_of(p, model.a);
  const double margin = 1.96 * std::sqrt(figures.faults_variance);
  EXPECT_NEAR(figures.faults, pages, margin);
  EXPECT_LT(margin, 0.15 * pages);
  EXPECT_LE(figures.faults + p.other_faults, pages * 1.0001);
}

TEST(process_model, estimates_do_not_exceed_all_faults) {
  recorded model(sampled());
  for (std::uint64_t block = 0; block < 100; ++block) {
    const std::uint64_t address = 0x100000 + 4096 * block;
    model.fault(fault(100 * block, address));
    model.allocates(100 * block + 10, address, 4096, model.a);
  }
  const profile p = model.filled();
  EXPECT_DOUBLE_EQ(figures_of(p, model.a).faults, 100);
  EXPECT_DOUBLE_EQ(p.other_faults, 0);
}

TEST(process_model, faults_far_from_sampled_blocks_are_of_no_site) {
  recorded model(sampled());
  for (std::uint64_t block = 0; block < 100; ++block) {
    const std::uint64_t address = 0x10000000 + 4096 * block;
    if (block < 10) model.fault(fault(100 * block, address));
    model.fault(fault(100 * block + 1, 0x7fff00000000 + 4096 * block));  // a stack, a file
    model.allocates(100 * block + 10, address, 4096, model.a);
  }
  const profile p = model.filled();
  EXPECT_DOUBLE_EQ(figures_of(p, model.a).faults, 10);
  EXPECT_DOUBLE_EQ(p.other_faults, 100);
}

// Few blocks on fresh pages are sampled, so the sum of their estimates differs from the known number of faults, which
// counts.
TEST(process_model, sampled_blocks_get_all_faults_of_the_memory_around_them) {
  recorded model(sampled());
  for (std::uint64_t at = 0; at < 60; ++at) model.fault(fault(10 * at, 0x100000 + 4096 * at));
  model.allocates(600, 0x100000 + 59 * 4096, 64, model.a);
  const profile p = model.filled();
  EXPECT_DOUBLE_EQ(figures_of(p, model.a).faults, 60);
  EXPECT_DOUBLE_EQ(p.other_faults, 0);
  EXPECT_GT(figures_of(p, model.a).faults_variance, 0);
}

// A heap of 10 pages was backed before the first sample, whose block lies on a page of another life of the heap: which
// of the faults were the heap's is not known.
TEST(process_model, faults_before_the_first_sample_may_be_a_sites) {
  recorded model(sampled());
  for (std::uint64_t at = 0; at < 30; ++at) model.fault(fault(10 * at, 0x7fff00000000 + 4096 * at));
  model.allocates(600, 0x100000, 64, model.a);
  const profile p = model.filled();
  EXPECT_DOUBLE_EQ(figures_of(p, model.a).faults, 0);
  EXPECT_DOUBLE_EQ(p.other_faults, 30);
  EXPECT_GE(1.96 * std::sqrt(figures_of(p, model.a).faults_variance), 10);
  EXPECT_GE(1.96 * std::sqrt(other_faults_variance(p)), 10);
  EXPECT_LT(1.96 * std::sqrt(other_faults_variance(p)), 40) << "no more than the pages between two samples";
}

// Of a page a block takes what malloc rounds it up to, with a header: 32 bytes for 16, 64 for 48.
TEST(process_model, blocks_share_a_page_by_the_space_that_they_take) {
  recorded model(sampled());
  model.fault(fault(1, 0x100000));
  model.fault(fault(2, 0x200000));
  allocation_event one = allocation(3, 0x100010, 16, model.a);
  one.usable = 24;
  model.allocated(model.thread, one);
  one = allocation(4, 0x200010, 48, model.b);
  one.usable = 56;
  model.allocated(model.thread, one);
  const double of_a = 32.0 / static_cast<double>(countdown_of(16));
  const double of_b = 64.0 / static_cast<double>(countdown_of(48));
  EXPECT_NEAR(model.figures(model.a).faults, 2 * of_a / (of_a + of_b), 0.01);
  EXPECT_NEAR(model.figures(model.b).faults, 2 * of_b / (of_a + of_b), 0.01);
}

TEST(process_model, faults_that_stand_for_several_are_a_sample) {
  recorded model(sampled());
  model.allocates(1, 0x1000000, 1 << 20, model.a);
  model.mapped(model.thread, 2, 0x2000000, 1 << 20, model.b);
  for (const std::uint64_t address : {0x1000000, 0x2000000}) {
    fault_event event = fault(10, address);
    event.weight = 20;
    model.fault(event);
  }
  for (const std::uint32_t node : {model.a, model.b}) {
    EXPECT_EQ(model.figures(node).faults, 20);
    EXPECT_DOUBLE_EQ(model.figures(node).faults_variance, 2 * 20 * 19)
        << "one record, and one that may be missing";
  }
}

// A site whose small blocks were not sampled may have as many bytes of them as the mean distance between samples.
TEST(process_model, a_site_of_large_blocks_may_have_small_ones) {
  recorded model(sampled());
  model.allocates(1, 0x1000000, 1 << 20, model.a);
  model.allocates(2, 0x2000000, 64, model.b);
  const site_figures figures = model.figures(model.a);
  EXPECT_EQ(figures.bytes, 1 << 20);
  EXPECT_DOUBLE_EQ(std::sqrt(figures.bytes_variance), 64 << 10);
  EXPECT_DOUBLE_EQ(figures.allocations_variance, model.figures(model.b).allocations_variance / 2);
}

TEST(process_model, time_in_malloc_is_that_of_timed_calls) {
  model_settings settings = sampled();
  settings.timer_ns = 10;
  recorded model(settings);
  for (std::uint64_t block = 0; block < 100; ++block) {
    allocation_event event = allocation(100 * block, 0x10000 + 64 * block, 64, model.a);
    event.took = {true, block % 4 != 3, false,
                  block % 4 == 3 ? 1e9 : 40.0};  // one call in four was interrupted
    model.allocated(model.thread, event);
    model.frees_at(100 * block + 50, 0x10000 + 64 * block);
    model.free_took(model.thread, {true, true, false, 30});
  }
  const site_figures figures = model.figures(model.a);
  EXPECT_NEAR(figures.malloc_ns, figures.allocations * 30 + figures.frees * 20, 1);
  EXPECT_GT(figures.malloc_variance, 0) << "the number of calls is an estimate";
}

// Allocates blocks of 64 bytes; the timer measured 40 ns for each call.
void allocate_timed_blocks(process_model& model, std::uint64_t blocks) {
  const std::uint32_t thread = model.begin_thread(thread_id, 0);
  const std::uint32_t a = model.node(0, 0x1000);
  for (std::uint64_t block = 0; block < blocks; ++block) {
    allocation_event event = allocation(100 * block, 0x10000 + 64 * block, 64, a);
    event.took = {true, true, false, 40};
    model.allocated(thread, event);
  }
}

// A site of large blocks may also have small ones that were not sampled; their calls are assumed to be short.
TEST(process_model, small_blocks_that_no_sample_has_seen_take_no_longer_than_small_blocks) {
  process_model model(sampled());
  allocate_timed_blocks(model, 100);
  profile before;
  model.fill(before);
  const std::uint32_t node = model.node(0, 0x2000);
  for (std::uint64_t block = 0; block < 6; ++block) {
    allocation_event event = allocation(1000 * (block + 100), 0x10000000 + (block << 20), 1 << 20, node);
    event.took = {true, true, false, 100'000};
    model.allocated(0, event);
  }
  profile p;
  model.fill(p);
  const site_figures& large = figures_of(p, node);
  EXPECT_NEAR(large.malloc_ns, 600'000, 1000);
  EXPECT_NEAR(large.malloc_variance, large.allocations_variance * 40 * 40, 1e-3 * large.malloc_variance);
}

TEST(process_model, the_clock_tells_how_long_malloc_took_in_all) {
  process_model model(sampled());
  allocate_timed_blocks(model, 100);
  profile p;
  model.fill(p);
  const double timed_ns = p.malloc_time.ns;
  EXPECT_GT(p.malloc_time.systematic_error, 0.3);
  const double sample_ns = timed_ns / 2000;
  for (int sample = 0; sample < 4000; ++sample) model.clock_sample(sample_ns, process_model::code::malloc);
  for (int sample = 0; sample < 4000; ++sample) model.clock_sample(sample_ns, process_model::code::program);
  model.fill(p);
  EXPECT_NEAR(figures_of(p, 1).malloc_ns, 2 * timed_ns, 0.02 * timed_ns);
  EXPECT_DOUBLE_EQ(p.malloc_time.ns, figures_of(p, 1).malloc_ns);
  EXPECT_EQ(p.malloc_time.samples, 8000);
  EXPECT_EQ(p.malloc_time.in_malloc, 4000);
  EXPECT_LT(p.malloc_time.systematic_error, 0.01);
}

TEST(process_model, a_child_s_samples_of_the_clock_are_its_parent_s_with_its_blocks) {
  process_model parent(sampled());
  process_model child(sampled());
  allocate_timed_blocks(child, 100);
  profile p;
  child.fill(p);
  const double sample_ns = p.malloc_time.ns / 2000;
  for (int sample = 0; sample < 4000; ++sample) child.clock_sample(sample_ns, process_model::code::malloc);
  parent.absorb(child);
  profile of_parent;
  parent.fill(of_parent);
  EXPECT_NEAR(of_parent.malloc_time.ns, 2 * p.malloc_time.ns, 0.02 * p.malloc_time.ns);
}

TEST(process_model, a_timed_call_that_does_nothing_tells_the_timers_price) {
  model_settings settings = sampled();
  settings.timer_ns = 1000;  // the price if no empty call is measured
  recorded model(settings);
  for (std::uint64_t block = 0; block < 100; ++block) {
    allocation_event event = allocation(100 * block, 0x10000 + 64 * block, 64, model.a);
    // The timer's resolution is as coarse as a short call: single measurements are below its price.
    event.took = {true, true, false, block % 2 == 0 ? 10.0 : 50.0};
    model.allocated(model.thread, event);
    model.nothing_took({true, true, false, block % 10 == 9 ? 1e6 : 15.0});  // one in ten was disturbed
  }
  EXPECT_NEAR(model.figures(model.a).malloc_ns, model.figures(model.a).allocations * 15,
              1e-6 * model.figures(model.a).malloc_ns);
}

TEST(process_model, a_fault_within_a_timed_call_is_not_malloc_time) {
  model_settings settings = sampled();
  settings.fault_ns = 700;
  recorded model(settings);
  model.fault(fault(10'500, 0x20000));
  model.allocates(11'000, 0x20000, 64, model.a, {true, true, false, 1000});
  EXPECT_NEAR(model.figures(model.a).malloc_ns, model.figures(model.a).allocations * 300, 1);
}

// The kernel reports one of sixteen faults: most calls with a fault are long, and nothing else tells why.
TEST(process_model, a_fault_that_was_not_reported_is_not_malloc_time_either) {
  model_settings settings = sampled();
  settings.fault_ns = 700;
  recorded model(settings);
  fault_event one = fault(1, 0x7fff0000);
  one.weight = 16;
  model.fault(one);
  for (std::uint64_t block = 0; block < 64; ++block) {
    model.allocates(1000 * (block + 1), 0x100000 + 4096 * block, 64, model.a,
                    {true, true, false, block % 4 == 0 ? 720.0 : 20.0});
  }
  EXPECT_NEAR(model.figures(model.a).malloc_ns, model.figures(model.a).allocations * 20, 1);
}

}  // namespace
