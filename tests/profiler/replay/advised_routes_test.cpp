// SPDX-License-Identifier: MIT
// The pools of a replay, as advice asks for them.
#include <gtest/gtest.h>

#include "profiler/replay/trace.hpp"

namespace tarn::profiler {
namespace {

using routes = std::vector<std::uint8_t>;

advice of_kind(advice_kind kind, std::vector<std::uint32_t> sites) {
  advice one;
  one.kind = kind;
  one.site = sites.front();
  one.sites = std::move(sites);
  return one;
}

TEST(advised_routes, each_kind_of_pool_is_a_route) {
  profile p;
  p.sites.resize(5);
  p.sites[0].sizes = {{64, 10, false}, {48, 5, true}, {32, 1, true}};
  p.sites[3].sizes = {{24, 10, true}};
  trace_settings settings;
  settings.route_of_site = {9};  // what was there before is forgotten
  add_routes(settings, p,
             {of_kind(advice_kind::typed_pool, {0}), of_kind(advice_kind::buffer_pool, {1, 2}),
              of_kind(advice_kind::object_pool, {3}), of_kind(advice_kind::arena, {4}),
              of_kind(advice_kind::tunable, {0}), of_kind(advice_kind::recycler, {1})});
  ASSERT_EQ(settings.routes.size(), 5U);
  EXPECT_EQ(settings.routes[0].kind, route_kind::heap);
  EXPECT_EQ(settings.routes[1].kind, route_kind::pool);
  EXPECT_EQ(settings.routes[1].size, 48U) << "the most frequent exact size";
  EXPECT_EQ(settings.routes[2].kind, route_kind::buffers);
  EXPECT_EQ(settings.routes[3].size, 24U);
  EXPECT_EQ(settings.routes[4].kind, route_kind::arena);
  EXPECT_EQ(settings.route_of_site, (routes{1, 2, 2, 3, 4}));
}

TEST(advised_routes, the_first_advice_for_a_site_counts) {
  profile p;
  p.sites.resize(3);
  p.sites[0].sizes = {{64, 1, true}};
  trace_settings settings;
  add_routes(settings, p,
             {of_kind(advice_kind::typed_pool, {0}), of_kind(advice_kind::arena, {0}),
              of_kind(advice_kind::arena, {0, 1})});
  EXPECT_EQ(settings.route_of_site, (routes{1, 2, 0}));
  EXPECT_EQ(settings.routes.size(), 3U) << "a route without a site is none";
}

TEST(advised_routes, a_pool_needs_an_exact_size) {
  profile p;
  p.sites.resize(1);
  p.sites[0].sizes = {{64, 1, false}};
  trace_settings settings;
  add_routes(settings, p, {of_kind(advice_kind::typed_pool, {0})});
  EXPECT_EQ(settings.routes.size(), 1U);
  EXPECT_EQ(settings.route_of_site, (routes{0}));
}

TEST(advised_routes, there_are_64_routes_at_most) {
  profile p;
  p.sites.resize(100);
  std::vector<advice> all;
  for (std::uint32_t site = 0; site < 100; ++site) all.push_back(of_kind(advice_kind::arena, {site}));
  trace_settings settings;
  add_routes(settings, p, all);
  EXPECT_EQ(settings.routes.size(), 64U);
  EXPECT_EQ(settings.route_of_site[62], 63);
  EXPECT_EQ(settings.route_of_site[63], 0);
}

}  // namespace
}  // namespace tarn::profiler
