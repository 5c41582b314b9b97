// SPDX-License-Identifier: MIT
// processor_caches: one cache per processor, for threads that have none of their own because there are many of them. So
// the bytes in caches are bounded by the number of processors.
//
// A processor has one word per class: `top` of the loaded magazine of the class, or of one of two arrays that are empty
// and full at once: none() (the class has no magazine) and busy().
//
//    m->slots[0]  bottom()                       top                      bottom() + m->count
//   +------------+--------+--- … ---+--------+--------+------- … ------+----------+
//   |    null    | object |         | object |        not used         | end_mark |
//   +------------+--------+--- … ---+--------+--------+------- … ------+----------+
//
// A hit is one restartable sequence (os/restartable.hpp): it moves `top` by one slot, and the store of `top` is its
// last instruction. A miss sets the word to busy() by another sequence. Whoever has done that owns the bin: the
// magazine, the spare magazine's place and the capacity. No sequence stores a word that is busy(), so the owner may
// sleep and may move to another processor; it ends with an ordinary store of `top`. Threads that find busy() use the
// spans meanwhile and do not wait.
//
// base_[p] is the array of the words of processor p, or null: then the sequences fail. To take what other processors
// hold (drain()), a thread sets all of them to null and stops all sequences (stop_all()); from then on until it sets
// them again, every word that is not busy() is its own. tests/model/processors.pml explores this.
//
// A forked child finds base_ zeroed (MADV_WIPEONFORK), however it was made. Its copy of the words was made while other
// threads were changing them, so the first miss in the child makes them all none(): at most the bytes of the
// processors' caches are lost to the child.
//
// Owner: the engine has one. Thread safety: any thread. Invariants, for each class of each processor, while its word is
// neither busy() nor none() and no sequence is stopped in it, m being its magazine:
//   - m->bottom() <= top <= m->bottom() + m->count; m->count <= m->capacity; m->slots[0] is null; the slots in
//     [m->bottom(), top) hold free objects with their free_mark set; the slot at m->bottom() + m->count is the first
//     that holds end_mark;
//   - most <= processor_capacity(class), and the bin has at most 2 * most objects, all paid for from cache_budget.
// So all objects in the caches of one processor have at most most_bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "os/restartable.hpp"
#include "slots/central.hpp"
#include "slots/free_mark.hpp"
#include "slots/magazine_bin.hpp"
#include "threads/cache_budget.hpp"
#include "threads/registry.hpp"

namespace tarn {

class processor_caches {
 public:
  // Of a processor.
  static constexpr std::size_t most_bytes = 4 * mib;
  // With `automatic`, threads have caches of their own while there are at most this many of these caches, and at most
  // caches_per_processor for each processor.
  static constexpr std::size_t least_thread_caches = 16;
  static constexpr std::size_t caches_per_processor = 2;

  enum class use : std::uint8_t { automatic, on, off };

  constexpr processor_caches(central& c, cache_budget& budget, thread_cache_registry& registry)
      : central_(c), budget_(budget), registry_(registry) {}

  // Takes effect for a thread when it begins to allocate, and at a miss in a processor's cache.
  void set_use(use wanted) { use_.store(wanted, std::memory_order_relaxed); }
  // The gates see the program's calls of vfork. With `automatic`, no thread shares before: a child of vfork that nobody
  // has seen would use sequences that the kernel does not restart.
  void note_vfork_is_followed() { vfork_is_followed_.store(true, std::memory_order_relaxed); }

  // Which caches the calling thread is to use: one of its own, also while another thread finds out whether there can be
  // these, or these. The first call that finds enough threads makes system calls.
  enum class answer : std::uint8_t { own, processors };
  answer choose_for_this_thread();

  // In a forked child. `in_use`: by its only thread.
  void note_forked_child(bool in_use) {
    threads.store(in_use ? 1 : 0, std::memory_order_relaxed);
    // The thread that was finding out does not exist in the child.
    if (state_.load(std::memory_order_relaxed) == state::asking)
      state_.store(state::not_asked, std::memory_order_relaxed);
  }

  // An object of the class. Null: a miss; call allocate_slow().
  TARN_ALWAYS_INLINE void* pop(unsigned size_class) {
    void* const object = os::restartable::pop(bases(), size_class);
    if (TARN_LIKELY(object != nullptr)) free_mark::clear(central_.map(), size_class, object);
    return object;
  }
  // Takes a free object, with its mark set, back. False: call free_slow().
  TARN_ALWAYS_INLINE bool push(unsigned size_class, void* object) {
    return os::restartable::push(bases(), size_class, object);
  }
  // Null: no memory.
  void* allocate_slow(unsigned size_class);
  void free_slow(unsigned size_class, void* object);

  // Ends a period of decay: flushes spare magazines of bins whose word is the same as at the end of the last period.
  // Returns whether there is another bin.
  bool end_period();
  // Empties the bins that end_period() found unused, or all. Does nothing if other threads' sequences cannot be
  // stopped.
  void drain(bool all);

  // Bytes of the free objects in the caches; approximate while threads use them.
  [[nodiscard]] std::size_t cached_bytes() const;

  // Threads that use these caches.
  std::atomic<std::size_t> threads{0};

 private:
  friend class processor_caches_test_access;

  using word = std::atomic<void**>;

  struct table {
    // First member: os::restartable knows the table by the address of its words.
    word words[size_classes::count];
    spare_magazine<magazine> spares[size_classes::count];
    std::uint8_t most[size_classes::count];  // objects in each magazine; written by the bin's owner
    std::atomic<void**> last_words[size_classes::count];  // as end_period() found them
    std::atomic<std::uint32_t> slow_calls;
    std::uint8_t home;
    unsigned processor;
    table* next;  // never changes
  };

  // The page that a forked child finds zeroed, and more of them for more processors.
  struct shared_pages {
    std::atomic<std::uint32_t> is_own;  // 0: this process has not yet made the words anew
    bool drained;                       // a thread is draining; under the registry's lock
    std::atomic<std::uintptr_t*> base[os::restartable::most_processors];
  };

  class owned_bin;

  enum class state : std::uint8_t { not_asked, asking, usable, not_usable };

  [[nodiscard]] os::restartable::bases bases() const {
    return reinterpret_cast<os::restartable::bases>(pages_->base);
  }
  // acquire: partners of the releases in prepare() and make_words_anew().
  [[nodiscard]] bool has_words() const {
    return state_.load(std::memory_order_acquire) == state::usable &&
           pages_->is_own.load(std::memory_order_acquire) != 0;
  }
  [[nodiscard]] std::size_t thread_caches_wanted();
  state prepare();
  bool make_table();
  void make_words_anew();
  bool close();
  void open();
  magazine* take_unused(table& t, unsigned size_class, bool all);

  static constexpr std::uintptr_t no_slots[2] = {0, os::restartable::end_mark};
  static constexpr std::uintptr_t busy_slots[2] = {0, os::restartable::end_mark};
  static void** none() { return reinterpret_cast<void**>(const_cast<std::uintptr_t*>(no_slots + 1)); }
  static void** busy() { return reinterpret_cast<void**>(const_cast<std::uintptr_t*>(busy_slots + 1)); }

  central& central_;
  cache_budget& budget_;
  thread_cache_registry& registry_;
  shared_pages* pages_ = nullptr;
  std::atomic<table*> tables_{nullptr};
  std::atomic<bool> vfork_is_followed_{false};
  std::atomic<std::size_t> automatic_caches_{least_thread_caches};
  std::atomic<state> state_{state::not_asked};
  std::atomic<use> use_{use::automatic};
};

}  // namespace tarn
