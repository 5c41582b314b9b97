// SPDX-License-Identifier: MIT
// thumbnails: a service in miniature. Each request brings an image of 12 megapixels, which is made smaller.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

using pixels = std::vector<std::uint8_t>;

constexpr std::size_t width = 4000;
constexpr std::size_t height = 3000;
constexpr std::size_t step = 8;

// Stands for reading an image from the network.
pixels receive(unsigned number) {
  pixels image(width * height * 4);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<std::uint8_t>(i / 4 + number);
  return image;
}

// Every eighth pixel of every eighth row.
pixels shrink(const pixels& image) {
  pixels small;
  small.reserve(image.size() / (step * step));
  for (std::size_t y = 0; y < height; y += step) {
    for (std::size_t x = 0; x < width; x += step) {
      const std::size_t at = (y * width + x) * 4;
      small.insert(small.end(), image.begin() + at, image.begin() + at + 4);
    }
  }
  return small;
}

int main() {
  unsigned long sum = 0;
  for (unsigned number = 0; number < 40; ++number) {
    const pixels small = shrink(receive(number));
    sum += small[small.size() / 2];
  }
  std::printf("40 images made smaller, checksum %lu\n", sum);
}
