// SPDX-License-Identifier: MIT
// Replaces small blocks as fast as possible, with a little work on each: about 8 million per second. The worst case for
// the cost of recording.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

int main(int count, char** words) {
  constexpr std::size_t slots = 4096;
  static unsigned char* blocks[slots];
  const long rounds = count > 1 ? std::atol(words[1]) : 10000000;
  std::uint64_t state = 88172645463325252U;
  std::uint64_t sum = 0;
  for (long round = 0; round < rounds; ++round) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const std::size_t slot = state % slots;
    const std::size_t size = 16 + (state >> 20 & 255);
    std::free(blocks[slot]);
    blocks[slot] = static_cast<unsigned char*>(std::malloc(size));
    for (std::size_t at = 0; at < size; at += 4)
      blocks[slot][at] = static_cast<unsigned char>(state >> (at & 31));
    for (std::size_t at = 0; at < size; at += 4) sum += blocks[slot][at];
  }
  std::printf("%llu\n", static_cast<unsigned long long>(sum));
  return 0;
}
