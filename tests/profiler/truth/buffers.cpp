// SPDX-License-Identifier: MIT
// A program that repeatedly allocates a buffer of 32 MiB, fills it and frees it. With TARN_CHANGED it follows the
// advice for it: a buffer pool.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifdef TARN_CHANGED
#include <tarn/buffer_pool.hpp>
#endif

namespace {

constexpr std::size_t size = std::size_t{32} << 20;

unsigned long use(unsigned char* bytes, int round) {
  std::memset(bytes, round, size);
  asm volatile("" : : "r"(bytes) : "memory");
  return bytes[static_cast<std::size_t>(round) * 4099 % size];
}

#ifdef TARN_CHANGED
tarn::buffer_pool buffers;
unsigned long turn(int round) {
  tarn::buffer one = buffers.get(size);
  return use(reinterpret_cast<unsigned char*>(one.data()), round);
}
#else
unsigned long turn(int round) {
  auto* const bytes = new unsigned char[size];
  const unsigned long sum = use(bytes, round);
  delete[] bytes;
  return sum;
}
#endif

}  // namespace

int main(int count, char** words) {
  const int rounds = count > 1 ? std::atoi(words[1]) : 60;
  unsigned long sum = 0;
  for (int round = 0; round < rounds; ++round) sum += turn(round);
  std::printf("%lu\n", sum);
}
