// SPDX-License-Identifier: MIT
// guarded_reader: reads memory that may not be there. Owned by one thread, for one look at things; allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tarn::profiler {

class guarded_reader {
 public:
  // Where the memory is known to be there, nothing is asked of the system.
  explicit guarded_reader(bool is_certain) : certain_(is_certain) {}

  // False: it cannot be read. `out` is then unchanged.
  bool read(std::uintptr_t address, void* out, std::size_t bytes);
  template <typename value>
  value take(std::uintptr_t address) {
    value out = {};
    failed_ = !read(address, &out, sizeof out) || failed_;
    return out;
  }
  // Whether a take has failed.
  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  bool is_there(std::uintptr_t page);

  static constexpr unsigned kept_pages = 8;
  std::uintptr_t pages_[kept_pages] = {};
  unsigned next_ = 0;
  bool certain_;
  bool failed_ = false;
};

}  // namespace tarn::profiler
