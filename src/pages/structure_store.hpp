// SPDX-License-Identifier: MIT
// structure_store: structures of one size that may come by the hundred thousand and go again, such as scopes and threads'
// bins of them. Each has a number, and the lowest free one is given first, so what is in use stays together.
//
//   slab:  | structure 0 | structure 1 | … | structure 63 |     numbers 64 * slab + i
//            carved since the slab was purged ->| untouched
//
// A slab all of whose structures are free for a period of decay gives its memory back, and keeps its addresses: a stale
// pointer leads to zeros, which must be a structure that belongs to nobody.
//
// Thread safety: the owner's lock guards all members; age() takes that lock itself.
// Invariants (validate_locked()): taken() == the sum over the slabs of the structures that are not free, without held
// slabs; idle_bytes() == the sum over the slabs without such of what is carved; what is not carved is free.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "os/mutex.hpp"
#include "pages/block_store.hpp"
#include "pages/metadata_arena.hpp"

namespace tarn {

class structure_store {
 public:
  static constexpr std::uint32_t per_slab = 64;

  constexpr structure_store(metadata_arena& arena, block_store& blocks, std::size_t bytes,
                            std::size_t alignment)
      : arena_(arena), blocks_(blocks), bytes_((bytes + alignment - 1) / alignment * alignment) {}

  struct structure {
    void* memory = nullptr;  // null: there is none
    std::uint32_t number = 0;
  };
  // The one with the lowest number; its memory is zero, or as it was left.
  structure take();
  // Puts one back that was taken.
  void put(std::uint32_t number);
  [[nodiscard]] void* at(std::uint32_t number) const {
    return slabs_[number / per_slab].start + number % per_slab * bytes_;
  }
  [[nodiscard]] bool is_taken(std::uint32_t number) const {
    return number / per_slab < count_ && (slabs_[number / per_slab].free >> number % per_slab & 1) == 0;
  }
  [[nodiscard]] std::uint32_t taken() const { return taken_; }
  // What age() may give back.
  [[nodiscard]] std::size_t idle_bytes() const { return idle_bytes_; }

  // A period of decay: gives back slabs that have been free since the last one. `lock`: the owner's, which is free.
  void age(os::mutex& lock) TARN_NOT_ANALYZED;
  // In a forked child: the slabs that another thread was giving back are here as they were. (If the thread's own age() was
  // interrupted by the handler that forks, it goes on.)
  void forget_holds();

  // Calls visit(structure) for all carved ones, used or free, highest number first or lowest first.
  template <class Visit>
  void for_each_carved(bool highest_first, Visit visit) const {
    for (std::uint32_t i = 0; i < count_ * per_slab; ++i) {
      const std::uint32_t number = highest_first ? count_ * per_slab - 1 - i : i;
      const slab& s = slabs_[number / per_slab];
      if (s.held_by == nullptr && number % per_slab < s.carved) visit(at(number));
    }
  }

  void validate_locked() const;

 private:
  friend class structure_store_test_access;

  struct slab {
    char* start;
    std::uint64_t free;
    std::uint8_t carved;
    bool aged;      // was idle when the last period of decay came by
    void* held_by;  // the thread that gives it back, by its thread pointer; null: none does
    bool
        kept;  // the system has kept its memory, which may be locked; asked again when the slab has been in use
  };
  static constexpr std::uint64_t all = ~std::uint64_t{0};

  [[nodiscard]] bool is_idle(const slab& s) const { return s.free == all && s.carved != 0 && !s.kept; }
  [[nodiscard]] std::size_t slab_bytes() const;
  bool add_slab();
  slab* hold_next(std::uint32_t& index);
  void note_used(std::ptrdiff_t structures);

  metadata_arena& arena_;
  block_store& blocks_;
  std::size_t bytes_;
  slab* slabs_ = nullptr;
  std::uint32_t count_ = 0;
  std::uint32_t room_ = 0;        // for slabs in the array
  std::uint32_t first_free_ = 0;  // no slab before has a free structure
  std::uint32_t taken_ = 0;
  std::size_t idle_bytes_ = 0;
};

}  // namespace tarn
