// SPDX-License-Identifier: MIT
// changed_slots: the import slots that were changed to lead to hooks, each with its previous word.
//
// Owner: import_slots. Thread safety: one caller at a time. Invariants: count_ <= room_; no slot's previous word is the
// hook to which the slot leads, so that every slot can be led back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "os/invariant.hpp"
#include "profiler/record/call_path.hpp"

namespace tarn::profiler::recorder {

struct changed_slot {
  std::uintptr_t* address;
  std::uintptr_t before;
  std::uintptr_t hook;
};

class changed_slots {
 public:
  // False: there is no memory for one more slot.
  bool make_room() {
    if (count_ < room_) return true;
    const std::size_t room = room_ == 0 ? 4096 : 2 * room_;
    auto* larger = static_cast<changed_slot*>(map_pages(room * sizeof(changed_slot)));
    if (larger == nullptr) return false;
    if (slots_ != nullptr) {
      std::memcpy(larger, slots_, count_ * sizeof(changed_slot));
      unmap_pages(slots_, room_ * sizeof(changed_slot));
    }
    slots_ = larger;
    room_ = room;
    return true;
  }
  // Requires: make_room() has returned true.
  void add(const changed_slot& slot) {
    slots_[count_++] = slot;
    if (os::is_check_due(count_)) validate();
  }
  void clear() {
    if (slots_ != nullptr) unmap_pages(slots_, room_ * sizeof(changed_slot));
    slots_ = nullptr;
    count_ = room_ = 0;
  }

  [[nodiscard]] const changed_slot* begin() const { return slots_; }
  [[nodiscard]] const changed_slot* end() const { return slots_ + count_; }

  void validate() const {
    TARN_INVARIANT("changed_slots", this, count_ <= room_);
    for (const changed_slot& slot : *this) TARN_INVARIANT("changed_slots", this, slot.before != slot.hook);
  }

 private:
  friend class changed_slots_test_access;

  changed_slot* slots_ = nullptr;
  std::size_t count_ = 0;
  std::size_t room_ = 0;
};

}  // namespace tarn::profiler::recorder
