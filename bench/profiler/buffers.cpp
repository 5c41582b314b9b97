// SPDX-License-Identifier: MIT
// Fills, reads and frees large buffers: a program in which allocation costs page faults.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

int main(int count, char** words) {
  const long rounds = count > 1 ? std::atol(words[1]) : 60;
  unsigned long sum = 0;
  for (long round = 0; round < rounds; ++round) {
    const std::size_t size =
        (std::size_t{8} << 20) + static_cast<std::size_t>(round % 7) * (std::size_t{5} << 20);
    auto* block = static_cast<unsigned char*>(std::malloc(size));
    std::memset(block, static_cast<int>(round), size);
    for (std::size_t at = 0; at < size; at += 64) sum += block[at];
    std::vector<unsigned long> numbers;
    for (unsigned long number = 0; number < 200000; ++number) numbers.push_back(number ^ sum);
    sum += numbers[sum % numbers.size()];
    std::free(block);
  }
  std::printf("%lu\n", sum);
  return 0;
}
