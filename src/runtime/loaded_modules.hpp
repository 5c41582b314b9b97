// SPDX-License-Identifier: MIT
// loaded_modules: the executable segments of the program and its libraries at one moment, with their files and build ids.
// The dynamic linker's lock is held only while they are copied, and no lock of the engine is held meanwhile: a thread
// that loads a library holds the linker's lock and allocates.
//
// Owner: a local variable. Thread safety: used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn {

struct loaded_segment {
  static constexpr std::size_t longest_build_id = 32;

  std::uintptr_t start;
  std::uintptr_t end;
  std::uint64_t file_offset;
  const char* path;  // "" if the linker has none
  std::uint8_t build_id[longest_build_id];
  std::size_t build_id_length;  // 0: none
};

class loaded_modules {
 public:
  loaded_modules();
  ~loaded_modules();
  loaded_modules(const loaded_modules&) = delete;
  loaded_modules& operator=(const loaded_modules&) = delete;

  // False: there was no memory.
  [[nodiscard]] bool valid() const { return segments_ != nullptr; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] const loaded_segment& operator[](std::size_t i) const { return segments_[i]; }
  // The segment that contains the address; count(): none does.
  [[nodiscard]] std::size_t index_of(std::uintptr_t address) const {
    std::size_t i = 0;
    while (i < count_ && (address < segments_[i].start || address >= segments_[i].end)) ++i;
    return i;
  }

 private:
  struct collector;

  loaded_segment* segments_ = nullptr;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace tarn
