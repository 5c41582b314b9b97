// SPDX-License-Identifier: MIT
// session_host: makes the memory of a session and keeps it for as long as the recording lasts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "profiler/collect/ticks.hpp"
#include "profiler/record/session.hpp"

namespace tarn::profiler {

class session_host {
 public:
  // Throws profile_error when the system refuses the memory.
  session_host(record_mode mode, std::uint64_t sample_bytes, const tick_clock& clock);
  ~session_host();
  session_host(const session_host&) = delete;
  session_host& operator=(const session_host&) = delete;

  // The value of session_variable for the program.
  std::string place() const;
  session_header& header() noexcept { return *header_; }
  // Any process of the session may overwrite it at any time: each figure of it is read once, and checked.
  session_state& state() noexcept { return *state_; }
  ring_header& ring(std::size_t index) noexcept { return rings_[index]; }
  std::size_t rings() const noexcept { return ring_count_; }
  // By the host's own figures: those in the memory may have been overwritten.
  const std::uint64_t* words(std::size_t ring) const noexcept { return words_ + ring * ring_words_; }
  std::uint64_t ring_words() const noexcept { return ring_words_; }

 private:
  // A file in memory, mapped for as long as it lives.
  class memory_file {
   public:
    memory_file() = default;
    memory_file(const memory_file&) = delete;
    memory_file& operator=(const memory_file&) = delete;
    ~memory_file();
    void* make(const char* name, std::size_t bytes);  // throws profile_error
    void seal(int seals) const;                       // throws profile_error
    std::string place() const;                        // "DESCRIPTOR:INODE"

   private:
    int file_ = -1;
    void* memory_ = nullptr;
    std::size_t bytes_ = 0;
  };

  memory_file header_file_;
  memory_file state_file_;
  std::size_t ring_count_ = 0;
  std::uint64_t ring_words_ = 0;
  session_header* header_ = nullptr;
  session_state* state_ = nullptr;
  ring_header* rings_ = nullptr;
  std::uint64_t* words_ = nullptr;
};

}  // namespace tarn::profiler
