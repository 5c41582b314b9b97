// SPDX-License-Identifier: MIT
// Fibers on small stacks that change threads, with exceptions. Prints a sum.
#include <sys/mman.h>
#include <ucontext.h>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t stack_bytes = 64 << 10;
struct fiber {
  ucontext_t own{}, back{};
  std::uint64_t sum = 0;
  unsigned seed = 0;
};

__attribute__((noinline)) std::uint64_t fill_map(unsigned seed) {
  std::map<unsigned, std::string> all;
  for (unsigned i = 0; i < 40; ++i) all[i * seed % 61] = std::string(i * 13 % 200 + seed % 7, 'x');
  if (all.size() % 5 == 0) throw std::runtime_error("of no use");
  return all.size() + all.begin()->second.size();
}

void body(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<fiber*>((std::uint64_t{high} << 32) | low);
  for (unsigned round = 0; round < 8; ++round) {
    try {
      self->sum += fill_map(self->seed + round);
    } catch (const std::exception& problem) {
      self->sum += std::string(problem.what()).size();
    }
    swapcontext(&self->own, &self->back);
  }
}

}  // namespace

int main(int count, char** words) {
  const int rounds = count > 1 ? std::atoi(words[1]) : 20;
  std::uint64_t sum = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<fiber> fibers(60);
    std::vector<void*> stacks;
    for (unsigned i = 0; i < fibers.size(); ++i) {
      stacks.push_back(
          mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      getcontext(&fibers[i].own);
      fibers[i].own.uc_stack = {stacks.back(), 0, stack_bytes};
      fibers[i].own.uc_link = &fibers[i].back;
      fibers[i].seed = static_cast<unsigned>(round) * 100 + i;
      const auto address = reinterpret_cast<std::uint64_t>(&fibers[i]);
      makecontext(&fibers[i].own, reinterpret_cast<void (*)()>(body), 2, static_cast<unsigned>(address >> 32),
                  static_cast<unsigned>(address));
    }
    for (int step = 0; step < 9; ++step) {
      std::vector<std::thread> threads;
      for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&fibers, t, step] {
          for (std::size_t i = static_cast<std::size_t>((t + step) % 3); i < fibers.size(); i += 3) {
            swapcontext(&fibers[i].back, &fibers[i].own);
          }
        });
      }
      for (std::thread& each : threads) each.join();
    }
    for (const fiber& each : fibers) sum += each.sum;
    for (void* each : stacks) munmap(each, stack_bytes);
  }
  std::printf("%llu\n", static_cast<unsigned long long>(sum));
}
