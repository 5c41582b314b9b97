// SPDX-License-Identifier: MIT
// recycler_magazine: a new one, what its places have paid, and its invariants.
#include "fronts/recyclers/recycler_magazine.hpp"

#include <gtest/gtest.h>

#include "broken_invariant.hpp"

namespace tarn {
namespace {

class recycler_magazine_test : public testing::Test {
 protected:
  recycler_magazine_test() { engine::attach_thread(); }
  ~recycler_magazine_test() override { recycler_magazine::unmake(m_); }

  recycler_magazine* const m_ = recycler_magazine::make(recycler_magazine::capacities[0]);
};

TEST_F(recycler_magazine_test, a_new_one_is_empty_and_has_paid_nothing) {
  for (const std::uint16_t capacity : recycler_magazine::capacities) {
    recycler_magazine* const m = recycler_magazine::make(capacity);
    ASSERT_NE(m, nullptr);
    EXPECT_EQ(m->end() - m->begin(), capacity);
    EXPECT_EQ(m->top(), m->begin());
    EXPECT_EQ(m->begin()[-1].object, nullptr) << "pop finds none";
    EXPECT_EQ(m->end()->paid, 0U) << "push finds no room";
    recycler_payment sum;
    m->add_to(sum);
    EXPECT_TRUE(sum.bytes == 0 && sum.objects == 0);
    m->validate();
    // Used memory is as good as new.
    for (tarn_recycler_entry* e = m->begin() - 1; e <= m->end(); ++e) *e = {m, 7};
    recycler_magazine::unmake(m);
  }
}

TEST_F(recycler_magazine_test, all_places_that_have_paid_count_with_an_object_or_without) {
  m_->begin()[0] = {m_, 100};
  m_->begin()[1] = {nullptr, 20};
  m_->begin()[3] = {nullptr, 3};
  m_->count = 1;
  recycler_payment sum{1000, 10};
  m_->add_to(sum);
  EXPECT_EQ(sum.bytes, 1123U);
  EXPECT_EQ(sum.objects, 13U);
}

TEST_F(recycler_magazine_test, finds_a_broken_invariant) {
  m_->begin()[0] = {m_, 100};
  m_->count = 1;
  m_->validate();
  m_->begin()[-1].object = m_;
  EXPECT_BROKEN(m_->validate(), "recycler_magazine", "begin()[-1].object == nullptr && end()->paid == 0", m_);
  m_->begin()[-1].object = nullptr;
  m_->end()->paid = 1;
  EXPECT_BROKEN(m_->validate(), "recycler_magazine", "begin()[-1].object == nullptr && end()->paid == 0", m_);
  m_->end()->paid = 0;
  m_->begin()[0].paid = 0;
  EXPECT_BROKEN(m_->validate(), "recycler_magazine", "e->object != nullptr && e->paid != 0", m_);
  m_->begin()[0] = {nullptr, 100};
  EXPECT_BROKEN(m_->validate(), "recycler_magazine", "e->object != nullptr && e->paid != 0", m_);
  m_->count = static_cast<std::uint16_t>(m_->capacity + 1);
  EXPECT_BROKEN(m_->validate(), "recycler_magazine", "count <= capacity", m_);
  m_->count = 0;
}

}  // namespace
}  // namespace tarn
