// SPDX-License-Identifier: MIT
// words: built by Meson with the dependency `tarn`, which replaces malloc. Ends with status 1 if it did not.
#include <tarn/malloc.h>

#include <cstdio>
#include <vector>

int main() {
  tarn_stats before{};
  tarn_get_stats(&before);
  const std::vector<char> block(std::size_t{64} << 20);
  tarn_stats after{};
  tarn_get_stats(&after);
  const bool replaced = after.in_use >= before.in_use + block.size();
  std::printf("malloc is %s\n", replaced ? "tarn's" : "another library's");
  return replaced ? 0 : 1;
}
