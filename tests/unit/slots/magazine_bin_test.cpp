// SPDX-License-Identifier: MIT
// magazine_bin: where objects come from and go to, with a policy made for this test. Objects are numbers.
#include "slots/magazine_bin.hpp"

#include <gtest/gtest.h>

#include <new>
#include <vector>

namespace tarn {
namespace {

class number_bin : public magazine_bin<number_bin> {
 public:
  number_bin() { make_void(); }
  ~number_bin() {
    for (void* const memory : memory_) ::operator delete(memory);
  }
  number_bin(const number_bin&) = delete;
  number_bin& operator=(const number_bin&) = delete;

  magazine*& loaded() { return loaded_; }
  spare_magazine<magazine>& spare() { return spare_; }
  void**& top() { return top_; }
  void**& limit() { return limit_; }
  [[nodiscard]] std::size_t most() const { return most_; }
  [[nodiscard]] std::size_t most_now() const { return draining ? 1 : most_; }
  bool raise_most() {
    if (most_ >= longest) return false;
    most_ = most_ == 0 ? 2 : most_ * 2;
    return true;
  }
  magazine* new_magazine() { return has_memory ? make(most_) : nullptr; }
  void discard(magazine* /*m*/) { ++discarded; }
  magazine* take_full() { return std::exchange(of_others, nullptr); }
  bool give_full(magazine* m, magazine*& empty) {
    if (!others_take) return false;
    handed_over += m->count;
    empty = of_exchange;
    return true;
  }
  std::size_t refill(magazine* m) {
    const std::size_t found = spans < m->capacity ? spans : m->capacity;
    for (std::size_t i = 0; i < found; ++i) m->bottom()[i] = number(spans--);
    return found;
  }
  void flush(void* const* /*objects*/, std::size_t count) { spans += count; }
  [[nodiscard]] bool drains() const { return draining; }

  magazine* make(std::size_t capacity, std::size_t objects = 0) {
    memory_.push_back(::operator new(sizeof(magazine) + capacity * sizeof(void*)));
    auto* const m = new (memory_.back()) magazine;
    m->capacity = static_cast<std::uint16_t>(capacity);
    m->count = static_cast<std::uint16_t>(objects);
    for (std::size_t i = 0; i < objects; ++i) m->bottom()[i] = number(100 + i);
    return m;
  }
  static void* number(std::size_t n) { return reinterpret_cast<void*>(n); }

  bool push() {
    if (top_ == limit_) make_room();
    if (top_ == limit_) return false;
    *top_++ = number(7);
    return true;
  }
  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(top_ - loaded_->bottom()); }

  static constexpr std::size_t longest = 8;
  std::size_t spans = 0;  // objects there
  std::size_t handed_over = 0;
  int discarded = 0;
  bool has_memory = true;
  bool others_take = true;
  bool draining = false;
  magazine* of_others = nullptr;
  magazine* of_exchange = nullptr;

 private:
  std::vector<void*> memory_;
  magazine* loaded_ = nullptr;
  spare_magazine<magazine> spare_;
  void** top_ = nullptr;
  void** limit_ = nullptr;
  std::size_t most_ = 0;
};

TEST(magazine_bin, a_void_bin_is_empty_and_full_at_once) {
  number_bin bin;
  EXPECT_TRUE(bin.is_empty());
  EXPECT_EQ(bin.top(), bin.limit());
  EXPECT_EQ(bin.top()[-1], nullptr);
  EXPECT_FALSE(bin.get_objects()) << "nothing is in the spans";
}

TEST(magazine_bin, misses_refill_longer_magazines_up_to_the_limit) {
  number_bin bin;
  bin.spans = 100;
  for (const std::size_t expected : {2U, 4U, 8U, 8U}) {
    ASSERT_TRUE(bin.get_objects());
    EXPECT_EQ(bin.count(), expected);
    bin.top() = bin.loaded()->bottom();
  }
  EXPECT_EQ(bin.spans, 100U - 2 - 4 - 8 - 8);
}

TEST(magazine_bin, the_spare_magazine_comes_before_those_of_others) {
  number_bin bin;
  bin.spans = 2;
  ASSERT_TRUE(bin.get_objects());
  magazine* const first = bin.loaded();
  bin.top() = first->bottom();
  magazine* const spare = bin.make(2, 2);
  bin.spare().put(spare);
  bin.of_others = bin.make(2, 1);
  ASSERT_TRUE(bin.get_objects());
  EXPECT_EQ(bin.loaded(), spare);
  EXPECT_EQ(bin.spare().look(), first) << "the emptied magazine becomes the spare one";
  bin.top() = spare->bottom();
  ASSERT_TRUE(bin.get_objects());
  EXPECT_EQ(bin.count(), 1U) << "the magazine of others";
  EXPECT_EQ(bin.spare().look(), spare);
  EXPECT_EQ(bin.discarded, 1) << "the old spare magazine";
}

TEST(magazine_bin, full_magazines_go_to_the_spare_place_and_then_to_others) {
  number_bin bin;
  for (std::size_t i = 0; i < 2 * number_bin::longest; ++i) ASSERT_TRUE(bin.push());
  EXPECT_EQ(bin.handed_over, 0U);
  ASSERT_TRUE(bin.push());
  EXPECT_EQ(bin.handed_over, number_bin::longest);
  EXPECT_EQ(bin.count(), 1U);
  bin.others_take = false;
  for (std::size_t i = 0; i < number_bin::longest; ++i) ASSERT_TRUE(bin.push());
  EXPECT_EQ(bin.spans, number_bin::longest) << "what others do not take goes back to the spans";
}

TEST(magazine_bin, an_empty_magazine_given_in_exchange_is_used) {
  number_bin bin;
  for (std::size_t i = 0; i < 2 * number_bin::longest; ++i) ASSERT_TRUE(bin.push());
  bin.of_exchange = bin.make(number_bin::longest);
  ASSERT_TRUE(bin.push());
  EXPECT_EQ(bin.loaded(), bin.of_exchange);
}

TEST(magazine_bin, a_draining_bin_gives_everything_back) {
  number_bin bin;
  for (std::size_t i = 0; i < 2 * number_bin::longest; ++i) ASSERT_TRUE(bin.push());
  bin.draining = true;
  ASSERT_TRUE(bin.push());
  EXPECT_EQ(bin.spans, 2 * number_bin::longest);
  EXPECT_EQ(bin.count(), 1U);
  ASSERT_TRUE(bin.push());
  EXPECT_EQ(bin.count(), 1U) << "one object at a time";
  bin.draining = false;
  for (std::size_t i = 1; i < number_bin::longest; ++i) ASSERT_TRUE(bin.push());
  EXPECT_EQ(bin.count(), number_bin::longest) << "the limit rises again";
  EXPECT_EQ(bin.spans, 2 * number_bin::longest + 1);
}

TEST(magazine_bin, without_memory_a_full_magazine_is_emptied_in_place) {
  number_bin bin;
  bin.has_memory = false;
  EXPECT_FALSE(bin.push());
  bin.has_memory = true;
  for (std::size_t i = 0; i < number_bin::longest; ++i) ASSERT_TRUE(bin.push());
  bin.has_memory = false;
  ASSERT_TRUE(bin.push());
  EXPECT_EQ(bin.spans, number_bin::longest);
  EXPECT_EQ(bin.count(), 1U);
}

}  // namespace
}  // namespace tarn
