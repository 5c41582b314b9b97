// SPDX-License-Identifier: MIT
// malloc_linked: a program that uses tarn as its malloc because it is linked with tarn::malloc. Its code does not
// mention tarn; only the last function does, to show that the library is in use.
#include <tarn/malloc.h>

#include <cstdio>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

// Ordinary code: containers, strings, new and delete.
std::size_t count_words() {
  std::unordered_map<std::string, int> counts;
  for (int i = 0; i < 100'000; ++i) ++counts["word " + std::to_string(i % 5000)];
  return counts.size();
}

// A block of 64 MiB raises tarn's figure only if tarn has allocated it.
bool malloc_is_tarn() {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  tarn_stats before{};
  tarn_get_stats(&before);
  const std::vector<char> block(bytes);
  tarn_stats after{};
  tarn_get_stats(&after);
  return after.in_use >= before.in_use + block.size();
}

}  // namespace

int main() {
  std::printf("%zu different words\n", count_words());
  std::printf("malloc is %s\n", malloc_is_tarn() ? "tarn's" : "another library's");
}
