// SPDX-License-Identifier: MIT
// What scopes cost, as medians: enter and leave; malloc and free in a scope and out of it; the end of a scope with 100,000
// freed blocks without and with the unmapping, and with 100,000 survivors. With "check": ends with status 1 if
// enter and leave take more than 5 ns, or an end without the unmapping more than 20 us.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tarn/scope.hpp"

namespace {

constexpr std::size_t blocks = 100000;
constexpr std::size_t size = 64;
using clock_type = std::chrono::steady_clock;

double ns_since(clock_type::time_point begin) {
  return std::chrono::duration<double, std::nano>(clock_type::now() - begin).count();
}
double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double enter_and_leave() {
  constexpr int rounds = 100000;
  const tarn::scope s("costs");
  std::vector<double> times;
  for (int r = 0; r < 21; ++r) {
    const auto begin = clock_type::now();
    for (int i = 0; i < rounds; ++i) {
      const tarn::scope_entry in = s.enter();
      asm volatile("" ::: "memory");
    }
    times.push_back(ns_since(begin) / rounds);
  }
  return median(times);
}

double pairs() {
  constexpr int rounds = 100000;
  std::vector<double> times;
  for (int r = 0; r < 21; ++r) {
    const auto begin = clock_type::now();
    for (int i = 0; i < rounds; ++i) {
      void* block = std::malloc(size);
      asm volatile("" : "+r"(block)::"memory");
      std::free(block);
    }
    times.push_back(ns_since(begin) / rounds);
  }
  return median(times);
}

// Per block: first all malloc, then all free.
double batches() {
  std::vector<void*> all(blocks);
  std::vector<double> times;
  for (int r = 0; r < 11; ++r) {
    const auto begin = clock_type::now();
    for (void*& block : all) block = std::malloc(size);
    for (void* const block : all) std::free(block);
    times.push_back(ns_since(begin) / blocks);
  }
  return median(times);
}

double end_in_us(bool survive, std::size_t keep) {
  std::vector<double> times;
  std::vector<void*> all(blocks);
  for (int r = 0; r < 21; ++r) {
    tarn::scope s("costs", {.limit = std::size_t{64} << 20, .keep = keep});
    {
      const tarn::scope_entry in = s.enter();
      for (void*& block : all) {
        block = std::malloc(size);
        std::memset(block, 1, size);
      }
      if (!survive) {
        for (void* const block : all) std::free(block);
      }
    }
    const auto begin = clock_type::now();
    const tarn::scope_report report = s.end();
    times.push_back(ns_since(begin) / 1000);
    if (report.blocks != (survive ? blocks : 0)) std::exit(2);
    if (survive) {
      for (void* const block : all) std::free(block);
    }
  }
  return median(times);
}

}  // namespace

int main(int count, char** arguments) {
  const bool checks = count > 1 && std::strcmp(arguments[1], "check") == 0;
  const double entering = enter_and_leave();
  const double outside = pairs();
  const double outside_batch = batches();
  double inside = 0;
  double inside_batch = 0;
  {
    const tarn::scope s("costs", {.limit = std::size_t{64} << 20});
    const tarn::scope_entry in = s.enter();
    inside = pairs();
    inside_batch = batches();
  }
  const double kept = end_in_us(false, SIZE_MAX);
  const double unmapped = end_in_us(false, 0);
  const double survivors = end_in_us(true, 0);
  std::printf("enter and leave %.1f ns\nmalloc and free of %zu bytes: outside %.1f ns, inside %.1f ns\n",
              entering, size, outside, inside);
  std::printf("%zu at once, per block: outside %.1f ns, inside %.1f ns\n", blocks, outside_batch,
              inside_batch);
  std::printf("end of %zu freed blocks: %.1f us, with the unmapping %.1f us; of as many survivors %.1f us\n",
              blocks, kept, unmapped, survivors);
  return checks && (entering > 5 || kept > 20) ? 1 : 0;
}
