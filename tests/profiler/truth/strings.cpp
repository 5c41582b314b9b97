// SPDX-License-Identifier: MIT
// A program that builds lines with push_back, character by character. With TARN_CHANGED it follows the advice for it:
// reserve.
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

[[gnu::noinline]] unsigned long make_line(unsigned long number, std::size_t length) {
  std::string line;
#ifdef TARN_CHANGED
  line.reserve(length);
#endif
  for (std::size_t at = 0; at < length; ++at) line.push_back(static_cast<char>('a' + (number + at) % 26));
  asm volatile("" : : "r"(line.data()) : "memory");
  return static_cast<unsigned long>(line.back()) + line.size();
}

}  // namespace

int main(int count, char** words) {
  const unsigned long lines = count > 1 ? std::strtoul(words[1], nullptr, 10) : 2000000;
  unsigned long sum = 0;
  for (unsigned long number = 0; number < lines; ++number) sum += make_line(number, 100 + number % 61);
  std::printf("%lu\n", sum);
}
