// SPDX-License-Identifier: MIT
#include "pages/structure_store.hpp"

#include <algorithm>

#include "os/invariant.hpp"
#include "os/memory.hpp"

namespace tarn {

// Whole pages, so that no page of a slab that goes back has something else in it.
std::size_t structure_store::slab_bytes() const { return align_up(bytes_ * per_slab, os::page_unit()); }

void structure_store::note_used(std::ptrdiff_t structures) {
  arena_.note_used(structures * static_cast<std::ptrdiff_t>(bytes_));
}

// False: no memory.
bool structure_store::add_slab() {
  if (count_ == room_) {
    const std::uint32_t room = std::max<std::uint32_t>(2 * room_, 4);
    auto* const more = static_cast<slab*>(blocks_.allocate(room * sizeof(slab)));
    if (more == nullptr) return false;
    std::copy_n(slabs_, count_, more);
    if (slabs_ != nullptr) blocks_.deallocate(slabs_, room_ * sizeof(slab));
    slabs_ = more;
    room_ = room;
  }
  void* const start = arena_.allocate_sparse(slab_bytes(), os::page_unit());
  if (start == nullptr) return false;
  slabs_[count_++] = {static_cast<char*>(start), all, 0, false, nullptr, false};
  return true;
}

structure_store::structure structure_store::take() {
  while (first_free_ < count_ && slabs_[first_free_].free == 0) ++first_free_;
  if (first_free_ == count_ && !add_slab()) return {};
  slab& s = slabs_[first_free_];
  if (is_idle(s)) idle_bytes_ -= s.carved * bytes_;
  const auto index = static_cast<std::uint32_t>(std::countr_zero(s.free));
  s.free &= s.free - 1;
  s.aged = s.kept = false;
  ++taken_;
  if (index >= s.carved) {
    note_used(static_cast<std::ptrdiff_t>(index + 1 - s.carved));
    s.carved = static_cast<std::uint8_t>(index + 1);
  }
  const std::uint32_t number = first_free_ * per_slab + index;
  return {at(number), number};
}

void structure_store::put(std::uint32_t number) {
  slab& s = slabs_[number / per_slab];
  s.free |= std::uint64_t{1} << number % per_slab;
  first_free_ = std::min(first_free_, number / per_slab);
  --taken_;
  if (is_idle(s)) idle_bytes_ += s.carved * bytes_;
}

// A slab that was idle already when the last period came by; the next one's index is `index`. Null: there is none.
structure_store::slab* structure_store::hold_next(std::uint32_t& index) {
  while (index < count_) {
    slab& s = slabs_[index++];
    if (!is_idle(s)) continue;
    if (!s.aged) {
      s.aged = true;
      continue;
    }
    s.held_by = __builtin_thread_pointer();
    s.free = 0;
    idle_bytes_ -= s.carved * bytes_;
    return &s;
  }
  return nullptr;
}

void structure_store::age(os::mutex& lock) {
  std::uint32_t next = 0;
  for (;;) {
    char* start = nullptr;
    {
      os::lock_guard guard(lock);
      if (idle_bytes_ == 0) return;
      const slab* const s = hold_next(next);
      if (s == nullptr) return;
      start = s->start;
    }
    const bool is_zero = os::purge_own(start, slab_bytes());
    os::lock_guard guard(lock);
    slab& s = slabs_[next - 1];
    s.held_by = nullptr;
    s.aged = false;
    s.free = all;
    first_free_ = std::min(first_free_, next - 1);
    if (is_zero) {
      note_used(-static_cast<std::ptrdiff_t>(s.carved));
      s.carved = 0;
    } else {
      s.kept = true;
    }
  }
}

void structure_store::forget_holds() {
  for (std::uint32_t i = 0; i < count_; ++i) {
    slab& s = slabs_[i];
    if (s.held_by == nullptr || s.held_by == __builtin_thread_pointer()) continue;
    s.held_by = nullptr;
    s.free = all;
    first_free_ = std::min(first_free_, i);
    idle_bytes_ += s.carved * bytes_;
  }
}

void structure_store::validate_locked() const {
  std::uint32_t taken = 0;
  std::size_t idle = 0;
  for (std::uint32_t i = 0; i < count_; ++i) {
    const slab& s = slabs_[i];
    if (s.held_by != nullptr) continue;
    taken += static_cast<std::uint32_t>(std::popcount(~s.free));
    idle += is_idle(s) ? s.carved * bytes_ : 0;
    TARN_INVARIANT("structure_store", this, i >= first_free_ || s.free == 0);
    TARN_INVARIANT("structure_store", this, s.carved == per_slab || (~s.free >> s.carved) == 0);
  }
  TARN_INVARIANT("structure_store", this, taken == taken_);
  TARN_INVARIANT("structure_store", this, idle == idle_bytes_);
}

}  // namespace tarn
