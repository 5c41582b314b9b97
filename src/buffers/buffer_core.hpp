// SPDX-License-Identifier: MIT
// buffer_core: one buffer pool, untyped.
//
// A buffer is one span in state `buffer`, its owner this pool. Given back, it is kept whole and backed; what is beyond the
// budget is `leaving`: the background thread gives it to the system, and until then it may still be taken. A request is
// served by the shortest kept span that fits (kept_spans::fits), else by a part of a longer one; a miss that the kept
// spans together could have served gives the oldest of them to the page heap first, so that what is kept follows the
// sizes in use and neighbours become one again; then the page heap is asked, whose free memory may be warm too.
//
// Structures of pools are never given back to the system, so that who comes to an ended one late finds one. Thread safety:
// any thread. Its lock guards what the comments say and is never held across a system call.
// Invariants: live_bytes_ = sum over spans in state `buffer` that this pool owns;
//   kept_.pages() <= the budget, but between two statements under one lock;
//   used_ unless the pool has ended, live_ = 0 and pins_ = 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "buffers/buffer_budget.hpp"
#include "buffers/buffer_memory.hpp"
#include "os/mutex.hpp"
#include "pages/kept_spans.hpp"
#include "tarn/detail/buffer_abi.hpp"

namespace tarn {

enum class buffer_failure : std::uint8_t { none, no_memory, not_lockable, over_budget };

class buffer_core {
 public:
  static constexpr std::size_t smallest = 64 * kib;
  // Page tables reach no further; also keeps page counts within 32 bits.
  static constexpr std::size_t largest = std::size_t{1} << 44;
  static constexpr std::size_t largest_alignment = 1 * gib;
  static constexpr std::size_t longest_name = 127;
  // Behind each buffer of a checked pool: filled when it is handed out, looked at when it comes back.
  static constexpr std::size_t guard_bytes = 4 * kib;
  // So much may be on its way to the system; whoever gives back more does it himself.
  static constexpr std::size_t most_leaving = 64 * mib;

  buffer_core() = default;
  buffer_core(const buffer_core&) = delete;
  buffer_core& operator=(const buffer_core&) = delete;

  static bool makes_sense(const tarn_buffer_request& request);

  // Becomes the pool that was asked for, if it is none now.
  bool claim(const tarn_buffer_request& request);
  // Requires: nobody gets from it any more.
  void end();

  // The buffer's span; null with `failure` set. *capacity: what may be used of it.
  span* get(std::size_t bytes, std::size_t* capacity, buffer_failure& failure);
  // Requires: `s` was in state `buffer` and of this pool, and the caller has won it.
  void take_back(span* s);

  buffer_failure reserve(std::size_t bytes, std::size_t count);
  // Gives all that is kept and leaving to the system; returns the bytes.
  std::size_t trim();
  // Gives it to the page heap, where everybody finds it.
  void give_to_heap(bool only_if_locked);

  // One period of decay.
  void age(std::int64_t now_ms);
  [[nodiscard]] bool has_work();
  // What the background thread does soon: gives back what is leaving, gets buffers ready.
  void run_errands();

  [[nodiscard]] bool figures(tarn_buffer_figures& out, char* name);
  // Good while it has live buffers.
  [[nodiscard]] const char* name() const { return name_; }
  [[nodiscard]] bool is_checked() const { return settings_.checked; }

  os::mutex& lock() { return lock_; }
  void after_fork_in_child();

  // Set once, by the registry, before others see the pool.
  buffer_core* next = nullptr;

 private:
  struct settings {
    std::size_t alignment_pages = 1;
    std::size_t budget = 0;
    std::int64_t idle_ms = 0;
    std::size_t ahead = 0;
    tarn_buffer_prefault prefault = tarn_buffer_prefault_never;
    tarn_buffer_huge_pages huge = tarn_buffer_huge_automatic;
    bool zeroed = false;
    bool locked = false;
    bool wiped_on_fork = false;
    bool checked = false;
    std::size_t guard = 0;  // bytes
  };

  // What get() found, under one lock.
  struct find_result {
    span* found = nullptr;
    bool is_longer = false;  // to be cut
    std::int64_t since_ms = 0;
    bool is_zero = false;
    bool errands = false;
  };

  [[nodiscard]] std::size_t pages_for_request(std::size_t bytes) const;
  [[nodiscard]] std::size_t usable_bytes(const span* s) const;
  [[nodiscard]] bool may_drop() const { return !settings_.locked; }
  [[nodiscard]] bool is_huge() const { return settings_.huge == tarn_buffer_huge_always; }
  [[nodiscard]] std::size_t budget_bytes() const;

  find_result find_locked(std::size_t pages);
  bool note_demand_locked(std::size_t pages);
  void cut(span* s, std::size_t pages, const find_result& of);
  void make_room(std::size_t pages);
  span* take_fresh(std::size_t pages, buffer_failure& failure);
  span* take_fresh_once(std::size_t pages, bool may_reclaim, buffer_failure& failure);
  bool lock_again(const span* s);
  void zero(span* s, bool used);
  void hand_out(span* s);

  void leave_locked(span* s);
  void evict_locked(std::size_t keep_bytes);
  void settle();
  std::size_t discard(span* s);
  void release_to_heap(span* s);
  void unpin_locked();
  std::size_t discard_leaving(std::size_t keep_bytes);
  bool prepare_one();

  void set_guard(const span* s) const;
  void check_guard(const span* s) const;

  os::mutex lock_{os::lock_rank::pools};
  bool used_ = false;   // guarded by lock_
  bool ended_ = false;  // guarded by lock_
  // guarded by lock_; whoever works on the pool, with the lock free, for nobody who uses it
  std::size_t pins_ = 0;
  bool forked_ = false;               // guarded by lock_; what is kept may not be locked any more
  settings settings_;                 // written by claim() only
  char name_[longest_name + 1] = {};  // likewise
  kept_spans kept_;                   // guarded by lock_
  span_list leaving_;                 // guarded by lock_; in state `kept`, oldest first
  std::size_t leaving_bytes_ = 0;     // guarded by lock_
  std::size_t wanted_pages_ = 0;      // guarded by lock_; of the buffers to get ready; 0: none
  // Guarded by lock_. What preparer_, mostly the background thread, gets ready; found by a forked child.
  span* preparing_ = nullptr;
  const void* preparer_ = nullptr;
  // guarded by lock_
  std::uint64_t gets_ = 0;
  std::uint64_t hits_ = 0;
  std::uint64_t live_ = 0;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t given_back_ = 0;
  std::uint64_t prepared_ = 0;
  std::uint64_t zeroed_by_memset_ = 0;
  std::uint64_t zeroed_by_system_ = 0;
};

}  // namespace tarn
