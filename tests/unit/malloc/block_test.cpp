// SPDX-License-Identifier: MIT
// block: one block of each kind, and one pointer of each kind that is no block, through all actions of the table.
#include "malloc/block.hpp"
#include "background/reclaim.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "../../death/expect_abort.hpp"
#include "engine/restore.hpp"
#include "malloc/allocate.hpp"
#include "tarn/buffer_pool.hpp"
#include "tarn/detail/pages.hpp"
#include "tarn/malloc.h"
#include "tarn/pool.hpp"
#include "tarn/scope.hpp"

namespace tarn {
namespace {

const char* const no_size = "size asked of a pointer that is not a block";
const char* const no_resize = "realloc of a pointer that is not a block";

template <class T>
T* unseen(T* p) {
  T* volatile v = p;
  return v;
}

constexpr std::size_t kind_size = 1000;

// 7 in every_kind, 7 among the pointers that are refused.
static_assert(block_kinds == 14, "a new kind of block, or of pointer, needs a row or a test here");

struct pooled_words {
  std::uint64_t words[6] = {};
};

// Until a block is of the kind; null: none is.
void* try_for(block_kind kind) {
  constexpr int most_tries = 1 << 18;
  for (int i = 0; i < most_tries; ++i) {
    void* const block = tarn_malloc(kind_size);
    if (classify(block).kind == kind) return block;
    tarn_free(block);
  }
  return nullptr;
}

// Blocks between which pages have been dropped.
void* make_unlisted(std::vector<void*>& others) {
  constexpr std::size_t size = 700;
  others.resize(4000);
  for (void*& block : others) block = tarn_malloc(size);
  std::shuffle(others.begin(), others.end(), std::mt19937(3));
  for (; others.size() > 400; others.pop_back()) tarn_free(others.back());
  engine::reclaim();
  engine::central_tier.purge_idle_pages(true);
  const auto found = std::find_if(others.begin(), others.end(),
                                  [](void* b) { return classify(b).kind == block_kind::unlisted; });
  if (found == others.end()) return nullptr;
  void* const block = *found;
  others.erase(found);
  return block;
}

struct kind_of_block {
  block_kind kind;
  const char* name;
  bool stays;               // realloc to three quarters
  bool moves;               // tarn_move
  const char* double_free;  // a regular expression
};

class every_kind : public testing::TestWithParam<kind_of_block> {
 protected:
  void SetUp() override {
    tarn_set_option("guarded", "off");
    if (GetParam().kind == block_kind::guarded) {
      tarn_set_option("guarded", "1");
      block_ = try_for(block_kind::guarded);
      tarn_set_option("guarded", "off");
    } else if (GetParam().kind == block_kind::sampled) {
      ASSERT_EQ(tarn_profile_start(1), 0);
      block_ = try_for(block_kind::sampled);
      tarn_profile_stop();
    } else if (GetParam().kind == block_kind::scoped) {
      const scope_entry in = scope_.enter();
      block_ = try_for(block_kind::scoped);
    } else if (GetParam().kind == block_kind::unlisted) {
      block_ = make_unlisted(others_);
    } else {
      block_ = tarn_malloc(GetParam().kind == block_kind::empty   ? 0
                           : GetParam().kind == block_kind::large ? mib
                                                                  : kind_size);
    }
    if (block_ == nullptr) GTEST_SKIP() << "this build, or this system, has none";
    if (classify(block_).kind == block_kind::object && GetParam().kind == block_kind::empty) {
      tarn_free(block_);
      block_ = nullptr;
      GTEST_SKIP() << "only the hardened build has them";
    }
    usable_ = tarn_usable_size(block_);
    std::memset(block_, 7, usable_);
  }
  void TearDown() override {
    tarn_free(block_);
    for (void* const other : others_) tarn_free(other);
  }
  void expect_content(std::size_t bytes) const {
    EXPECT_EQ(std::count(static_cast<char*>(block_), static_cast<char*>(block_) + bytes, 7),
              static_cast<std::ptrdiff_t>(bytes));
  }

  scope scope_{"kinds of blocks"};
  std::vector<void*> others_;
  const testing_support::restore_options restore_;
  void* block_ = nullptr;
  std::size_t usable_ = 0;
};

TEST_P(every_kind, are_told_apart) {
  EXPECT_EQ(classify(block_).kind, GetParam().kind);
  EXPECT_EQ(actions_of(GetParam().kind).kind, GetParam().kind);
}

TEST_P(every_kind, have_the_bytes_that_were_asked_for) {
  const std::size_t asked = GetParam().kind == block_kind::empty      ? 0
                            : GetParam().kind == block_kind::large    ? mib
                            : GetParam().kind == block_kind::unlisted ? 700
                                                                      : kind_size;
  EXPECT_GE(usable_, asked);
  EXPECT_LE(usable_, asked + asked / 4);
}

TEST_P(every_kind, of_the_size_that_is_asked_for_stay_where_they_are) {
  if (usable_ == 0) return;
  EXPECT_EQ(tarn_realloc(block_, usable_), block_);
  EXPECT_EQ(classify(block_).kind, GetParam().kind);
  expect_content(usable_);
}

TEST_P(every_kind, become_shorter) {
  if (usable_ == 0) return;
  void* const before = block_;
  block_ = tarn_realloc(block_, usable_ * 3 / 4);
  EXPECT_EQ(block_ == before, GetParam().stays);
  expect_content(usable_ * 3 / 4);
}

TEST_P(every_kind, become_longer) {
  block_ = tarn_realloc(block_, 3 * usable_ + 10);
  ASSERT_NE(block_, nullptr);
  EXPECT_GE(tarn_usable_size(block_), 3 * usable_ + 10);
  expect_content(usable_);
}

TEST_P(every_kind, move_or_stay) {
  void* const before = block_;
  block_ = tarn_move(block_);
  ASSERT_NE(block_, nullptr);
  EXPECT_EQ(block_ != before, GetParam().moves);
  expect_content(usable_);
}

TEST_P(every_kind, are_freed_once) {
  EXPECT_EXIT(
      {
        tarn_free(unseen(block_));
        tarn_free(unseen(block_));
      },
      testing::KilledBySignal(SIGABRT), GetParam().double_free);
}

INSTANTIATE_TEST_SUITE_P(
    of_block, every_kind,
    testing::Values(kind_of_block{block_kind::object, "object", true, true, "^tarn: double free: 0x"},
                    kind_of_block{block_kind::unlisted, "unlisted", true, true, "^tarn: double free: 0x"},
                    kind_of_block{block_kind::large, "large", true, false,
                                  "^tarn: double free, or a pointer into memory that is free: 0x"},
                    kind_of_block{block_kind::scoped, "scoped", true, false, "^tarn: double free: 0x"},
                    kind_of_block{block_kind::sampled, "sampled", true, true,
                                  "^tarn: double free, or invalid free of a pointer into a block: 0x"},
                    kind_of_block{block_kind::guarded, "guarded", false, true, "tarn: double free: 0x"},
                    kind_of_block{block_kind::empty, "empty", false, true, "^tarn: double free: 0x"}),
    [](const auto& of) { return std::string(of.param.name); });

void expect_refused(const void* pointer, block_kind kind, const char* bad_free) {
  EXPECT_EQ(classify(pointer).kind, kind);
  void* const p = const_cast<void*>(pointer);
  EXPECT_TARN_ABORT(tarn_free(unseen(p)), bad_free, pointer);
  EXPECT_TARN_ABORT(static_cast<void>(tarn_usable_size(unseen(p))), no_size, pointer);
  EXPECT_TARN_ABORT(static_cast<void>(tarn_realloc(unseen(p), 10)), no_resize, pointer);
  EXPECT_TARN_ABORT(static_cast<void>(tarn_move(unseen(p))), no_size, pointer);
  EXPECT_EQ(tarn_would_move(pointer, 100), 0);
  EXPECT_EQ(tarn_pinned_by(pointer), 0U);
}

TEST(block, pointers_of_other_kinds_are_refused_by_every_action) {
  auto* const large = static_cast<char*>(tarn_malloc(mib));
  expect_refused(large + 16, block_kind::inner, "invalid free of a pointer into a block");
  expect_refused(reinterpret_cast<char*>(address_of(large) | std::uintptr_t{1} << 60), block_kind::tagged,
                 "invalid free of a pointer with a tag in its top byte");
  tarn_free(large);
  expect_refused(large, block_kind::unused, "double free, or a pointer into memory that is free");

  object_pool<pooled_words> pool({.name = "kinds of blocks"});
  auto* const pooled = pool.create();
  expect_refused(pooled, block_kind::pooled, "invalid free of an object of a typed pool");
  pool.destroy(pooled);

  buffer_pool buffers({.name = "kinds of blocks"});
  const buffer b = buffers.get(100000);
  expect_refused(b.data(), block_kind::buffer, "invalid free of a buffer of a buffer pool");

  std::size_t bytes = page_size;
  void* const pages = tarn_pages_take(&bytes);
  expect_refused(pages, block_kind::arena, "invalid free of a pointer that is not a block");
  tarn_pages_give(pages);

  int on_stack = 0;
  expect_refused(&on_stack, block_kind::foreign, "invalid free of a pointer that tarn did not allocate");
}

}  // namespace
}  // namespace tarn
