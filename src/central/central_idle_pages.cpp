// SPDX-License-Identifier: MIT
// The part of central that gives back pages of spans in use: whole system pages of free objects between live ones
// (docs/design/0038).
//
// When a program has freed most objects of a class in random order, a few live ones keep the spans, and many pages of
// them hold nothing. Objects cannot move, but the pages can go: they read as zero when they are used again.
//
// Thread safety: while the system is called, without a lock, the free objects of the span are taken, as those in a
// magazine are, so that no thread gets them, and the span stays. One span at a time: what this thread holds while another
// thread forks is lost to the child.
// Invariant: a dropped page holds no marks (free_mark.hpp), so a free object in a span whose free_when_looked is not 0 may
// lack its mark; every other one has it (central::validate()). take_objects() marks the objects of such a span again.
#include <algorithm>

#include "central/central.hpp"
#include "central/free_mark.hpp"
#include "os/memory.hpp"
#include "os/thread.hpp"

namespace tarn {
namespace {

// Of each occupancy list, spans looked at in vain before the list is left alone for this time.
constexpr std::size_t looks = 64;
// Fuller spans are used before long, and hardly any of their pages are free from end to end.
constexpr unsigned least_free_eighths = 4;
constexpr std::size_t most_words = objects::words(class_info(1).objects);

// The free objects of a span, taken.
struct taken_objects {
  const span* from = nullptr;
  std::uintptr_t start = 0;  // of the span
  std::uintptr_t first = 0;  // of its first object
  std::size_t capacity = 0;
  std::uint64_t bits[most_words];

  [[nodiscard]] bool has(std::size_t i) const {
    return (bits[i / objects::bits_per_word] & objects::bit_of(i)) != 0;
  }
  // Calls visit(from, to) for each run of system pages that lie wholly in these objects, or before the first object of
  // the span.
  template <class Visit>
  void for_each_run(std::size_t size, Visit visit) const {
    const std::size_t page = os::system_page_size();
    for (std::size_t i = 0; i < capacity; ++i) {
      const std::size_t begin = i;
      while (i < capacity && has(i)) ++i;
      const std::uintptr_t low = align_up(begin == 0 ? start : first + begin * size, page);
      const std::uintptr_t high = align_down(first + i * size, page);
      if (i != begin && low < high) visit(low, high);
    }
  }
};

}  // namespace

// Takes all free objects of a span some pages of which they fill, and which has more of them than at the last look.
// False: none found.
static bool take_idle_objects(object_depot& d, std::size_t size, taken_objects& out) {
  os::lock_guard guard(d.lock, d);
  span* const s = d.find_sparse(least_free_eighths, looks, [&](span* each) {
    if (each->free_objects <= each->free_when_looked) return false;
    each->free_when_looked = each->free_objects;
    out.capacity = each->capacity;
    out.start = each->start;
    out.first = objects::first_of(each);
    std::copy_n(each->free_bits, objects::words(each->capacity), out.bits);
    bool has_pages = false;
    out.for_each_run(size, [&](std::uintptr_t, std::uintptr_t) { has_pages = true; });
    return has_pages;
  });
  if (s == nullptr) return false;
  out.from = s;
  std::fill_n(s->free_bits, objects::words(s->capacity), std::uint64_t{0});
  d.change_free_count(s, -static_cast<int>(s->free_objects));
  return true;
}

std::size_t central::purge_idle_pages_of(object_depot& d, unsigned size_class, std::size_t most) {
  constexpr std::size_t at_once = 64;
  const std::size_t size = class_info(size_class).size;
  std::size_t purged = 0;
  taken_objects held;
  for (std::size_t seen = 0; seen < most && !os::background_thread_must_end();) {
    if (!take_idle_objects(d, size, held)) break;
    held.for_each_run(size, [&](std::uintptr_t from, std::uintptr_t to) {
      if (heap_.purge_within(held.from, from, to - from)) purged += to - from;
    });
    void* back[at_once];
    std::size_t count = 0;
    const auto put_back = [&] {
      if (count != 0) flush_draining(size_class, put_back_all(size_class, back, count, false, no_home));
      count = 0;
    };
    for (std::size_t i = 0; i < held.capacity; ++i) {
      if (!held.has(i)) continue;
      seen += size;
      back[count++] = reinterpret_cast<void*>(held.first + i * size);
      if (count == at_once) put_back();
    }
    put_back();
    settle(size_class);
  }
  return purged;
}

bool central::objects_are_marked(const span& s) {
  for (std::size_t i = 0; !hardened_build && s.free_when_looked == 0 && i < s.capacity; ++i) {
    if (objects::is_free(&s, i) && !free_mark::is_set(objects::at(&s, i))) return false;
  }
  return true;
}

std::size_t central::purge_idle_pages(bool all) {
  std::size_t purged = 0;
  for (unsigned c = 1; c < size_classes::count; ++c) {
    for_each_depot(c, [&](object_depot& d) {
      // What was free all through the last period; requests are served from the fullest spans, so these are the others.
      const std::size_t idle = d.idle_slots.load(std::memory_order_relaxed) * std::size_t{class_info(c).size};
      const bool is_due = d.draining.load(std::memory_order_relaxed) && idle >= object_depot::drain_from;
      if (all || is_due) purged += purge_idle_pages_of(d, c, all ? ~std::size_t{0} : idle);
    });
  }
  return purged;
}

}  // namespace tarn
