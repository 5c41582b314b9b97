// SPDX-License-Identifier: MIT
// probe_order: threads allocate and free blocks of one size, without a scope and in one, for probe_order_test.py. Begins when
// it has read a byte.
#include <tarn/scope.hpp>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int rounds = 20'000;

void work(std::size_t size) {
  std::vector<void*> blocks(16);
  for (int round = 0; round < rounds; ++round) {
    void*& block = blocks[static_cast<std::size_t>(round) % blocks.size()];
    std::free(block);
    block = std::malloc(size);
  }
  for (void* const block : blocks) std::free(block);
}

void in_threads(tarn::scope* scope, std::size_t size) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([=] {
      if (scope == nullptr) return work(size);
      const auto in = scope->enter();
      work(size);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main() {
  if (std::getchar() == EOF) return 1;
  in_threads(nullptr, 1000);
  tarn::scope scope{"probe_order"};
  in_threads(&scope, 1000);
  return 0;
}
