// SPDX-License-Identifier: MIT
// magazine_bin: what a thread does with its two magazines of one kind of objects, for malloc's caches and typed pools;
// spare_magazine: the place of the second one, also for recyclers.
//
//     loaded:  | null | object | object | object |      |      |     spare: another magazine, full or empty, or null
//                                                ^ top         ^ limit
//
// A bin (Self) derives from magazine_bin<Self> and has, without virtual functions:
//   loaded(), spare(), top(), limit()  references to its members; loaded() is no_magazine() if there is none
//   most(), most_now()                 objects that a magazine may hold; and now, which may be fewer for a time
//   raise_most()                       raises most() by a step; false: it stays
//   new_magazine(), discard(m)         an empty magazine for most() objects, or null; the end of an empty one
//   take_full(), give_full(m, empty)   a magazine of another thread, or null; hands a full one over, or returns false;
//                                      `empty` becomes an empty one given in exchange, or null
//   refill(m), flush(objects, count)   puts free objects into m, returns their number; puts objects back
//   drains()                           whether free objects have to leave the bin at once
//
// Owner: the bin's thread. Any thread may take the spare magazine.
// Invariants: loaded()->slots < top() <= limit(), loaded()->slots[0] is null; objects lie in [bottom(), top()).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/compiler.hpp"
#include "slots/magazine.hpp"

namespace tarn {

// One magazine, or none. Any thread may take it; only the owner puts one, and only while there is none.
template <class Magazine>
class spare_magazine {
 public:
  Magazine* take() {
    if (place_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    // acquire: partner of the release in put(). Of two threads that take it, one gets the magazine, the other null.
    return place_.exchange(nullptr, std::memory_order_acquire);
  }
  void put(Magazine* m) {
    // release: partner of the acquire in take() and look().
    if (m != nullptr) place_.store(m, std::memory_order_release);
  }
  // acquire: partner of the release in put(). Requires: no other thread takes the magazine meanwhile.
  [[nodiscard]] Magazine* look() const { return place_.load(std::memory_order_acquire); }

 private:
  std::atomic<Magazine*> place_{nullptr};
};

template <class Self>
class magazine_bin {
 public:
  [[nodiscard]] bool is_empty() { return self().loaded() == no_magazine(); }

  // Sets the members to "no magazine": empty and full at once, so that pop and push miss.
  void make_void() {
    self().loaded() = no_magazine();
    self().top() = self().limit() = no_magazine()->bottom();
  }
  void load(magazine* m) {
    self().loaded() = m;
    self().top() = m->bottom() + m->count;
    self().limit() =
        m->bottom() + std::max<std::size_t>(std::min<std::size_t>(self().most_now(), m->capacity), m->count);
  }
  // Stores the number of objects in the magazine, which stays loaded.
  magazine* unload() {
    magazine* const m = self().loaded();
    m->count = static_cast<std::uint16_t>(self().top() - m->bottom());
    return m;
  }

  // After a miss of pop: gets objects, from the spare magazine, another thread's, or spans. False: there are none.
  bool get_objects() {
    magazine* const other = self().spare().take();
    magazine* full = other;
    if (other == nullptr || other->count == 0) full = self().take_full();
    if (full == nullptr) {
      self().spare().put(other);
      return refill();
    }
    // The loaded magazine is empty. It, or else the old spare one, becomes the spare one.
    magazine* empty = other != full ? other : nullptr;
    if (!is_empty()) {
      if (empty != nullptr) self().discard(empty);
      empty = self().loaded();
      empty->count = 0;
    }
    load(full);
    self().spare().put(empty);
    return true;
  }

  // After a miss of push: the loaded magazine is full, or there is none. There may be no room afterwards.
  void make_room() {
    if (TARN_UNLIKELY(self().drains()) && !is_empty()) return empty_in_place();
    if (grow() || is_empty()) return;
    magazine* const full = unload();
    if (full->count < std::min<std::size_t>(self().most_now(), full->capacity)) {
      // The limit was low because objects had to leave; they no longer have to.
      load(full);
      return;
    }
    magazine* other = self().spare().take();
    if (other != nullptr && other->count != 0) other = hand_over(other);
    if (other != nullptr && other->capacity < self().most()) {
      self().discard(other);
      other = nullptr;
    }
    if (other == nullptr) other = self().new_magazine();
    if (other == nullptr) {
      // No memory for a second magazine.
      flush_all(full);
      load(full);
      return;
    }
    load(other);
    self().spare().put(full);
  }

  // Puts all objects back. The magazines stay. Requires: there is a loaded one.
  void empty_in_place() {
    magazine* const m = unload();
    flush_all(m);
    load(m);
    if (magazine* const other = self().spare().take()) {
      flush_all(other);
      self().spare().put(other);
    }
  }

  // Hands the magazine over to other threads if it is full, else puts its objects back. Returns an empty magazine, which
  // may be a short one, or null.
  magazine* hand_over(magazine* m) {
    magazine* empty = nullptr;
    if (m->count >= self().most() && self().give_full(m, empty)) return empty;
    flush_all(m);
    return m;
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }

  void flush_all(magazine* m) {
    if (m->count != 0) self().flush(m->bottom(), m->count);
    m->count = 0;
  }

  // After a miss: loads a larger magazine, so that later misses are rarer. False: there is no room afterwards.
  bool grow() {
    if ((!is_empty() || self().most() == 0) && !self().raise_most()) return false;
    magazine* const old = is_empty() ? nullptr : unload();
    if (old == nullptr || old->capacity < self().most()) {
      magazine* const m = self().new_magazine();
      if (m == nullptr) return false;
      if (old == nullptr) {
        load(m);
      } else {
        m->count = old->count;
        std::memcpy(static_cast<void*>(m->bottom()), static_cast<const void*>(old->bottom()),
                    m->count * sizeof(void*));
        load(m);
        self().discard(old);
      }
    } else {
      load(old);
    }
    return self().top() != self().limit();
  }

  bool refill() {
    grow();
    if (is_empty()) return false;
    magazine* const m = self().loaded();
    m->count = static_cast<std::uint16_t>(self().refill(m));
    load(m);
    return m->count != 0;
  }
};

}  // namespace tarn
