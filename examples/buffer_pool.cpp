// SPDX-License-Identifier: MIT
// buffer_pool: images of 8 MiB are filled again and again in a buffer that stays backed by memory, so that only the
// first use pays page faults. A vector takes its memory from a buffer pool through buffer_allocator.
#include <tarn/buffer_pool.hpp>

#include <sys/resource.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

constexpr std::size_t image_bytes = 8 << 20;
constexpr long pages_of_an_image = image_bytes / 4096;

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

}  // namespace

int main() {
  tarn::buffer_pool pool({.name = "images"});
  const long before = page_faults();
  for (int i = 0; i < 100; ++i) {
    const tarn::buffer image = pool.get(image_bytes);
    std::memset(image.data(), i, image.size());
  }
  const long faults = page_faults() - before;
  std::printf("100 images, page faults of %s\n",
              faults < 3 * pages_of_an_image ? "the first few only" : "many of them");

  // resize() of such a vector writes nothing: its elements are set when the program writes them.
  std::vector<std::byte, tarn::buffer_allocator<std::byte>> pixels;
  pixels.resize(image_bytes);
  pixels[0] = std::byte{1};
  std::printf("a vector of %zu MiB\n", pixels.size() >> 20);
}
