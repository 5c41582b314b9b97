// SPDX-License-Identifier: MIT
// idle_pages: gives back pages of spans in use: whole system pages of free objects between live ones (docs/design/0038).
//
// When a program has freed most objects of a class in random order, a few live ones keep the spans, and many pages of them
// hold nothing. Objects cannot move, but the pages can go: they read as zero when they are used again. A span of which
// pages have gone is unlisted (free_mark.hpp) until objects are taken from it.
//
// Thread safety: any thread; no lock is held while the system is called. A thread that has read the page map before a span
// was unlisted or listed does no harm: both ways of free() are right for a live object of a listed span, and of an unlisted
// one.
#pragma once

#include "pages/page_heap.hpp"
#include "pages/page_map.hpp"
#include "slots/class_depots.hpp"

namespace tarn {

class idle_pages {
 public:
  constexpr idle_pages(class_depots& depots, page_map& map, page_heap& heap)
      : depots_(depots), map_(map), heap_(heap) {}

  // Gives pages of classes that hold much idle memory back to the system; returns their bytes. Makes system calls. `all`: of
  // all classes, and also what was used in the last period.
  std::size_t purge(bool all);

  // What is known of a pointer into a page without a class. `size_class` 0: it points into no unlisted span. `fault`: what
  // freeing it shows, as a message, or null. `has_changed`: its page has a class by now, so the caller begins anew.
  struct unlisted {
    unsigned size_class = 0;
    const char* fault = nullptr;
    bool has_changed = false;
  };
  // Takes the lock of a depot.
  unlisted look_up(const void* object);

 private:
  struct front;

  class_depots& depots_;
  page_map& map_;
  page_heap& heap_;
};

}  // namespace tarn
