// SPDX-License-Identifier: MIT
// process_memory: the file in memory of one recorded process, as the collector has mapped it.
// Owned by the recording of that process, for one thread. The process may overwrite all of it at any time: each figure is
// read once and checked, and where things lie follows from the file's length, which is sealed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "profiler/record/session.hpp"

namespace tarn::profiler {

class process_memory {
 public:
  // Maps the file; the caller keeps the descriptor. Null: it is no file that the collector may rely on (not in memory, of
  // another length than a process file, not sealed), or cannot be mapped.
  static std::unique_ptr<process_memory> map(int file, std::uint32_t ring_words);
  ~process_memory();
  process_memory(const process_memory&) = delete;
  process_memory& operator=(const process_memory&) = delete;

  const process_page& page() const noexcept { return *page_; }
  // That the process has taken so far, and that the file has room for.
  std::size_t rings() const noexcept;
  ring_header& ring(std::size_t index) noexcept { return rings_[index]; }
  const std::uint64_t* words(std::size_t ring) const noexcept { return words_ + ring * ring_words_; }
  std::uint64_t ring_words() const noexcept { return ring_words_; }
  // The process is at its end, and goes on when `released` is set.
  bool waits_at_end() const noexcept;
  std::atomic<std::uint32_t>& asked_to_wait() noexcept { return page_->asked_to_wait; }
  std::atomic<std::uint32_t>& released() noexcept { return page_->released; }
  // Events that the process could not tell of.
  double lost_events() const noexcept;

 private:
  process_memory(void* memory, std::size_t bytes, std::uint32_t ring_words);

  void* memory_;
  std::size_t bytes_;
  std::uint32_t ring_words_;
  std::uint32_t most_rings_;
  process_page* page_;
  ring_header* rings_;
  const std::uint64_t* words_;
};

}  // namespace tarn::profiler
