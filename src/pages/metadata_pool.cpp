// SPDX-License-Identifier: MIT
#include "pages/metadata_pool.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/chain.hpp"
#include "os/invariant.hpp"
#include "os/memory.hpp"

namespace tarn {
namespace {

// Less than this is not worth the system calls.
constexpr std::size_t least_idle_bytes = 64 * kib;
// So much comes from the arena one by one: small programs share pages between pools.
constexpr std::size_t single_bytes = 32 * kib;
constexpr std::size_t least_run_bytes = 64 * kib;
constexpr std::size_t least_run = 8;  // structures: longer ones have whole pages of their own
constexpr std::size_t most_run_bytes = 4 * mib;
constexpr std::size_t runs_at_once = 64;

}  // namespace

metadata_pool::run* metadata_pool::new_run_locked(std::uintptr_t start, std::size_t count, bool is_counted) {
  run* const r = chain::pop(spare_runs_);
  return r != nullptr ? new (r) run{nullptr, start, count, is_counted} : nullptr;
}

bool metadata_pool::ensure_spare_runs(metadata_arena& arena) {
  {
    os::lock_guard guard(lock_);
    if (spare_runs_ != nullptr) return true;
  }
  auto* const some = static_cast<run*>(arena.allocate(runs_at_once * sizeof(run), alignof(run)));
  if (some == nullptr) return false;
  os::lock_guard guard(lock_);
  for (std::size_t i = 0; i < runs_at_once; ++i) spare_runs_ = new (some + i) run{spare_runs_, 0, 0, false};
  return true;
}

void* metadata_pool::take_locked(bool& is_counted) {
  if (link* const single = chain::pop(loose_)) {
    --loose_count_;
    lowest_ = std::min(lowest_, loose_count_);
    is_counted = true;
    return single;
  }
  run* const r = runs_;
  if (r == nullptr) return nullptr;
  is_counted = r->is_counted;
  void* const last = reinterpret_cast<void*>(r->start + --r->count * bytes_);
  if (r->count == 0) chain::push(spare_runs_, chain::pop(runs_));
  return last;
}

void metadata_pool::push_loose_locked(void* structure) {
  loose_ = new (structure) link{loose_};
  ++loose_count_;
}

void* metadata_pool::allocate(metadata_arena& arena) {
  for (;;) {
    std::size_t run_bytes = 0;
    {
      bool is_counted = false;
      os::lock_guard guard(lock_);
      if (void* const structure = take_locked(is_counted)) {
        if (!is_counted) arena.note_used(static_cast<std::ptrdiff_t>(bytes_));
        return structure;
      }
      if (obtained_ * bytes_ >= single_bytes)
        run_bytes = std::clamp(obtained_ * bytes_ / 8, least_run_bytes, most_run_bytes);
    }
    const std::size_t count = run_bytes / bytes_;
    void* start = nullptr;
    if (count >= least_run && ensure_spare_runs(arena))
      start = arena.allocate_sparse(align_up(count * bytes_, os::page_unit()), os::page_unit());
    void* const single = start == nullptr ? arena.allocate(bytes_, alignment_) : nullptr;
    os::lock_guard guard(lock_);
    obtained_ += start != nullptr ? count : 1;
    if (start == nullptr) return single;
    if (run* const r = new_run_locked(address_of(start), count, false)) {
      chain::push(runs_, r);
    } else {  // other threads have taken the spare ones
      push_loose_locked(start);
      arena.note_used(static_cast<std::ptrdiff_t>(bytes_));
    }
  }
}

void metadata_pool::deallocate(void* structure) {
  os::lock_guard guard(lock_);
  push_loose_locked(structure);
  has_returns_ = true;
}

bool metadata_pool::has_work() {
  os::lock_guard guard(lock_);
  return has_returns_ && (loose_count_ - std::min(inherited_, loose_count_)) * bytes_ >= least_idle_bytes;
}

// Takes all loose structures, if most of them were free all through the period. Returns their number.
std::size_t metadata_pool::hold_idle() {
  os::lock_guard guard(lock_);
  const std::size_t idle = std::exchange(lowest_, loose_count_);
  inherited_ = std::min(inherited_, idle);
  if (aging_ != nullptr || !has_returns_ || (idle - inherited_) * bytes_ < least_idle_bytes ||
      idle < loose_count_ / 2)
    return 0;
  inherited_ = 0;
  aging_ = __builtin_thread_pointer();
  has_returns_ = false;
  held_ = std::exchange(loose_, nullptr);
  lowest_ = 0;
  return std::exchange(loose_count_, 0);
}

// What is held stays linked until its addresses are sorted.
bool metadata_pool::sort_held(metadata_arena& arena, std::size_t count) {
  auto* const addresses = static_cast<std::uintptr_t*>(arena.borrow_scratch(count * sizeof(std::uintptr_t)));
  if (addresses == nullptr) return false;
  const link* structure = nullptr;
  {
    os::lock_guard guard(lock_);
    structure = held_;
  }
  for (std::size_t i = 0; i < count; ++i, structure = structure->next) addresses[i] = address_of(structure);
  std::sort(addresses, addresses + count);
  os::lock_guard guard(lock_);
  sorted_ = {addresses, 0, count};
  held_ = nullptr;
  return true;
}

// Makes runs of adjacent structures that have whole pages. The others are loose again. False: none are left.
bool metadata_pool::make_runs_locked() {
  constexpr std::size_t at_once = 1024;
  for (const std::size_t begin = sorted_.next;
       sorted_.next < sorted_.count && sorted_.next - begin < at_once;) {
    const std::uintptr_t start = sorted_.addresses[sorted_.next];
    std::uintptr_t end = start;
    for (; sorted_.next < sorted_.count && sorted_.addresses[sorted_.next] == end; ++sorted_.next)
      end += bytes_;
    run* r = nullptr;
    if (!os::whole_units(start, end, os::page_unit()).empty()) {
      r = new_run_locked(start, (end - start) / bytes_, true);
      has_returns_ = has_returns_ || r == nullptr;  // the next period goes on
    }
    if (r != nullptr) {
      chain::push(going_, r);
      continue;
    }
    for (std::uintptr_t at = start; at != end; at += bytes_) push_loose_locked(reinterpret_cast<void*>(at));
  }
  return sorted_.next < sorted_.count;
}

// What is held, or on its way, is free as before.
void metadata_pool::end_aging_locked() {
  while (link* const single = chain::pop(held_)) push_loose_locked(single);
  while (sorted_.next < sorted_.count)
    push_loose_locked(reinterpret_cast<void*>(sorted_.addresses[sorted_.next++]));
  chain::prepend(runs_, going_);
  going_ = nullptr;
  aging_ = nullptr;
}

void metadata_pool::give_back(metadata_arena& arena) {
  run* r = nullptr;
  {
    os::lock_guard guard(lock_);
    r = going_;
  }
  for (; r != nullptr; r = r->next) {
    const os::address_range whole = os::whole_units(r->start, r->start + r->count * bytes_, os::page_unit());
    if (!os::purge_own(whole.memory(), whole.bytes())) continue;
    r->is_counted = false;
    arena.note_used(-static_cast<std::ptrdiff_t>(r->count * bytes_));
  }
}

void metadata_pool::age(metadata_arena& arena) {
  const std::size_t count = hold_idle();
  if (count == 0) return;
  const bool is_sorted = sort_held(arena, count);
  for (bool more = is_sorted; more;) {
    ensure_spare_runs(arena);
    os::lock_guard guard(lock_);
    more = make_runs_locked();
  }
  give_back(arena);
  {
    os::lock_guard guard(lock_);
    end_aging_locked();
  }
  if (is_sorted) arena.end_scratch();
}

void metadata_pool::forget_holds() {
  os::lock_guard guard(lock_);
  if (aging_ != nullptr && aging_ != __builtin_thread_pointer()) end_aging_locked();
  inherited_ = lowest_ = loose_count_;
}

void metadata_pool::validate_locked() const {
  std::size_t loose = 0;
  for (const link* single = loose_; single != nullptr; single = single->next) ++loose;
  TARN_INVARIANT("metadata_pool", this, loose == loose_count_);
  TARN_INVARIANT("metadata_pool", this, lowest_ <= loose_count_);
  for (const run* r = runs_; r != nullptr; r = r->next) TARN_INVARIANT("metadata_pool", this, r->count != 0);
}

}  // namespace tarn
