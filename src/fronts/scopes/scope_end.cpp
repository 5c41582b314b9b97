// SPDX-License-Identifier: MIT
// scope_core's end: what leaves, what survives and goes to the heir, and what becomes inaccessible.
#include <cstdint>
#include <cstring>

#include "base/chain.hpp"
#include "fronts/scopes/scope_core.hpp"
#include "os/memory.hpp"

namespace tarn {

struct scope_core::departure {
  scope_leaving left;
  span_list closing;  // to be made inaccessible
  bool withholds = false;
  std::size_t held = 0;  // bytes of spans that stay
  std::size_t large_bytes = 0;
  struct survivors {
    std::uint64_t blocks;
    std::uint32_t site;   // of most of the sampled ones, if one site has most of them; else of one of them
    std::int32_t margin;  // samples of that site without as many of others (the vote of Boyer and Moore)
  };
  survivors classes[size_classes::count] = {};  // 0: large ones

  // Divides all regions of a scope into what leaves and what stays, for `heir`; null: all leaves. Requires: the locks of
  // both.
  void sort_out(scope_core& from, scope_core* heir) TARN_NOT_ANALYZED;
  void add(const live_sample& sample);
  remains put(tarn_scope_report* report) const;

 private:
  void add(span* s);
  void end_run();
  void leave_to(scope_core& heir, span* s) TARN_NOT_ANALYZED;
  static unsigned row_of(const live_sample& sample);

  span_run run_;  // neighbours that leave and have not been joined yet
};

// A span leaves its region. Spans of a region come in the order of their addresses.
void scope_core::departure::add(span* s) {
  left.bytes += s->list != clean ? s->bytes() : 0;
  region_of(s)->used -= s->pages;
  leave_region(s);
  if (!run_.continues_at(s)) end_run();
  run_.add(s);
}

void scope_core::departure::end_run() {
  if (run_.empty()) return;
  left.spans.push_back(engine::heap.join(run_));
  run_ = {};
}

// Of the rows of survivors, that of a followed block.
unsigned scope_core::departure::row_of(const live_sample& sample) {
  return sample.is_large ? 0 : class_in_scope(class_of_size(sample.taken));
}

// A survivor that the heap profile follows. One that lies in the scope has been counted. Nothing is asked of its span, as
// another thread may be freeing it.
void scope_core::departure::add(const live_sample& sample) {
  survivors& of = classes[row_of(sample)];
  if (!sample.is_in_place) ++of.blocks;
  const std::uint32_t site = sample.site->number;
  if (of.margin == 0) of.site = site;
  of.margin += of.site == site ? 1 : -1;
}

// A span with live blocks becomes the heir's.
void scope_core::departure::leave_to(scope_core& heir, span* s) {
  const auto live = static_cast<std::size_t>(s->capacity - s->free_objects);
  const unsigned row = is_cut(s) || s->sample == nullptr ? s->size_class : row_of(*s->sample);
  classes[row].blocks += live;
  held += s->bytes();
  heir.own_bytes_ += s->bytes();
  if (is_cut(s)) {
    heir.small_bytes_ += live * class_info(s->size_class).size;
  } else {
    heir.large_bytes_ += s->bytes();
    if (row == 0) large_bytes += s->bytes();
  }
  if (withholds && !is_withheld(s)) {
    s->list = scope_core::closing;
    closing.push_back(s);
  } else if (s->list == cut && s->free_objects != 0) {
    heir.room_[s->size_class].push_front(s);
  }
}

void scope_core::departure::sort_out(scope_core& from, scope_core* heir) {
  while (scope_region* const region = chain::pop(from.regions_)) {
    for_each_span(region, [&](span* s) TARN_NOT_ANALYZED {
      const bool is_live = s->list != dirty && s->list != clean && s->free_objects != s->capacity;
      if (is_live && heir != nullptr) {
        end_run();
        leave_to(*heir, s);
      } else {
        add(s);
      }
    });
    end_run();
    if (region->used == 0) {
      region->owner.store(nullptr, std::memory_order_relaxed);
      scope_regions.deallocate(region);
    } else if (heir != nullptr) {
      chain::insert(heir->regions_, region);
      // release: partner of the acquire in owner_of(), so that a thread in the heir's scope that frees a block without a
      // lock sees that the block's span is being withheld.
      region->owner.store(heir, std::memory_order_release);
    }
  }
  for (span_list& room : from.room_) room = {};
  from.dirty_ = {};
  from.clean_ = {};
  from.own_bytes_ = from.dirty_bytes_ = from.least_dirty_ = from.small_bytes_ = from.large_bytes_ = 0;
  from.begin_leaving_locked(left);
}

void scope_core::reset() {
  departure d;
  {
    os::lock_guard guard(lock_, *this);
    d.sort_out(*this, nullptr);
  }
  end_leaving(d.left, SIZE_MAX);
}

// Makes the survivors of a span inaccessible, unless all of them have been freed meanwhile.
void scope_core::withhold(span* s) {
  if (((s->start | s->bytes()) & (os::system_page_size() - 1)) == 0)
    os::forbid_access(reinterpret_cast<void*>(s->start), s->bytes());
  scope_leaving empty;
  with_owner(s, [&](scope_core& owner) TARN_NOT_ANALYZED {
    // Atomic: a thread in the heir's scope reads it without the lock (free_scoped()); it sees no `cut` in either case.
    __atomic_store_n(&s->list, is_cut(s) ? cut_withheld : large_withheld, __ATOMIC_RELAXED);
    if (s->free_objects != s->capacity) return;
    owner.detach_locked(s, empty);
    owner.begin_leaving_locked(empty);
  });
  give_back_withheld(empty);
}

// A span that has been inaccessible, or none. The system may refuse to make it accessible (a process has only so many
// mappings): then nobody gets it, but its memory goes back.
void scope_core::give_back_withheld(scope_leaving& l) {
  if (const span* const s = l.spans.front()) {
    void* const memory = reinterpret_cast<void*>(s->start);
    if (!os::allow_access(memory, s->bytes())) {
      os::purge(memory, s->bytes());
      l.spans.pop_front();
    }
  }
  end_leaving(l, 0);
}

// The rows of the classes, smallest first; large blocks, which have class 0, are the last.
scope_core::remains scope_core::departure::put(tarn_scope_report* report) const {
  remains all;
  for (unsigned i = 1; i <= size_classes::count; ++i) {
    const unsigned c = i % size_classes::count;
    const auto [blocks, site, margin] = classes[c];
    if (blocks == 0) continue;
    const std::uint64_t bytes = c == 0 ? large_bytes : blocks * class_info(c).size;
    if (report != nullptr) report->classes[report->count++] = {class_info(c).size, blocks, bytes, site};
    all.blocks += blocks;
    all.bytes += bytes;
  }
  return all;
}

scope_core::remains scope_core::finish(scope_core& heir, bool withholds,
                                       tarn_scope_report* report) TARN_NOT_ANALYZED {
  departure d;
  d.withholds = withholds;
  os::mutex& first = order > heir.order ? lock_ : heir.lock_;
  os::mutex& second = order > heir.order ? heir.lock_ : lock_;
  {
    os::lock_guard guard(first);
    os::lock_guard inner(second);
    d.sort_out(*this, &heir);
  }
  if (engine::guards.samples() != 0)
    engine::guards.hand_over(this, &heir, [&d](unsigned c) { ++d.classes[class_in_scope(c)].blocks; });
  if (engine::samples.live_count() != 0)
    engine::samples.hand_over(sampled, heir.sampled, [&d](const live_sample& s) { d.add(s); });
  if (report != nullptr) {
    std::memset(report, 0, sizeof *report);
    report->peak = peak();
    report->held = d.held;
    report->given = d.left.bytes;
  }
  const remains all = d.put(report);
  if (report != nullptr) {
    report->blocks = all.blocks;
    report->bytes = all.bytes;
  }
  end_leaving(d.left, options_.keep);
  while (span* const s = d.closing.pop_front()) withhold(s);
  return all;
}

}  // namespace tarn
