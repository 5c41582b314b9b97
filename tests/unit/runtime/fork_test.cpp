// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "base/compiler.hpp"
#include "runtime/engine.hpp"
#include "tarn/malloc.h"

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

int status_of_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(body());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(fork, the_child_has_a_whole_heap) {
  auto* const block = static_cast<char*>(tarn_malloc(1000));
  std::strcpy(block, "from the parent");
  EXPECT_EQ(status_of_child([block] {
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
  EXPECT_EQ(status_of_child([] {
              if (!heap_works()) return 1;
              return status_of_child([] { return heap_works() ? 0 : 2; });
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
    EXPECT_EQ(status_of_child([] {
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

TEST(fork, the_child_of_a_thread_may_start_threads) {
  if (TARN_TSAN) GTEST_SKIP() << "ThreadSanitizer cannot";
  std::thread([] {
    EXPECT_EQ(status_of_child([] {
                std::atomic<int> good{0};
                std::vector<std::thread> threads;
                for (int t = 0; t < 3; ++t) threads.emplace_back([&good] { good += heap_works() ? 1 : 0; });
                for (std::thread& t : threads) t.join();
                return good == 3 ? 0 : 1;
              }),
              0);
  }).join();
}

}  // namespace
}  // namespace tarn
