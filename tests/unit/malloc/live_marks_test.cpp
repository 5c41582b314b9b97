// SPDX-License-Identifier: MIT
// No live object has the free mark, whichever function returned it and wherever it was before: otherwise a program that
// frees the object without having written to it would be ended for a double free.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <climits>
#include <cstring>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "engine/engine.hpp"
#include "malloc/allocate.hpp"
#include "tarn/malloc.h"

namespace tarn {
namespace {

struct way {
  const char* name;
  std::function<void*(std::size_t size)> allocate;
};

void* memalign_of(std::size_t alignment, std::size_t size) {
  void* out = nullptr;
  EXPECT_EQ(tarn_posix_memalign(&out, alignment, size), 0);
  return out;
}

// A block made by realloc of a live block of another size.
void* moved(std::size_t from, std::size_t to) {
  void* const block = tarn_malloc(from);
  std::memset(block, 1, from);
  return tarn_realloc(block, to);
}

const std::vector<way>& ways() {
  static const std::vector<way> all = {
      {"malloc", [](std::size_t size) { return tarn_malloc(size); }},
      {"calloc", [](std::size_t size) { return tarn_calloc(1, size); }},
      {"calloc of nothing", [](std::size_t /*size*/) { return tarn_calloc(0, 8); }},
      {"realloc of null", [](std::size_t size) { return tarn_realloc(nullptr, size); }},
      {"realloc to more", [](std::size_t size) { return moved(size / 2, size); }},
      {"realloc to less", [](std::size_t size) { return moved(size * 3, size); }},
      {"realloc of a large block", [](std::size_t size) { return moved(largest_class_size + size, size); }},
      {"reallocarray", [](std::size_t size) { return tarn_reallocarray(nullptr, 1, size); }},
      {"posix_memalign 8", [](std::size_t size) { return memalign_of(8, size); }},
      {"posix_memalign 16", [](std::size_t size) { return memalign_of(16, size); }},
      {"posix_memalign 64", [](std::size_t size) { return memalign_of(64, size); }},
      {"posix_memalign 4096", [](std::size_t size) { return memalign_of(4096, size); }},
      {"aligned_alloc", [](std::size_t size) { return tarn_aligned_alloc(256, size); }},
      {"memalign", [](std::size_t size) { return tarn_memalign(32, size); }},
      {"valloc", [](std::size_t size) { return tarn_valloc(size); }},
      {"pvalloc", [](std::size_t size) { return tarn_pvalloc(size); }},
      {"allocate_slow", [](std::size_t size) { return allocate_slow(size); }},
  };
  return all;
}

// Only objects of size classes have marks.
bool is_object(const void* block) { return engine::map.class_of(address_of(block)) != 0; }
bool is_marked(unsigned size_class, const void* object) {
  return free_mark::is_set(engine::map, size_class, object);
}

std::vector<void*> allocate_many(const way& w, std::size_t size, std::size_t count) {
  std::vector<void*> out(count);
  for (void*& block : out) block = w.allocate(size);
  return out;
}

void release_all(const std::vector<void*>& blocks) {
  for (void* block : blocks) tarn_free(block);
}

using place = void (*)();

// Freed objects stay in magazines, go back to their spans, or go back to the page heap with their spans.
void leave() {}
void to_spans() {
  engine::local_cache->flush_all();
  engine::central_tier.flush_idle_magazines(true);
}
void to_the_page_heap() {
  to_spans();
  engine::central_tier.release_spares(true);
}

class live_marks : public testing::TestWithParam<place> {
 protected:
  // Without decay, because purged memory loses its marks.
  live_marks() { tarn_set_option("decay_ms", "-1"); }
  ~live_marks() override { tarn_set_option("decay_ms", "1000"); }
};

TEST_P(live_marks, are_clear_by_every_way) {
  std::size_t again = 0;
  for (const std::size_t size : {1U, 8U, 16U, 60U, 200U, 1000U, 3000U, 20000U, 100000U, 262144U}) {
    const std::size_t count = size <= 1000 ? 300 : 12;
    for (const way& w : ways()) {
      const auto first = allocate_many(w, size, count);
      release_all(first);
      GetParam()();
      const std::set<void*> freed(first.begin(), first.end());
      const auto second = allocate_many(w, size, count);
      for (void* block : second) {
        if (!is_object(block)) continue;
        ASSERT_FALSE(is_marked(static_cast<unsigned>(engine::map.class_of(address_of(block))), block))
            << w.name << ", " << size;
        again += freed.count(block);
      }
      release_all(second);
    }
  }
  EXPECT_GT(again, 1000U) << "too few objects were reused for this test";
}

TEST_P(live_marks, are_set_by_free) {
  for (unsigned c = 1; c < size_classes::count; ++c) {
    void* const object = tarn_malloc(class_info(c).size);
    tarn_free(object);
    GetParam()();
    // A page keeps its contents when its span goes back to the page heap.
    ASSERT_TRUE(is_marked(c, object)) << class_info(c).size;
  }
}

// A program need not write what it asks for: then realloc copies what was there, for instance an old mark of the object in
// which the copy comes to lie.
TEST(live_marks_of_copies, are_clear_after_realloc) {
  if (hardened_build) GTEST_SKIP() << "the hardened build has no marks";
  constexpr std::size_t longer = 1000;
  for (int i = 0; i < 10; ++i) tarn_free(tarn_malloc(longer));
  void* const block = tarn_malloc(100);
  void* const next = tarn_malloc(longer);
  const std::uintptr_t mark = free_mark::of(next);
  std::memcpy(block, &mark, sizeof mark);
  tarn_free(next);
  void* const copy = tarn_realloc(block, longer);
  ASSERT_EQ(copy, next);
  EXPECT_FALSE(free_mark::is_set(copy));
  tarn_free(copy);
}

TEST_P(live_marks, lie_outside_of_objects_above_1_kib) {
  if (hardened_build) GTEST_SKIP() << "the hardened build zeroes what is freed";
  for (const std::size_t size : {kib + 1, 4 * kib, 100 * kib}) {
    std::vector<void*> blocks;
    for (int i = 0; i < 100; ++i) {
      blocks.push_back(tarn_malloc(size));
      std::memset(blocks.back(), i, size);
    }
    release_all(blocks);
    GetParam()();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto* const bytes = static_cast<const unsigned char*>(blocks[i]);
      ASSERT_TRUE(std::all_of(bytes, bytes + size, [i](unsigned char b) { return b == i; })) << size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(places, live_marks, testing::Values(leave, to_spans, to_the_page_heap));

// ---- a thread in its last round of key destructors has no cache ----

// Under ThreadSanitizer a thread does not reach the last round.
constexpr std::uintptr_t last_round = PTHREAD_DESTRUCTOR_ITERATIONS - TARN_TSAN;

pthread_key_t ending;
std::atomic<int> handed_out{0};
std::atomic<int> freed_before{0};
std::atomic<int> wrong_marks{0};

void in_last_round(void* round) {
  const auto r = reinterpret_cast<std::uintptr_t>(round);
  if (r < last_round) {
    pthread_setspecific(ending, reinterpret_cast<void*>(r + 1));
    return;
  }
  if (engine::attach_thread() != nullptr) return;
  for (unsigned c = 1; c < size_classes::count; ++c) {
    void* const first = tarn_malloc(class_info(c).size);
    wrong_marks += is_marked(c, first) ? 1 : 0;
    tarn_free(first);
    wrong_marks += is_marked(c, first) ? 0 : 1;
    void* const second = tarn_calloc(1, class_info(c).size);
    wrong_marks += is_marked(c, second) ? 1 : 0;
    freed_before += first == second ? 1 : 0;
    handed_out += 2;
    tarn_free(second);
  }
}

TEST(live_marks_at_the_end, are_clear_without_a_cache) {
  ASSERT_EQ(pthread_key_create(&ending, in_last_round), 0);
  std::thread([] {
    tarn_free(tarn_malloc(1));  // gives the thread a cache, which it loses at its end
    pthread_setspecific(ending, reinterpret_cast<void*>(std::uintptr_t{1}));
  }).join();
  pthread_key_delete(ending);
  EXPECT_EQ(handed_out.load(), 2 * static_cast<int>(size_classes::count - 1));
  EXPECT_GT(freed_before.load(), 50);
  EXPECT_EQ(wrong_marks.load(), 0);
}

}  // namespace
}  // namespace tarn
