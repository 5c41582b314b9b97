// SPDX-License-Identifier: MIT
// guarded_reader: reads memory that may not be mapped. Owned by one thread, and used for one look at data
// structures, as it remembers mapped pages; allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tarn::profiler {

class guarded_reader {
 public:
  // `is_certain`: all memory to be read is known to be mapped, so the system is not asked.
  explicit guarded_reader(bool is_certain) : certain_(is_certain) {}

  // False: it cannot be read. `out` is then unchanged.
  bool read(std::uintptr_t address, void* out, std::size_t bytes) {
    if (address < lowest || address >= highest || !(certain_ || are_there(address, bytes))) return false;
    std::memcpy(out, reinterpret_cast<const void*>(address), bytes);
    return true;
  }
  template <class value>
  value take(std::uintptr_t address) {
    value out = {};
    failed_ = !read(address, &out, sizeof out) || failed_;
    return out;
  }
  // Whether a take has failed.
  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  static constexpr std::uintptr_t lowest = 65536;
  static constexpr std::uintptr_t highest = std::uintptr_t{1} << 56;

  bool are_there(std::uintptr_t address, std::size_t bytes);
  bool is_there(std::uintptr_t page);

  static constexpr unsigned kept_pages = 8;
  std::uintptr_t pages_[kept_pages] = {};
  unsigned next_ = 0;
  bool certain_;
  bool failed_ = false;
};

}  // namespace tarn::profiler
