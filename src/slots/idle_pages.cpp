// SPDX-License-Identifier: MIT
#include "slots/idle_pages.hpp"

#include <algorithm>

#include "os/own_threads/thread.hpp"
#include "os/report.hpp"
#include "slots/free_mark.hpp"

namespace tarn {
namespace {

// Of each occupancy list, spans looked at in vain before the list is left alone for this time.
constexpr std::size_t most_sparse_looked_at = 64;
// Spans of which the system kept the pages before the others wait: a program may have locked some pages, or all.
constexpr unsigned most_refused = 8;
// Fuller spans are used before long, and hardly any of their pages are free from end to end.
constexpr unsigned least_free_eighths = 4;

}  // namespace

// Looks at spans with about `most` bytes of free objects, until the system refuses. can_wait: also until the background
// thread must end; the next period goes on.
struct idle_pages::front {
  front(idle_pages& all, unsigned its_class, std::size_t most_bytes, bool its_can_wait)
      : pages(all), size_class(its_class), most(most_bytes), can_wait(its_can_wait) {}

  [[nodiscard]] bool goes_on() const {
    return seen < most && times_refused < most_refused && !(can_wait && os::background_thread_must_end());
  }
  void locate(held_slots& slots) const {
    slots.first = objects::first_of(slots.of);
    slots.backed = may_back_unused ? slots.capacity : slots.of->first_unused;
  }
  void take() { free_mark::unlist(pages.map_, held.of); }

  void drop() {
    bool dropped = false;
    bool refused = false;
    held.for_each_page_run([&](const os::address_range& run) {
      if (refused) return;
      refused = !pages.heap_.purge_within(held.of, run.start, run.bytes());
      if (refused) return;
      dropped = true;
      purged += run.bytes();
    });
    seen += held.count() * held.size;
    if (refused) ++times_refused;
    give_back(dropped);
  }

  // The program may have freed one of the objects again meanwhile: then the process ends. `dropped`: their pages have been,
  // so the span stays unlisted. If another thread has divided the span into grains, each object is put back by itself.
  void give_back(bool dropped) {
    span* const s = held.of;
    std::size_t twice = held.capacity;
    bool is_divided = false;
    slot_depot::with_owner(s, [&](slot_depot& d) TARN_NOT_ANALYZED {
      is_divided = s->size_class != size_class;
      if (is_divided) return pages.map_.end_dropped(s);
      twice = d.put_held(held);
      if (pages.depots_.note_spares(d)) pages.depots_.note_spare_news();
      if (TARN_LIKELY(dropped)) return;
      free_mark::list_again(pages.map_, s);
      d.spans.put_last(s);
    });
    if (TARN_UNLIKELY(twice != held.capacity))
      os::fatal("double free, detected when a page of the block went back to the system",
                objects::at(s, twice));
    for (std::size_t i = 0; is_divided && i < held.capacity; ++i) {
      if (!held.has(i)) continue;
      void* object = reinterpret_cast<void*>(held.first + i * held.size);
      free_mark::set(object);
      pages.depots_.put_back(size_class, &object, 1, false);
    }
  }

  idle_pages& pages;
  const unsigned size_class;
  const std::size_t most;
  const bool can_wait;
  const bool may_back_unused = pages.heap_.may_back_unused();
  std::size_t seen = 0;
  std::size_t purged = 0;
  unsigned times_refused = 0;
  std::uint64_t bits[objects::words(class_info(1).objects)];
  held_slots held{class_info(size_class).size, bits};
};

std::size_t idle_pages::purge(bool all) {
  // There a free object is zero from end to end and has no mark; its canary tells that it is live.
  if constexpr (hardened_build) return 0;
  std::size_t purged = 0;
  for (unsigned c = 1; c < size_classes::count; ++c) {
    depots_.for_each(c, [&](slot_depot& d) {
      // What was free all through the last period; requests are served from the fullest spans, so these are the others.
      const std::size_t size = class_info(c).size;
      std::size_t most = d.idle_slots.load(std::memory_order_relaxed) * size;
      if (!all && (!d.draining() || most < slot_depot::drain_from)) return;
      {
        os::lock_guard guard(d.lock, d);
        // Not until none is found: another thread that takes and frees objects makes more of them all the time.
        most = all ? d.spans.free_slots() * size : most - std::min(most, d.inherited * size);
      }
      if (!all && most < slot_depot::drain_from) return;
      front walk(*this, c, most, !all);
      d.drop_idle_pages(walk, walk.held, least_free_eighths, most_sparse_looked_at);
      purged += walk.purged;
    });
  }
  return purged;
}

idle_pages::unlisted idle_pages::look_up(const void* object) {
  using lookup = class_depots::lookup;
  const std::uintptr_t address = address_of(object);
  for (;;) {
    const page_map::entry page = map_.find(address);
    if (page.size_class() != 0) return {0, nullptr, true};
    const span* const s = page.owner(address);
    if (s == nullptr || !s->contains(address)) return {};
    unlisted known;
    // A span is listed, divided and moved under the lock of its depot; the next look then finds its new class or depot.
    const lookup found = depots_.with_depot_of(*s, [&](const slot_depot&, unsigned size_class) {
      if (map_.class_of(address) != 0) return lookup::changed;
      // Without objects in use it is being made or destroyed.
      if (!s->contains(address) || s->free_when_looked == 0) return lookup::none;
      known.size_class = size_class;
      const std::uintptr_t first = objects::first_of(s);
      if (address < first) {
        known.fault = "invalid free of a pointer that is not a block";
      } else if (!is_multiple(address - first, class_info(size_class).reciprocal)) {
        known.fault = "invalid free of a pointer into a block";
      } else if (objects::is_free(s, objects::index_of(s, address)) ||
                 free_mark::is_set(map_, size_class, object)) {
        known.fault = "double free";
      }
      return lookup::done;
    });
    if (found != lookup::changed) return known;
  }
}

}  // namespace tarn
