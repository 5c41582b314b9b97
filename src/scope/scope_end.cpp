// SPDX-License-Identifier: MIT
// scope_core's end: what leaves, what survives and goes to the heir, and what becomes inaccessible.
#include <cstdint>

#include "base/chain.hpp"
#include "os/memory.hpp"
#include "scope/scope_core.hpp"

namespace tarn {

struct scope_core::departure {
  span_list leaving;
  span_list closing;  // to be made inaccessible
  bool withholds = false;
  std::size_t given = 0;  // bytes that leave and are charged
  std::size_t held = 0;   // bytes of spans that stay
  std::size_t large_bytes = 0;
  std::uint64_t blocks[size_classes::count] = {};  // 0: large ones
};

// Divides a chunk into what leaves and what stays, for `heir`; null: all leaves. Requires: the locks of both.
void scope_core::sort_out_locked(scope_chunk* chunk, scope_core* heir, departure& d) {
  span* run = nullptr;
  std::size_t run_pages = 0;
  const auto end_run = [&] {
    if (run == nullptr) return;
    if (run->pages < run_pages) engine::heap.join(run, run_pages);
    d.leaving.push_back(run);
    run = nullptr;
  };
  for_each_span(chunk, [&](span* s) TARN_NOT_ANALYZED {
    const bool is_live = s->list != dirty && s->list != clean && s->free_objects != s->capacity;
    if (!is_live || heir == nullptr) {
      if (run != nullptr && run->start + (run_pages << page_shift) != s->start) end_run();
      if (run == nullptr) {
        run = s;
        run_pages = 0;
      }
      run_pages += s->pages;
      d.given += s->list != clean ? s->bytes() : 0;
      chunk->used -= s->pages;
      s->size_class = 0;
      s->owner.store(nullptr, std::memory_order_relaxed);
      s->state.store(span_state::purging, std::memory_order_relaxed);
      return;
    }
    end_run();
    const auto live = static_cast<std::size_t>(s->capacity - s->free_objects);
    d.blocks[s->size_class] += live;
    d.held += s->bytes();
    heir->own_bytes_ += s->bytes();
    if (is_cut(s)) {
      heir->small_bytes_ += live * class_info(s->size_class).size;
    } else {
      heir->large_bytes_ += s->bytes();
      d.large_bytes += s->bytes();
    }
    if (d.withholds && !is_withheld(s)) {
      s->list = closing;
      d.closing.push_back(s);
    } else if (s->list == cut && s->free_objects != 0) {
      heir->room_[s->size_class].push_front(s);
    }
  });
  end_run();
  if (chunk->used == 0) {
    chunk->owner.store(nullptr, std::memory_order_relaxed);
    scope_chunks.deallocate(chunk);
  } else if (heir != nullptr) {
    chain::insert(heir->chunks_, chunk);
    // release: partner of the acquire in owner_of(), so that a thread in the heir's scope that frees a block without a
    // lock sees that the block's span is being withheld.
    chunk->owner.store(heir, std::memory_order_release);
  }
}

void scope_core::empty_lists_locked() {
  chunks_ = nullptr;
  for (span_list& room : room_) room = {};
  dirty_ = {};
  clean_ = {};
  own_bytes_ = dirty_bytes_ = least_dirty_ = small_bytes_ = large_bytes_ = 0;
}

void scope_core::reset() {
  departure d;
  {
    os::lock_guard guard(lock_, *this);
    for (scope_chunk* chunk = chunks_; chunk != nullptr;) {
      scope_chunk* const next = chunk->next;
      sort_out_locked(chunk, nullptr, d);
      chunk = next;
    }
    empty_lists_locked();
  }
  give_back(d.leaving, SIZE_MAX);
  uncharge(d.given);
}

// Makes the survivors of a span inaccessible, unless all of them have been freed meanwhile.
void scope_core::withhold(span* s) {
  if (((s->start | s->bytes()) & (os::system_page_size() - 1)) == 0)
    os::forbid_access(reinterpret_cast<void*>(s->start), s->bytes());
  scope_core* core = nullptr;
  const bool is_empty = with_owner(s, [&](scope_core& owner) TARN_NOT_ANALYZED {
    core = &owner;
    s->list = is_cut(s) ? cut_withheld : large_withheld;
    if (s->free_objects != s->capacity) return false;
    owner.detach_locked(s);
    ++owner.leaving_;
    return true;
  });
  if (is_empty) core->give_back_withheld(s);
}

// A span that has been inaccessible. Requires: ++leaving_ after it was detached.
void scope_core::give_back_withheld(span* s) {
  os::allow_access(reinterpret_cast<void*>(s->start), s->bytes());
  span_list leaving;
  leaving.push_back(s);
  end_leaving(leaving, s->bytes(), 0);
}

void scope_core::finish(scope_core& heir, bool withholds, tarn_scope_report& report) TARN_NOT_ANALYZED {
  departure d;
  d.withholds = withholds;
  os::mutex& first = order > heir.order ? lock_ : heir.lock_;
  os::mutex& second = order > heir.order ? heir.lock_ : lock_;
  {
    os::lock_guard guard(first);
    os::lock_guard inner(second);
    for (scope_chunk* chunk = chunks_; chunk != nullptr;) {
      scope_chunk* const next = chunk->next;
      sort_out_locked(chunk, &heir, d);
      chunk = next;
    }
    empty_lists_locked();
  }
  if (engine::guards.samples() != 0)
    engine::guards.hand_over(this, &heir, [&d](unsigned c) { ++d.blocks[class_in_scope(c)]; });
  report = {};
  report.peak = peak();
  report.held = d.held;
  for (unsigned i = 1; i <= size_classes::count; ++i) {
    const unsigned c = i % size_classes::count;
    if (d.blocks[c] == 0) continue;
    tarn_scope_survivors& row = report.classes[report.count++];
    row = {class_info(c).size, d.blocks[c], c == 0 ? d.large_bytes : d.blocks[c] * class_info(c).size, 0};
    report.blocks += row.blocks;
    report.bytes += row.bytes;
  }
  report.given = d.given;
  give_back(d.leaving, options_.keep);
  while (span* const s = d.closing.pop_front()) withhold(s);
  uncharge(d.given);
}

}  // namespace tarn
