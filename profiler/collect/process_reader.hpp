// SPDX-License-Identifier: MIT
// process_reader: reads the memory of another process, whose threads are stopped. Memory that the process has never
// touched is not read, as reading would allocate its pages. Not thread-safe. Bound: most_chunks of chunk_bytes at a
// time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

namespace tarn::profiler {

class process_reader {
 public:
  // `progress` is called before each chunk is read.
  process_reader(std::uint32_t process, std::function<void()> progress);
  ~process_reader();
  process_reader(const process_reader&) = delete;
  process_reader& operator=(const process_reader&) = delete;

  // errno value of the failed open; 0: the memory can be read.
  int problem() const noexcept { return problem_; }
  // As leak_search::reader.
  const std::uint64_t* words_at(std::uint64_t address, std::size_t words, std::size_t& count);

 private:
  static constexpr std::size_t chunk_bytes = std::size_t{256} << 10;
  static constexpr std::size_t most_chunks = 1024;
  static constexpr std::size_t chunk_words = chunk_bytes / sizeof(std::uint64_t);
  using chunk = std::array<std::uint64_t, chunk_words>;

  std::unique_ptr<chunk> read_chunk(std::uint64_t number);
  bool is_touched(std::uint64_t number) const;

  int memory_;
  int pagemap_;
  int problem_ = 0;
  std::uint64_t page_;
  std::function<void()> progress_;
  std::unordered_map<std::uint64_t, std::unique_ptr<chunk>> chunks_;  // null: nothing to read there
};

}  // namespace tarn::profiler
