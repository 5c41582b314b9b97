// SPDX-License-Identifier: MIT
// hardened_quarantine: delays the reuse of small blocks in the hardened build. A block that a thread has freed waits
// here before it goes to the thread's magazines.
//
// There are two kinds by size, each with a queue followed by a set of random places:
//
//    free() --> queue, first in first out, Length entries --> one of Places entries, drawn at random --> magazine
//
// So a block is delayed by at least Length frees of its kind, and a random draw at each free decides when it leaves.
// Each kind holds at most kind_bytes of objects.
//
// Owner: a thread cache, and so its thread; nothing here is atomic. Other threads never access it.
// Invariant: an entry is null, or the address of a free, zeroed object with its size class, which is of the kind, above
// the bits of the address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/compiler.hpp"
#include "base/hardened.hpp"
#include "base/units.hpp"
#include "os/invariant.hpp"
#include "pages/page_map.hpp"
#include "slots/hardened_shuffle.hpp"
#include "slots/size_class.hpp"

namespace tarn {

// An object and its class in one word: class in bits 48 and above, address in the bits below.
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
  // Puts a freed object in; returns the object that leaves in exchange, or an empty entry.
  TARN_ALWAYS_INLINE quarantined exchange(quarantined freed, std::uint64_t random) {
    const quarantined oldest = std::exchange(queue_[next_++ % Length], freed);
    return std::exchange(places_[random % Places], oldest);
  }

  template <class Visit>
  void take_all(Visit visit) {
    for (quarantined& q : queue_) take(q, visit);
    for (quarantined& q : places_) take(q, visit);
  }

  // The classes of the entries are in [first, last].
  void validate(unsigned first, unsigned last) const {
    for (const quarantined& q : queue_) validate(q, first, last);
    for (const quarantined& q : places_) validate(q, first, last);
  }

 private:
  void validate(const quarantined& q, unsigned first, unsigned last) const {
    if (q.empty()) return;
    TARN_INVARIANT("hardened_quarantine", this, q.object() != nullptr);
    TARN_INVARIANT("hardened_quarantine", this, first <= q.size_class() && q.size_class() <= last);
  }

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

  // Draws the seed. Requires: the process has its secret.
  void seed() { random_ = random_number() | 1; }

  // Requires: a class of small_size bytes at most.
  TARN_ALWAYS_INLINE quarantined exchange(quarantined freed, unsigned size_class) {
    const std::uint64_t random = draw();
    return size_class <= tiny_end ? tiny_.exchange(freed, random) : small_.exchange(freed, random);
  }

  void validate() const {
    tiny_.validate(1, tiny_end);
    small_.validate(tiny_end + 1, small_end);
  }

  // Removes all objects and calls visit() for each.
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

// The type used by the ordinary build, which has no quarantine.
struct no_quarantine {
  void seed() {}
  void validate() const {}
  static quarantined exchange(quarantined freed, unsigned /*size_class*/) { return freed; }
  template <class Visit>
  void take_all(Visit /*visit*/) {}
};

using cache_quarantine = std::conditional_t<hardened_build, thread_quarantine, no_quarantine>;

}  // namespace tarn
