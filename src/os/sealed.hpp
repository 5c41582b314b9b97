// SPDX-License-Identifier: MIT
// sealed: a value that is written once, while the library is loaded, and is read-only afterwards. For addresses of
// functions and of the engine's own mappings, so that an attacker who can write to memory cannot redirect them.
//
// Owner: a namespace-scope variable of the file that seals it. Thread safety: seal() once, by a constructor, before the
// program has threads; reads by any thread at any time. Before seal() the value is a default T.
// Invariant: the object fills whole system pages, so no other variable becomes read-only with it.
#pragma once

#include <sys/mman.h>

#include <cstddef>

#include "base/architecture.hpp"
#include "os/syscall.hpp"

namespace tarn::os {

// The largest system page, for which the linker lays out segments.
inline constexpr std::size_t sealed_unit = arch::largest_system_page;

template <class T>
class alignas(sealed_unit) sealed {
 public:
  constexpr sealed() = default;
  sealed(const sealed&) = delete;
  sealed& operator=(const sealed&) = delete;

  // If the system refuses, the value is set but stays writable.
  void seal(const T& value) {
    value_ = value;
    system_call(SYS_mprotect, this, sizeof *this, PROT_READ);
  }

  const T* operator->() const { return &value_; }
  const T& operator*() const { return value_; }

 private:
  T value_{};
};
static_assert(sizeof(sealed<char>) == sealed_unit);

}  // namespace tarn::os
