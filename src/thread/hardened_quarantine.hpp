// SPDX-License-Identifier: MIT
// hardened_quarantine: small blocks that a thread of the hardened build has freed wait here before its magazines get
// them.
//
// Two kinds by size, each first in a queue, in the order in which the thread freed them, then at a random place among
// some others: a block stays away for at least the queue's length of frees of its kind, and a place that is drawn anew
// for each free decides when it comes back. Each kind holds at most kind_bytes of objects.
//
// Owner: a thread cache, and with it its thread; nothing here is atomic. Other threads never look into it.
// Invariants: an entry is null, or the address of a free object, all of it zero, with its size class above the bits of
// the address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/compiler.hpp"
#include "base/hardened.hpp"
#include "base/units.hpp"
#include "central/hardened_shuffle.hpp"
#include "central/size_class.hpp"
#include "pages/page_map.hpp"

namespace tarn {

// An object and its class in one word.
class quarantined {
 public:
  quarantined() = default;
  quarantined(void* object, unsigned size_class)
      : bits_(address_of(object) | std::uintptr_t{size_class} << page_map::address_bits) {}
  [[nodiscard]] bool empty() const { return bits_ == 0; }
  [[nodiscard]] unsigned size_class() const { return static_cast<unsigned>(bits_ >> page_map::address_bits); }
  [[nodiscard]] void* object() const {
    return reinterpret_cast<void*>(bits_ & ((std::uintptr_t{1} << page_map::address_bits) - 1));
  }

 private:
  std::uintptr_t bits_ = 0;
};

template <std::size_t Length, std::size_t Places>
class quarantine_of_kind {
  static_assert(is_power_of_two(Length) && is_power_of_two(Places));

 public:
  // Takes one in. What leaves for it, or an empty one.
  TARN_ALWAYS_INLINE quarantined exchange(quarantined freed, std::uint64_t random) {
    const quarantined oldest = std::exchange(queue_[next_++ % Length], freed);
    return std::exchange(places_[random % Places], oldest);
  }

  template <class Visit>
  void take_all(Visit visit) {
    for (quarantined& q : queue_) take(q, visit);
    for (quarantined& q : places_) take(q, visit);
  }

 private:
  template <class Visit>
  static void take(quarantined& q, Visit visit) {
    if (const quarantined taken = std::exchange(q, {}); !taken.empty()) visit(taken);
  }

  std::uint32_t next_ = 0;
  quarantined queue_[Length];
  quarantined places_[Places];
};

class thread_quarantine {
 public:
  // The largest class of each kind.
  static constexpr std::size_t tiny_size = size_classes::linear_end;
  static constexpr std::size_t small_size = size_classes::fine_end;
  static constexpr unsigned tiny_end = size_classes::fine_lookup[tiny_size >> size_classes::fine_shift];
  static constexpr unsigned small_end = size_classes::fine_lookup.back();
  static constexpr std::size_t kind_bytes = 144 * kib;

  // Draws the seed: not before the process has its secret.
  void seed() { random_ = random_number() | 1; }

  // Requires: a class of small_size bytes at most.
  TARN_ALWAYS_INLINE quarantined exchange(quarantined freed, unsigned size_class) {
    const std::uint64_t random = draw();
    return size_class <= tiny_end ? tiny_.exchange(freed, random) : small_.exchange(freed, random);
  }

  // All that wait leave.
  template <class Visit>
  void take_all(Visit visit) {
    tiny_.take_all(visit);
    small_.take_all(visit);
  }

 private:
  // xorshift64 (Marsaglia, "Xorshift RNGs", 2003), the upper half.
  TARN_ALWAYS_INLINE std::uint64_t draw() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_ >> 32;
  }

  static constexpr std::size_t tiny_length = 1024;
  static constexpr std::size_t small_length = 128;
  static constexpr std::size_t tiny_places = 128;
  static constexpr std::size_t small_places = 16;
  static_assert((tiny_length + tiny_places) * tiny_size <= kind_bytes);
  static_assert((small_length + small_places) * small_size <= kind_bytes);

  std::uint64_t random_ = 1;
  quarantine_of_kind<tiny_length, tiny_places> tiny_;
  quarantine_of_kind<small_length, small_places> small_;
};

// That of the other build: it has none.
struct no_quarantine {
  void seed() {}
  static quarantined exchange(quarantined freed, unsigned /*size_class*/) { return freed; }
  template <class Visit>
  void take_all(Visit /*visit*/) {}
};

using cache_quarantine = std::conditional_t<hardened_build, thread_quarantine, no_quarantine>;

}  // namespace tarn
