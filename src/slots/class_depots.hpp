// SPDX-License-Identifier: MIT
// class_depots: the depots of malloc's classes. A class has one depot, that of home 0, until threads of several homes take
// much from it; then each home has one (docs/design/0026). A span belongs to one depot, whose home it holds, and its
// objects go back there, whichever thread frees them.
//
// Thread safety: any thread. No thread owns the free objects of a span (docs/design/0001): their bits are guarded by the
// lock of their depot, taken once per magazine. Objects are put back after their spans have been looked up, which is where
// the cache misses occur; under the lock mostly lines are written that are in the cache already.
// Invariants, while all locks are held: spare_bytes_ == sum of the bytes of the depots' spare spans; bit c of sparse_[h] is
// `sparse` of class c's depot of home h; a class has count() depots; each span has the home of its depot and that depot as
// its owner, and it is listed exactly if all its free objects have their mark (free_mark.hpp). (validate())
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "pages/metadata_arena.hpp"
#include "pages/page_map.hpp"
#include "slots/home_counts.hpp"
#include "slots/magazine.hpp"
#include "slots/size_class.hpp"
#include "slots/slot_depot.hpp"

namespace tarn {

class class_depots {
 public:
  // With at least this much memory in spare spans, decay is woken when another span becomes spare.
  static constexpr std::size_t spare_watch_bytes = 1 * mib;
  // Of larger objects fewer are used per second, and what lies free in one home, or in magazines, and is needed
  // elsewhere weighs more: they have one depot, and few magazines wait.
  static constexpr std::size_t largest_shared = 256;

  constexpr class_depots(metadata_arena& metadata, page_map& map) : metadata_(metadata), map_(map) {}

  home_counts& homes() { return homes_; }

  slot_depot& at(unsigned size_class, unsigned home = 0) {
    return const_cast<slot_depot&>(std::as_const(*this).at(size_class, home));
  }
  [[nodiscard]] const slot_depot& at(unsigned size_class, unsigned home = 0) const {
    if (home == 0) return first_[size_class];
    // acquire: partner of the release in open().
    const slot_depot* const own = others_[home - 1][size_class].load(std::memory_order_acquire);
    return own != nullptr ? *own : first_[size_class];
  }
  // The depot that threads of the home take from.
  slot_depot& to_take_from(unsigned size_class, unsigned home) {
    slot_depot& d = at(size_class, home);
    if (TARN_LIKELY(d.home == home || !is_shared_[size_class].load(std::memory_order_relaxed))) return d;
    return open(size_class, home);
  }
  [[nodiscard]] unsigned count(unsigned size_class) const {
    return 1U + more_[size_class].load(std::memory_order_relaxed);
  }
  // Calls visit(depot) for all depots of the class.
  template <class Visit>
  void for_each(unsigned size_class, Visit visit) {
    visit(first_[size_class]);
    if (TARN_LIKELY(count(size_class) == 1)) return;
    for (unsigned home = 1; home < home_counts::most; ++home) {
      slot_depot& d = at(size_class, home);
      if (d.home != 0) visit(d);
    }
  }
  void walk_locks(const os::lock_walk& walk);
  // In a forked child, whose only thread holds all locks. `parent`: its process; 0: not known.
  void after_fork_in_child(int parent);
  // Ends a period of decay: what a child has inherited is its own when its parent has ended.
  void look_for_parent();
  // From now on it takes slots from all spans, also from those that it has inherited: there is no other memory.
  void use_inherited();
  // A thread of this home takes from the depot, which is that of home 0.
  void note_taker(slot_depot& d, unsigned size_class, unsigned home) TARN_REQUIRES(d.lock);

  enum class lookup : std::uint8_t { done, changed, none };
  // Calls work(depot, size_class) under the lock of the depot that the span belongs to. changed: it was divided, moved or
  // given back meanwhile; none: it is not cut into objects.
  template <class Work>
  lookup with_depot_of(const span& s, Work work) {
    if (s.state.load(std::memory_order_relaxed) != span_state::cut) return lookup::none;
    const unsigned size_class = TARN_PLAIN_LOAD(s.size_class);
    // acquire: partner of the release where a span gets another depot.
    const unsigned home = s.home.load(std::memory_order_acquire);
    if (size_class == 0 || home >= home_counts::most) return lookup::none;
    slot_depot& d = at(size_class, home);
    os::lock_guard guard(d.lock, d);
    if (s.home.load(std::memory_order_acquire) != d.home || s.size_class != size_class)
      return lookup::changed;
    return work(d, size_class);
  }

  // ---- objects ----

  // Takes at most `most` free objects out of spans of the depot, for a thread of this home. The objects found lie at the end
  // of the first `most` slots of `m`, the first one on top, so that it is handed out first.
  std::size_t take(slot_depot& d, unsigned size_class, magazine* m, std::size_t most, unsigned home);
  // Puts objects back into the spans of all depots of the class. `given_up`: a higher limit of full magazines would have
  // kept them. Returns one bit for each depot that has begun to drain. Ends the process if an object is free already.
  std::uint32_t put_back(unsigned size_class, void** freed, std::size_t count, bool given_up);

  // ---- spans ----

  // Whether another depot of the class can do without a span; then it moves to `own`. `partial`: also one that has objects
  // in use. put_back_magazines(depot) is called for a depot whose home has no threads.
  template <class PutBack>
  bool take_spared(slot_depot& own, unsigned size_class, bool partial, PutBack put_back_magazines) {
    if (TARN_LIKELY(count(size_class) == 1)) return false;
    bool moved = false;
    for_each(size_class, [&](slot_depot& other) {
      if (moved || &other == &own || !can_spare(other, own, size_class, partial)) return;
      const bool is_used = homes_.is_used(other.home);
      if (!is_used && other.full_hint() != 0) put_back_magazines(other);
      moved = move_span(other, own, size_class, partial || !is_used);
    });
    return moved;
  }
  // After the counts of a depot have changed: updates `draining` and `sparse`. True: it has just begun to drain.
  bool review(slot_depot& d, unsigned size_class) TARN_REQUIRES(d.lock);
  // After its spare spans have: keeps their sum. True: there are more of them than before.
  bool note_spares(slot_depot& d) TARN_REQUIRES(d.lock);
  [[nodiscard]] std::size_t spare_bytes() const { return spare_bytes_.load(std::memory_order_relaxed); }
  // The most spare spans that the depot keeps.
  [[nodiscard]] std::uint32_t most_spares(const slot_depot& d, unsigned size_class) const;
  // Whether a depot of the class may have more; and whether a span has become spare while spare spans had
  // spare_watch_bytes. The caller deals with it.
  bool take_surplus_news(unsigned size_class) { return take(has_surplus_[size_class]); }
  bool take_spare_news() { return take(spare_news_); }
  void note_spare_news() { spare_news_.store(true, std::memory_order_relaxed); }

  // Hints: whether the class's depot of this home is sparse, and whether any of the home is.
  [[nodiscard]] bool is_sparse(unsigned size_class, unsigned home) const {
    return (sparse_[home][size_class / 64].load(std::memory_order_relaxed) >> (size_class % 64) & 1U) != 0;
  }
  [[nodiscard]] bool has_sparse(unsigned home) const {
    return (sparse_[home][0].load(std::memory_order_relaxed) |
            sparse_[home][1].load(std::memory_order_relaxed)) != 0;
  }

  // ---- figures ----

  // How full the span of an object is, and the other spans of its depot. Objects in magazines count as taken.
  struct occupancy {
    std::size_t taken;            // of the objects of the span; in a span of grains, of its grains
    std::size_t objects;          // of the span
    std::size_t object_size;      // of the span, or the size of its grains
    std::size_t bytes;            // of the span
    std::size_t partial_spans;    // of the depot, with taken and free objects
    std::size_t partial_taken;    // of their objects
    std::size_t partial_objects;  // of these spans
    bool is_next;                 // the span gives the next object
  };
  // Of the span of an object. False: it is cut into objects no more. Takes the lock of a depot.
  bool occupancy_of(const span& s, const void* object, occupancy& out);
  // Whether a span that is cut into objects of one size (grains are not) has no free one. Takes no lock; the answer is
  // that of some moment.
  [[nodiscard]] static bool is_full(const span& s) {
    return !size_classes::is_grain(TARN_PLAIN_LOAD(s.size_class)) && s.free_objects == 0;
  }
  // The spans of a class in all its depots, without spare ones. Takes their locks, one at a time.
  struct class_figures {
    std::size_t spans;      // of a grain class: not known, 0
    std::size_t with_room;  // of these, with free objects
    std::size_t objects;
    std::size_t taken;
  };
  class_figures figures_of(unsigned size_class);

  // Takes the locks of all depots at once, in their order, as fork does.
  void validate() TARN_NOT_ANALYZED;

 private:
  struct class_front;
  std::atomic<int> parent_{0};  // of a forked child, while it lives
  static bool take(std::atomic<bool>& flag) {
    if (TARN_LIKELY(!flag.load(std::memory_order_relaxed))) return false;
    flag.store(false, std::memory_order_relaxed);
    return true;
  }
  slot_depot& open(unsigned size_class, unsigned home);
  span* best_span(const slot_depot& d) const TARN_REQUIRES(d.lock);
  [[nodiscard]] bool can_spare(const slot_depot& d, const slot_depot& to, unsigned size_class,
                               bool partial) const;
  bool move_span(slot_depot& from, slot_depot& to, unsigned size_class, bool partial) TARN_NOT_ANALYZED;
  void put_back_misplaced(unsigned size_class, void* freed);
  std::size_t put_back(slot_depot& d, unsigned size_class, void** freed, span** owners, std::size_t count,
                       std::uint32_t& draining);

  metadata_arena& metadata_;
  page_map& map_;
  alignas(separation) std::atomic<std::size_t> spare_bytes_{0};
  std::atomic<bool> spare_news_{false};
  // One bit per depot, set while it is sparse, written under the depot's lock.
  std::atomic<std::uint64_t> sparse_[home_counts::most][2] = {};
  std::atomic<bool> has_surplus_[size_classes::all] = {};
  // Per class: threads of several homes take much from its only depot.
  std::atomic<bool> is_shared_[size_classes::all] = {};
  home_counts homes_;
  // Per class: the depots besides that of home 0, null: none; and their number. Written under the lock of home 0's.
  std::atomic<std::uint8_t> more_[size_classes::all] = {};
  std::atomic<slot_depot*> others_[home_counts::most - 1][size_classes::all] = {};
  slot_depot first_[size_classes::all];
};

}  // namespace tarn
