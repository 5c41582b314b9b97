// SPDX-License-Identifier: MIT
// scratch_arena: scopes, results in the caller's arena, threads and their ends.
#include "tarn/arena.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fronts/pools/arena_support.hpp"

namespace tarn {
namespace {

using namespace testing_support;

void use(arena& a, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += 1000) std::memset(a.allocate(1000), 1, 1000);
}

TEST(scratch_arena_test, is_empty_again_after_the_scope) {
  arena* first = nullptr;
  {
    const scratch_arena scratch;
    first = &*scratch;
    use(*scratch, 100'000);
    EXPECT_GE(scratch->bytes_used(), 100'000U);
  }
  const scratch_arena scratch;
  EXPECT_EQ(&*scratch, first);
  EXPECT_LT(scratch->bytes_used(), 100U);
}

TEST(scratch_arena_test, scopes_nest) {
  const scratch_arena outer;
  int* const kept = outer->create<int>(7);
  const std::size_t used = outer->bytes_used();
  for (int i = 0; i < 100; ++i) {
    const scratch_arena inner;
    EXPECT_EQ(&*inner, &*outer);
    use(*inner, 20'000);
    const scratch_arena innermost;
    use(*innermost, 100'000);
  }
  EXPECT_LT(outer->bytes_used(), used + 100);
  EXPECT_EQ(*kept, 7);
}

// Builds the result in the arena `result`, and uses another scratch arena for temporary memory.
std::string_view repeated(std::string_view text, int times, arena& result) {
  const scratch_arena scratch(result);
  EXPECT_NE(&*scratch, &result);
  if (times == 0) return {};
  const std::string_view rest = repeated(text, times - 1, *scratch);
  char* const joined = result.allocate_array<char>(text.size() + rest.size());
  std::memcpy(joined, text.data(), text.size());
  if (!rest.empty()) std::memcpy(joined + text.size(), rest.data(), rest.size());
  return {joined, text.size() + rest.size()};
}

TEST(scratch_arena_test, a_result_in_the_callers_scratch_survives) {
  const scratch_arena scratch;
  std::string expected;
  for (int i = 0; i < 50; ++i) expected += "tarn ";
  EXPECT_EQ(repeated("tarn ", 50, *scratch), expected);
  arena elsewhere;
  EXPECT_EQ(repeated("tarn ", 50, elsewhere), expected);
}

TEST(scratch_arena_test, runs_destructors_at_the_end_of_the_scope) {
  static int ended = 0;
  struct counted {
    ~counted() { ++ended; }
  };
  const scratch_arena outer;
  (void)outer->create<counted>();
  {
    const scratch_arena inner;
    (void)inner->create<counted>();
    (void)inner->create<counted>();
  }
  EXPECT_EQ(ended, 2);
}

// The outermost scope has nothing but a large array when the inner ones begin.
TEST(scratch_arena_test, an_inner_scope_leaves_a_large_array_alone) {
  const scratch_arena outer;
  const stamped_piece rows(outer->allocate(mib), mib, 3);
  for (int i = 0; i < 3; ++i) {
    const scratch_arena inner;
    use(*inner, 3 * mib);
    EXPECT_TRUE(rows.intact());
  }
  EXPECT_TRUE(rows.intact());
  const stamped_piece more(outer->allocate(mib), mib, 4);
  EXPECT_TRUE(rows.intact());
}

// Uses the thread's scratch arena in its destructor, which runs while the arena is rewound or reset.
struct scratch_in_destructor {
  scratch_in_destructor(std::vector<int>& list, int number) : ends(&list), id(number) {}
  scratch_in_destructor(const scratch_in_destructor&) = delete;
  scratch_in_destructor& operator=(const scratch_in_destructor&) = delete;
  ~scratch_in_destructor() {
    const int mine = id;
    {
      const scratch_arena scratch;
      use(*scratch, 200'000);
      (void)scratch->create<noted>(*ends, 10 * mine);
    }
    EXPECT_EQ(id, mine);
    ends->push_back(mine);
  }
  std::vector<int>* ends;
  int id;
};

TEST(scratch_arena_test, destructors_of_its_objects_may_use_it) {
  std::vector<int> ends;
  {
    const scratch_arena outer;
    (void)outer->create<scratch_in_destructor>(ends, 1);
    (void)outer->create<scratch_in_destructor>(ends, 2);
    const scratch_arena inner;
    (void)inner->create<scratch_in_destructor>(ends, 3);
  }
  EXPECT_EQ(ends, (std::vector<int>{30, 3, 20, 2, 10, 1}));
}

TEST(scratch_arena_test, keeps_little_of_what_was_needed_once) {
  arena* memory = nullptr;
  {
    const scratch_arena scratch;
    memory = &*scratch;
    use(*scratch, 20 * mib);
  }
  for (int i = 0; i < 80; ++i) {
    const scratch_arena scratch;
    use(*scratch, 1000);
  }
  EXPECT_LE(memory->bytes_reserved(), detail::least_kept);
}

TEST(scratch_arena_test, each_thread_has_its_own_and_gives_it_back) {
  const scratch_arena mine;
  const std::size_t before = pages_in_use();
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const scratch_arena one;
        const scratch_arena other(*one);
        EXPECT_NE(&*one, &*mine);
        EXPECT_NE(&*one, &*other);
        ++ready;
        while (ready < 4) std::this_thread::yield();
        for (int k = 0; k < 50; ++k) {
          const scratch_arena scratch;
          auto* const numbers = scratch->allocate_array<int>(10'000);
          std::fill_n(numbers, 10'000, i);
          use(*other, 5000);
          for (int n = 0; n < 10'000; ++n) ASSERT_EQ(numbers[n], i);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_LE(pages_in_use(), before);
}

// A thread_local object constructed before the first use of a scratch arena is destroyed after the thread's scratch
// arenas; one constructed later is destroyed before them.
struct late_user {
  ~late_user() {
    if (!active) return;
    for (int i = 0; i < 10; ++i) {
      const scratch_arena scratch;
      use(*scratch, 200'000);
      const scratch_arena other(*scratch);
      use(*other, 200'000);
    }
    ++ran;
  }
  bool active = false;
  static inline std::atomic<int> ran{0};
};

TEST(scratch_arena_test, works_while_the_thread_ends) {
  const std::size_t before = pages_in_use();
  std::thread([] {
    static thread_local late_user early;
    early.active = true;
    {
      const scratch_arena scratch;
      use(*scratch, 1000);
    }
    static thread_local late_user late;
    late.active = true;
  }).join();
  EXPECT_EQ(late_user::ran, 2);
  EXPECT_LE(pages_in_use(), before);
}

// Destructors of pthread keys run after those of thread_local objects.
TEST(scratch_arena_test, works_in_destructors_of_keys) {
  const std::size_t before = pages_in_use();
  static std::atomic<bool> ran{false};
  pthread_key_t key{};
  ASSERT_EQ(pthread_key_create(&key,
                               [](void*) {
                                 const scratch_arena scratch;
                                 use(*scratch, 200'000);
                                 ran = true;
                               }),
            0);
  std::thread([key] {
    const scratch_arena scratch;
    use(*scratch, 1000);
    pthread_setspecific(key, &key);
  }).join();
  pthread_key_delete(key);
  EXPECT_TRUE(ran);
  EXPECT_LE(pages_in_use(), before);
}

}  // namespace
}  // namespace tarn
