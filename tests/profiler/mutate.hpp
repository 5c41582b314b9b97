// SPDX-License-Identifier: MIT
// mutator: random damage to files, the same in every run for one seed. take_apart() and put_together(): a profile's
// chunks, and a file of changed chunks with correct checksums, which a reader does not reject by their checksums.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tarn::profiler {

class mutator {
 public:
  explicit mutator(std::uint64_t seed) : state_(seed) {}

  std::uint64_t below(std::uint64_t bound);
  // Makes one to four changes: flips a bit, sets bytes, removes or repeats a range of bytes, or cuts off the end.
  void mutate(std::vector<std::uint8_t>& bytes);

 private:
  void mutate_once(std::vector<std::uint8_t>& bytes);

  std::uint64_t state_;
};

struct plain_chunk {
  std::string name = {};
  std::uint32_t rows = 0;
  std::uint8_t flags = 0;
  std::vector<std::uint8_t> payload = {};  // not compressed
};

// The chunks of an undamaged file; and a file of these chunks, valid except for the content of their payloads.
std::vector<plain_chunk> take_apart(const std::vector<std::uint8_t>& file);
std::vector<std::uint8_t> put_together(const std::vector<plain_chunk>& chunks);

}  // namespace tarn::profiler
