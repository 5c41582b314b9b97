// SPDX-License-Identifier: MIT
// scope_names: what is counted of scopes by their names, also after their end. A row is never removed, so names and
// pointers to rows stay valid; beyond most_names, names share the last row.
//
// Owner: this layer has one table. Thread safety: any thread. Rows are found under the lock; counts are relaxed atomics.
// Invariant, under the lock: used_ <= most, and no two rows below used_ have one name.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "os/invariant.hpp"
#include "os/mutex.hpp"

namespace tarn {

struct scope_name {
  static constexpr std::size_t longest = 48;  // with the null byte

  char text[longest] = {};
  std::atomic<std::uint64_t> live{0};
  std::atomic<std::uint64_t> ended{0};
  std::atomic<std::uint64_t> peak{0};
  std::atomic<std::uint64_t> failures{0};
  std::atomic<std::uint64_t> callbacks{0};
  std::atomic<std::uint64_t> waits{0};
  std::atomic<std::uint64_t> survivors{0};
  std::atomic<std::uint64_t> survivor_bytes{0};

  static void add(std::atomic<std::uint64_t>& count, std::uint64_t more = 1) {
    count.fetch_add(more, std::memory_order_relaxed);
  }
  static void raise(std::atomic<std::uint64_t>& most, std::uint64_t value) {
    std::uint64_t seen = most.load(std::memory_order_relaxed);
    while (seen < value && !most.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
  }
};

class scope_names {
 public:
  static constexpr std::size_t most = 128;

  constexpr scope_names() = default;

  // The row of the name, made if needed. Longer names are cut.
  scope_name& row(std::string_view name) {
    name = name.substr(0, scope_name::longest - 1);
    os::lock_guard guard(lock_, *this);
    for (std::size_t i = 0; i < used_; ++i) {
      if (name == rows_[i].text) return rows_[i];
    }
    if (used_ == most) return rows_[most - 1];
    if (used_ == most - 1) name = "(other names)";
    name.copy(rows_[used_].text, name.size());
    return rows_[used_++];
  }
  template <class Visit>
  void for_each(Visit visit) {
    std::size_t end = 0;
    {
      os::lock_guard guard(lock_, *this);
      end = used_;
    }
    for (std::size_t i = 0; i < end; ++i) visit(rows_[i]);
  }

  os::mutex& lock() TARN_RETURNS_LOCK(lock_) { return lock_; }
  void validate_locked() const TARN_REQUIRES(lock_) {
    TARN_INVARIANT("scope_names", this, used_ <= most);
    for (std::size_t i = 0; i < used_; ++i) {
      for (std::size_t k = 0; k < i; ++k)
        TARN_INVARIANT("scope_names", this, std::strcmp(rows_[i].text, rows_[k].text) != 0);
    }
  }

 private:
  friend class scope_names_test_access;

  os::mutex lock_{os::lock_rank::scope};
  std::size_t used_ TARN_GUARDED_BY(lock_) = 0;
  scope_name rows_[most];
};

}  // namespace tarn
