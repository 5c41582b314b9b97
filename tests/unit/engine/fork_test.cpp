// SPDX-License-Identifier: MIT
// Fork while other threads allocate, purge or change options: the child has a working heap.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../../child_status.hpp"
#include "background/pressure_callbacks.hpp"
#include "base/compiler.hpp"
#include "engine/engine.hpp"
#include "engine/restore.hpp"
#include "fronts/recyclers/recycler_registry.hpp"
#include "fronts/scopes/scope_registry.hpp"
#include "tarn/malloc.h"
#include "tarn/scope.hpp"

namespace tarn {
namespace {

// Allocates and frees blocks of all sizes; false if one has lost its content.
bool heap_works() {
  std::vector<unsigned char*> blocks;
  for (std::size_t size = 1; size < 2 * mib; size = size * 4 / 3 + 1) {
    auto* const block = static_cast<unsigned char*>(tarn_malloc(size));
    if (block == nullptr) return false;
    std::memset(block, static_cast<int>(size & 0xff), size);
    blocks.push_back(block);
  }
  std::size_t size = 1;
  for (unsigned char* block : blocks) {
    if (block[0] != (size & 0xff) || block[size - 1] != (size & 0xff)) return false;
    tarn_free(block);
    size = size * 4 / 3 + 1;
  }
  return true;
}

using testing_support::child_status;

TEST(fork, the_child_has_a_whole_heap) {
  auto* const block = static_cast<char*>(tarn_malloc(1000));
  std::strcpy(block, "from the parent");
  EXPECT_EQ(child_status([block] {
              if (std::strcmp(block, "from the parent") != 0) return 1;
              tarn_free(block);
              if (!heap_works()) return 2;
              tarn_trim(0);
              engine::heap.validate();
              return engine::registry.count() == 1 ? 0 : 3;
            }),
            0);
  EXPECT_STREQ(block, "from the parent");
  tarn_free(block);
  EXPECT_TRUE(heap_works());
}

TEST(fork, a_child_of_a_child) {
  EXPECT_EQ(child_status([] {
              if (!heap_works()) return 1;
              return child_status([] { return heap_works() ? 0 : 2; });
            }),
            0);
}

TEST(fork, amid_threads_that_allocate) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&stop] {
      while (!stop) {
        EXPECT_TRUE(heap_works());
      }
    });
  }
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(child_status([] {
                if (!heap_works()) return 1;
                tarn_trim(0);
                engine::heap.validate();
                return engine::registry.count() == 1 ? 0 : 3;
              }),
              0)
        << "child " << i;
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  engine::heap.validate();
}

// Two threads run `body` in a loop while this one forks 60 times. In every child `check` must return 0.
template <class Body, class Check>
void fork_amid(Body body, Check check) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!stop) body();
    });
  }
  for (int i = 0; i < 60; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(child_status(check), 0) << "child " << i;
  }
  stop = true;
  for (std::thread& t : threads) t.join();
}

TEST(fork, amid_purges_of_which_the_child_loses_no_page) {
  testing_support::restore_options restore;
  tarn_set_option("large_cache", "0");
  fork_amid(
      [] {
        void* const block = tarn_malloc(16 * mib);
        std::memset(block, 1, 16 * mib);
        tarn_free(block);
      },
      [] {
        engine::heap.validate();
        engine::heap.trim(0);
        // This includes pages that threads of the parent were purging at the fork.
        return engine::heap.stats().free_dirty == 0 ? 0 : 1;
      });
}

TEST(fork, amid_changes_of_options) {
  testing_support::restore_options restore;
  const std::string path(250, '/');
  fork_amid([&] { tarn_set_option("stats", path.c_str()); },
            [] {
              alarm(3);
              return tarn_set_option("stats", "off");
            });
}

// A thread that is in call(stay), which calls stay() and returns when that does, until the object's end.
class stays_inside {
 public:
  template <class Call>
  explicit stays_inside(Call call)
      : thread_([this, call] {
          call([this] {
            inside_ = true;
            while (!ends_) std::this_thread::yield();
          });
        }) {
    while (!inside_) std::this_thread::yield();
  }
  ~stays_inside() {
    ends_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> inside_{false};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

// Forks as a signal handler does that has interrupted a critical section. The section goes on in both processes.
int status_of_child_of_section(const std::function<void()>& body) {
  engine::heap.lock().lock();
  const pid_t child = fork();
  engine::heap.lock().unlock();
  if (child == 0) {
    alarm(10);
    body();
    const bool works = heap_works();
    engine::heap.validate();
    _exit(works && engine::registry.count() == 1 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(fork, amid_a_section_while_a_thread_works_on_a_scope) {
  scope s("pinned");
  const stays_inside other(
      [](auto stay) { scope_registry::scopes.for_each([&](scope_instance&) { stay(); }); });
  EXPECT_EQ(status_of_child_of_section([&s] { s.end(); }), 0);
}

TEST(fork, amid_a_section_while_a_thread_is_in_a_scope) {
  scope s("entered");
  const stays_inside other([&s](auto stay) {
    const scope_entry in = s.enter();
    tarn_free(tarn_malloc(100));
    stay();
  });
  EXPECT_EQ(status_of_child_of_section([&s] { s.end(); }), 0);
}

TEST(fork, amid_a_section_while_a_thread_is_in_a_recycler) {
  const auto destroy = [](void*, void*) {};
  tarn_recycler* const recycler =
      recycler_registry::create({sizeof(tarn_recycler_options), "entered", 7, 0, 0, 0, destroy, nullptr});
  {
    const stays_inside other([recycler](auto stay) {
      recycler_bin* const bin = recycler_registry::bin_of(recycler);
      bin->busy = 1;
      stay();
      bin->busy = 0;
    });
    EXPECT_EQ(status_of_child_of_section([recycler] { recycler_registry::close(recycler); }), 0);
  }
  recycler_registry::close(recycler);
  recycler_registry::free(recycler);
}

// The end of an inner section is not that of the interrupted one, nor is that of the first of two.
TEST(fork, amid_two_sections) {
  const stays_inside other([](auto stay) {
    tarn_free(tarn_malloc(100));
    stay();
  });
  engine::registry.lock().lock();
  EXPECT_EQ(status_of_child_of_section([] {
              if (engine::registry.count() == 1) _exit(2);
              engine::metadata.lock().lock();
              engine::registry.lock().unlock();
              if (engine::registry.count() == 1) _exit(3);
              engine::metadata.lock().unlock();
            }),
            0);
  engine::registry.lock().unlock();
}

// A thread of the child itself is not taken for one of the parent's.
TEST(fork, amid_a_section_whose_handler_starts_a_thread) {
  if (TARN_TSAN) GTEST_SKIP() << "ThreadSanitizer does not allow threads in forked children";
  engine::heap.lock().lock();
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    const stays_inside other([](auto stay) {
      engine::attach_thread(true);
      stay();
    });
    engine::heap.lock().unlock();
    _exit(engine::registry.count() > 1 && heap_works() ? 0 : 1);
  }
  engine::heap.lock().unlock();
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// The number of spans that are neither in use nor free: a thread of the parent was purging them at the fork.
std::size_t lost_spans(const std::vector<void*>& blocks) {
  std::set<const span*> lost;
  for (const void* block : blocks) {
    const span* const s = engine::map.span_of(address_of(block));
    if (s != nullptr && s->contains(address_of(block)) && s->state == span_state::purging) lost.insert(s);
  }
  return lost.size();
}

TEST(fork, amid_releases_of_empty_spans_of_which_the_child_loses_one_per_thread) {
  const auto build_up_and_give_back = [](std::vector<void*>& blocks) {
    for (void*& block : blocks) block = tarn_malloc(4096);
    for (void* block : blocks) tarn_free(block);
    tarn_trim(0);
  };
  constexpr std::size_t block_count = 4096;
  std::vector<void*> seen(block_count);
  build_up_and_give_back(seen);
  fork_amid(
      [&] {
        std::vector<void*> blocks(block_count);
        build_up_and_give_back(blocks);
      },
      [&] {
        return lost_spans(seen) <= 3 ? 0 : 1;  // one of each thread and one of the background thread
      });
}

TEST(fork, the_child_of_a_thread_may_start_threads) {
  if (TARN_TSAN) GTEST_SKIP() << "ThreadSanitizer does not allow threads in forked children";
  std::thread([] {
    EXPECT_EQ(child_status([] {
                std::atomic<int> good{0};
                std::vector<std::thread> threads;
                for (int t = 0; t < 3; ++t) threads.emplace_back([&good] { good += heap_works() ? 1 : 0; });
                for (std::thread& t : threads) t.join();
                return good == 3 ? 0 : 1;
              }),
              0);
  }).join();
}

// libc's setuid sends a signal to all threads and waits until they have handled it. A thread that waits in fork for a
// lock must handle it too, because the holder of the lock may be the caller of setuid, in a signal handler.
TEST(fork, takes_the_signal_of_setuid_while_it_waits_for_a_lock) {
  if (TARN_TSAN) GTEST_SKIP() << "ThreadSanitizer does not allow threads in forked children";
  EXPECT_EQ(child_status([] {
              alarm(5);
              std::atomic<bool> locked{false};
              std::thread forks([&locked] {
                while (!locked.load()) std::this_thread::yield();
                engine::before_copy();
                engine::after_copy_in_parent();
              });
              std::this_thread::sleep_for(std::chrono::milliseconds(50));
              engine::heap.lock().lock();
              locked.store(true);
              std::this_thread::sleep_for(std::chrono::milliseconds(100));
              const int result = setuid(getuid());
              engine::heap.lock().unlock();
              forks.join();
              return result;
            }),
            0);
}

}  // namespace
}  // namespace tarn
