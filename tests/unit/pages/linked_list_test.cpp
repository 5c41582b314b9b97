// SPDX-License-Identifier: MIT
// linked_list: compared with a std::deque.
#include "pages/linked_list.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "broken_invariant.hpp"
#include "pages/span.hpp"

namespace tarn {
namespace {

std::deque<span*> content_of(const span_list& list) {
  std::deque<span*> out;
  const span* before = nullptr;
  for (span* s = list.front(); s != nullptr; s = s->next) {
    EXPECT_EQ(s->previous, before);
    before = s;
    out.push_back(s);
  }
  return out;
}

TEST(linked_list, behaves_as_a_deque) {
  span spans[16];
  bool inside[16] = {};
  span_list list;
  std::deque<span*> model;
  std::mt19937 random(3);
  for (int step = 0; step < 5000; ++step) {
    const std::size_t i = random() % 16;
    span* const s = &spans[i];
    if (inside[i]) {
      list.remove(s);
      model.erase(std::find(model.begin(), model.end(), s));
      EXPECT_TRUE(s->next == nullptr && s->previous == nullptr);
    } else if (random() % 2 == 0) {
      list.push_front(s);
      model.push_front(s);
    } else {
      list.push_back(s);
      model.push_back(s);
    }
    inside[i] = !inside[i];
    if (random() % 8 == 0) {
      span* const popped = list.pop_front();
      ASSERT_EQ(popped, model.empty() ? nullptr : model.front());
      if (popped != nullptr) {
        model.pop_front();
        inside[popped - spans] = false;
      }
    }
    if (random() % 8 == 0 && !model.empty()) {
      const auto first = model.begin() + static_cast<std::ptrdiff_t>(random() % model.size());
      list.rotate_to(*first);
      std::rotate(model.begin(), first, model.end());
    }
    ASSERT_EQ(content_of(list), model);
    ASSERT_EQ(list.empty(), model.empty());
    list.validate();
  }
}

TEST(linked_list, finds_a_broken_invariant) {
  span spans[2];
  span_list list;
  for (span& s : spans) list.push_back(&s);
  list.validate();
  spans[1].previous = nullptr;
  EXPECT_BROKEN(list.validate(), "linked_list", "s->previous == last", &list);
  spans[1].previous = &spans[0];
  spans[0].next = nullptr;
  EXPECT_BROKEN(list.validate(), "linked_list", "tail_ == last", &list);
}

}  // namespace
}  // namespace tarn
