// SPDX-License-Identifier: MIT
// thread_bins: the list and the table of a thread's bins. front_registry_test has what several threads do with them.
#include "engine/thread_bins.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tarn::engine {
namespace {

struct part {};
struct parts {
  part** bins;
  std::size_t count;
};
constinit thread_local parts own_parts{nullptr, 0};
part nobody;

template <bool HasNull>
struct whole : part {
  static parts& table() { return own_parts; }
  static part* no_bin() { return HasNull ? nullptr : &nobody; }
  whole* next_of_thread = nullptr;
  whole** link_of_thread = nullptr;
};

template <class Bin>
void check_table() {
  using bins = thread_bins<Bin>;
  for (const std::size_t count : {std::size_t{8}, std::size_t{1} << 17}) {
    for (int round = 0; round < 2; ++round) {
      bins own;
      own.all = {bins::new_table(count), count};
      ASSERT_NE(own.all.bins, nullptr);
      EXPECT_EQ(std::count(own.all.bins, own.all.bins + count, Bin::no_bin()),
                static_cast<std::ptrdiff_t>(count));
      Bin first;
      own.set(0, &first);
      own.set(count - 1, &first);
      own.set(count - 1, &first);
      EXPECT_EQ(own.used, 2U);
      own_parts = own.all;
      EXPECT_EQ(bins::at(0), &first);
      EXPECT_EQ(bins::at(1), nullptr);
      EXPECT_EQ(bins::at(count), nullptr);
      Bin other;
      own.clear(0, &other);
      EXPECT_EQ(bins::at(0), &first);
      EXPECT_FALSE(own.has_idle_pages());
      own.clear(0, &first);
      own.clear(count - 1, &first);
      EXPECT_EQ(bins::at(0), nullptr);
      EXPECT_EQ(own.has_idle_pages(), Bin::no_bin() == nullptr && count > 8);
      std::fill(own.all.bins, own.all.bins + count, &first);  // the next table may be made of this one
      bins::free_table(own.all);
    }
  }
  EXPECT_EQ(bins::new_table(std::size_t{1} << 40), nullptr) << "larger than any block of metadata";
}

TEST(thread_bins, a_new_table_is_empty) {
  check_table<whole<true>>();
  check_table<whole<false>>();
}

TEST(thread_bins, a_bin_leaves_whichever_list_it_is_in) {
  using bins = thread_bins<whole<true>>;
  bins own;
  whole<true> all[4];
  for (auto& one : all) bins::push(own.first, &one);
  bins::erase(&all[3]);
  bins::push(own.emptied, &all[3]);
  bins::erase(&all[1]);
  std::vector<whole<true>*> seen;
  own.for_each([&](whole<true>* bin) { seen.push_back(bin); });
  EXPECT_EQ(seen, (std::vector<whole<true>*>{&all[2], &all[0], &all[3]}));
  own.join_lists();
  EXPECT_EQ(own.first, &all[3]);
  EXPECT_EQ(own.emptied, nullptr);
  for (const int i : {3, 0, 2}) bins::erase(&all[i]);
  EXPECT_EQ(own.first, nullptr);
}

}  // namespace
}  // namespace tarn::engine
