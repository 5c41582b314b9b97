// SPDX-License-Identifier: MIT
// probe_order: threads allocate and free blocks of one size, without a scope and in one, and make large blocks longer, for
// probe_order_test.py. Begins when it has read a byte.
#include <tarn/scope.hpp>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int rounds = 20'000;
constexpr int growing_rounds = 2'000;
constexpr std::size_t least_mapped = std::size_t{4} << 20;

void work(std::size_t size) {
  std::vector<void*> blocks(16);
  for (int round = 0; round < rounds; ++round) {
    void*& block = blocks[static_cast<std::size_t>(round) % blocks.size()];
    std::free(block);
    block = std::malloc(size);
  }
  for (void* const block : blocks) std::free(block);
}

// Long enough for mappings of their own, which move as they grow.
void grow() {
  for (int round = 0; round < growing_rounds; ++round) {
    void* block = nullptr;
    for (std::size_t size = least_mapped; size < 4 * least_mapped; size += size / 3) {
      if (void* const longer = std::realloc(block, size)) block = longer;
    }
    std::free(block);
  }
}

template <class Work>
void in_threads(Work work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main() {
  if (std::getchar() == EOF) return 1;
  in_threads([] { work(1000); });
  tarn::scope scope{"probe_order"};
  in_threads([&scope] {
    const auto in = scope.enter();
    work(1000);
  });
  in_threads(grow);
  return 0;
}
