// SPDX-License-Identifier: MIT
// process_memory: the memory file of one recorded process, as mapped by the collector. Owned by the recording of
// that process, for one thread. The process may overwrite all of it at any time: each figure is read once and
// checked, and the layout follows from the file's length, which is sealed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "profiler/record/session.hpp"

namespace tarn::profiler {

class process_memory {
 public:
  // Maps the file; the caller keeps the descriptor. Null: the collector cannot rely on the file (not on tmpfs, not
  // the length of a process file, not sealed), or it cannot be mapped.
  static std::unique_ptr<process_memory> map(int file, std::uint32_t ring_words);
  ~process_memory();
  process_memory(const process_memory&) = delete;
  process_memory& operator=(const process_memory&) = delete;

  const process_page& page() const noexcept { return *page_; }
  // Rings that the process has taken so far, at most as many as the file has room for.
  std::size_t rings() const noexcept;
  ring_header& ring(std::size_t index) noexcept { return rings_[index]; }
  const std::uint64_t* words(std::size_t ring) const noexcept { return words_ + ring * ring_words_; }
  std::uint64_t ring_words() const noexcept { return ring_words_; }
  // Words of which memory can be given back: those of a page. 0: it is too large for that.
  std::uint64_t unit_words() const noexcept { return unit_words_; }
  // Gives back the memory of a ring's words at these positions, multiples of unit_words(), which the process must not use now.
  void give_back(std::size_t ring, std::uint64_t from, std::uint64_t to) noexcept;
  // The process has reached its end and waits until released() is set.
  bool waits_at_end() const noexcept;
  std::atomic<std::uint32_t>& asked_to_wait() noexcept { return page_->asked_to_wait; }
  std::atomic<std::uint32_t>& released() noexcept { return page_->released; }
  // Events that the process could not put into a ring.
  double lost_events() const noexcept;
  // What the process could not record of this, as sentences for the profile.
  std::vector<std::string> losses() const;

 private:
  process_memory(void* memory, std::size_t bytes, std::uint32_t ring_words);

  void* memory_;
  std::size_t bytes_;
  std::uint32_t ring_words_;
  std::uint32_t unit_words_ = 0;
  std::uint32_t most_rings_;
  process_page* page_;
  ring_header* rings_;
  const std::uint64_t* words_;
};

}  // namespace tarn::profiler
