// SPDX-License-Identifier: MIT
// A program for which no change of its memory use pays: it computes, and rarely allocates.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <vector>

namespace {

constexpr unsigned end = 3000000;

[[gnu::noinline]] void sieve(std::vector<bool>& composite, std::vector<unsigned>& primes) {
  std::fill(composite.begin(), composite.end(), false);
  primes.clear();
  for (unsigned at = 2; at < end; ++at) {
    if (composite[at]) continue;
    primes.push_back(at);
    for (unsigned long next = static_cast<unsigned long>(at) * at; next < end; next += at)
      composite[next] = true;
  }
}

}  // namespace

int main() {
  std::vector<bool> composite(end);
  std::vector<unsigned> primes;
  std::size_t sum = 0;
  for (int round = 0; round < 40; ++round) {
    sieve(composite, primes);
    sum += primes.size();
  }
  std::printf("%zu\n", sum);
}
