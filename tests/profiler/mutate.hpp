// SPDX-License-Identifier: MIT
// mutate: what happens to files, the same in every run. And the chunks of a profile's file with fitting checksums, so
// that a reader cannot rest on these.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tarn::profiler {

class mutator {
 public:
  explicit mutator(std::uint64_t seed) : state_(seed) {}

  std::uint64_t below(std::uint64_t bound);
  // Flips bits, sets bytes to notable values, inserts, removes and repeats stretches, cuts off; one to four of these.
  void mutate(std::vector<std::uint8_t>& bytes);

 private:
  void mutate_once(std::vector<std::uint8_t>& bytes);

  std::uint64_t state_;
};

struct plain_chunk {
  std::string name;
  std::uint32_t rows = 0;
  std::uint8_t flags = 0;
  std::vector<std::uint8_t> payload;  // not compressed
};

// The chunks of a file that is whole; and a file of them, valid but for what the payloads say.
std::vector<plain_chunk> take_apart(const std::vector<std::uint8_t>& file);
std::vector<std::uint8_t> put_together(const std::vector<plain_chunk>& chunks);

}  // namespace tarn::profiler
