// SPDX-License-Identifier: MIT
// heap_samples: the blocks that the heap profile knows, from their allocation to free, and what was allocated at each
// call path. byte_samples chooses the blocks.
//
// A sampled block lies in a span of state `sampled`, whose pages have class 0 in the page map, as those of large blocks
// do. So the fast path of free() fails for it, and no other block pays for that. Small ones share spans (sample_cells);
// above sample_cells::largest_block each has its own. A sampled large block is an ordinary large block, with its sample
// in span::owner. In a scope blocks above sample_cells::largest_block lie in the scope (scope_core::allocate_followed()).
//
// Owner: the engine has one. Thread safety: all members may be called by any thread. The lock guards samples, cells and
// sites; memory is taken and given back, and call paths are found, while it is free. A live sample belongs to the thread
// that owns its block, as far as its address and size are concerned.
// Each live sample belongs to an owner: to a scope, if its block was allocated there, or to nobody in particular.
// Invariants: live_count_ is the length of all owners' lists, and the sum of live_samples over the sites; the list of
// owners has those that have samples; a sample in cells is that of its first cell; sample_cells.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/mutex.hpp"
#include "pages/page_map.hpp"
#include "samples/byte_samples.hpp"
#include "samples/followed/black_box.hpp"
#include "samples/followed/call_sites.hpp"
#include "samples/followed/sample_cells.hpp"
#include "slots/central.hpp"

namespace tarn {

struct live_sample;

// Whom live samples belong to. It may end when it has none.
struct sample_owner {
  live_sample* first = nullptr;
  sample_owner* next = nullptr;
  sample_owner* previous = nullptr;
};

struct live_sample {
  live_sample* next;  // of the owner
  live_sample* previous;
  sample_owner* owner;
  std::uintptr_t address;
  std::size_t requested;
  std::size_t taken;  // the bytes that the block takes, as malloc_usable_size() returns them
  std::uint64_t weight;
  std::uint64_t weighted_bytes;
  std::int64_t born_ns;
  call_site* site;
  sample_cells* cells;  // null: it lies in a span of its own
  bool is_in_place;     // of add(): it lies where it would lie without the profile
  bool is_large;        // in place: a large block; else one of a class that has pages of its own
};

class heap_samples {
 public:
  constexpr heap_samples(metadata_arena& metadata, page_map& map, central& c)
      : metadata_(metadata), map_(map), central_(c) {}

  // A sampled block for a request of `requested` bytes that takes `taken` bytes, the size of an object of a class; it
  // is aligned to the largest power of two up to a page that divides them. Null: no memory, or sampling has ended.
  // `owner`: null: nobody in particular.
  void* allocate(byte_samples& samples, std::size_t requested, std::size_t taken,
                 sample_owner* owner = nullptr);
  // The sample of a large block that has just been allocated. `taken`: the bytes by which byte_countdown has chosen it.
  // Null: as above.
  live_sample* add(byte_samples& samples, std::uintptr_t address, std::size_t requested, std::size_t taken,
                   sample_owner* owner = nullptr);
  // The same for a block for which byte_samples::follow() has given the weight. Null: no memory.
  live_sample* add_followed(std::uint64_t weight, std::uintptr_t address, std::size_t requested,
                            std::size_t taken, bool is_large, sample_owner* owner);
  // Tells tracers that the block ends. They find its sample by the address, so call it before another block can have that.
  static void announce_end(const live_sample* sample);
  // Of add(): the block has been freed, or is about to change its length. Requires: announced.
  void remove(live_sample* sample);
  // The same with the sample in span::owner.
  void add_large(byte_samples& samples, span* s, std::size_t requested, std::size_t taken) {
    s->owner.store(add(samples, s->start, requested, taken), std::memory_order_relaxed);
  }
  void remove_large(span* s) {
    if (TARN_UNLIKELY(s->owner.load(std::memory_order_relaxed) != nullptr)) remove_large_slow(s);
  }

  // Gives the live samples of an owner to another one; visit(sample) for each, under the lock. Call while no thread
  // allocates for `from`.
  template <class Visit>
  void hand_over(sample_owner& from, sample_owner& to, Visit visit) {
    const locked guard(*this);
    while (live_sample* const s = from.first) {
      leave_locked(s);
      join_locked(s, to);
      visit(*s);
    }
  }

  // Whether the span, which contains the address, has sampled blocks (other than large ones).
  static bool has(const span* s) { return s->state.load(std::memory_order_relaxed) == span_state::sampled; }
  // The bytes that the block takes; 0: no live block begins there. Requires: has(s).
  std::size_t size_of(const span* s, const void* block);
  // Frees the block and returns its bytes; 0: no live block begins there. Requires: has(s).
  std::size_t deallocate(span* s, void* block);

  // Calls visit(site) for each site under the lock.
  template <class Visit>
  void for_each_site(Visit visit) {
    const locked guard(*this);
    sites_.for_each(visit);
  }
  // Calls visit(sample) for each live sample under the lock.
  template <class Visit>
  void for_each_live(Visit visit) {
    const locked guard(*this);
    for (const sample_owner* o = owners_; o != nullptr; o = o->next) {
      for (const live_sample* s = o->first; s != nullptr; s = s->next) visit(*s);
    }
  }
  [[nodiscard]] std::size_t live_count() const { return live_count_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t site_count() const { return site_count_.load(std::memory_order_relaxed); }

  // The figures of call sites are copied into it from now on, so that they outlive the process.
  black_box& box() { return box_; }
  // As the box's, beside samples.
  [[nodiscard]] bool take_due_box_figures();
  // Where a reader of the process's core file finds them.
  [[nodiscard]] constexpr core_root::places places() const TARN_NOT_ANALYZED { return sites_.places(); }

  void walk_store_locks(const os::lock_walk& walk) {
    walk.visit(samples_.lock());
    walk.visit(cell_store_.lock());
  }
  os::mutex& lock() TARN_RETURNS_LOCK(lock_) { return lock_; }
  void validate_locked() const TARN_REQUIRES(lock_);

 private:
  friend class heap_samples_test_access;

  struct request {
    sample_owner* owner;
    std::size_t requested;
    std::size_t taken;
    std::uint64_t weight;
  };

  // Holds the lock. Checks less often while there are many samples: a check walks along all of them.
  class TARN_SCOPED_CAPABILITY locked {
   public:
    explicit locked(heap_samples& s) TARN_ACQUIRE(s.lock_) TARN_NOT_ANALYZED : samples_(s) { s.lock_.lock(); }
    ~locked() TARN_RELEASE() TARN_NOT_ANALYZED {
      if (os::is_check_due(16 * (samples_.live_count() + samples_.site_count()))) samples_.validate_locked();
      samples_.lock_.unlock();
    }
    locked(const locked&) = delete;
    locked& operator=(const locked&) = delete;

   private:
    heap_samples& samples_;
  };

  // What the box is to get at the next change of figures. Call without the lock.
  black_box::heap_bytes prepare_box();
  void write_box_ranges();
  void write_box_locked(const live_sample& sample, const black_box::heap_bytes& heap, bool begins)
      TARN_REQUIRES(lock_);
  live_sample* new_sample();
  void record_here(live_sample* sample, const request& r);
  void record(live_sample* sample, const request& r, const std::uintptr_t* frames, std::size_t count);
  // Its memory comes from pools with locks of their own.
  call_sites::memory prepare_site(std::size_t frames) TARN_NOT_ANALYZED {
    return sites_.prepare(metadata_, frames);
  }
  void link_locked(live_sample* sample, const request& r, call_site* site) TARN_REQUIRES(lock_);
  void unlink_locked(live_sample* sample, std::int64_t now_ns) TARN_REQUIRES(lock_);
  void join_locked(live_sample* sample, sample_owner& owner) TARN_REQUIRES(lock_);
  void leave_locked(live_sample* sample) TARN_REQUIRES(lock_);
  bool place(live_sample* sample);
  bool place_in_cells(live_sample* sample, std::size_t step);
  bool place_in_own_span(live_sample* sample);
  bool add_cells();
  live_sample* find_locked(const span* s, std::uintptr_t address) TARN_REQUIRES(lock_);
  void leave_cells_locked(live_sample* sample, sample_cells*& emptied) TARN_REQUIRES(lock_);
  void list_locked(sample_cells* cells) TARN_REQUIRES(lock_);
  void unlist_locked(sample_cells* cells) TARN_REQUIRES(lock_);
  void begin_use_locked(span* s, void* owner, std::size_t capacity) TARN_REQUIRES(lock_);
  void end_use_locked(span* s) TARN_REQUIRES(lock_);
  void remove_large_slow(span* s);

  metadata_arena& metadata_;
  page_map& map_;
  central& central_;
  metadata_pool samples_{sizeof(live_sample), cache_line};
  metadata_pool cell_store_{sizeof(sample_cells), cache_line};

  os::mutex lock_{os::lock_rank::samples};
  black_box box_;
  std::uint32_t written_epoch_ TARN_GUARDED_BY(lock_) = 0;  // of the box that has all sites
  call_sites sites_ TARN_GUARDED_BY(lock_);
  sample_owner* owners_ TARN_GUARDED_BY(lock_) = nullptr;
  sample_owner nobody_ TARN_GUARDED_BY(lock_);
  std::atomic<std::size_t> live_count_{0};  // written under lock_
  std::atomic<std::size_t> site_count_{0};  // likewise
  // The cells with room; those that lately had none for a block are last.
  linked_list<sample_cells> roomy_ TARN_GUARDED_BY(lock_);
};

}  // namespace tarn
