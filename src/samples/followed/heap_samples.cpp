// SPDX-License-Identifier: MIT
#include "samples/followed/heap_samples.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "base/chain.hpp"
#include "os/clock.hpp"
#include "os/probe.hpp"
#include "unwind/stack_walk.hpp"

TARN_PROBE_SEMAPHORE(otel_memory, alloc)
TARN_PROBE_SEMAPHORE(otel_memory, free)

namespace tarn {

namespace {

// Spans with room that are tried before another one is added. More would take time under the lock.
constexpr int most_looks = 8;

// Where this library's code lies, in one word: pages of 4 KiB, so that no lock and no order is needed. In a program that
// is linked with the archive there is no such range.
class own_code {
 public:
  static bool contains(std::uintptr_t address) {
    static constinit std::atomic<std::uint64_t> known{0};
    std::uint64_t range = known.load(std::memory_order_relaxed);
    if (range == 0) {
      range = find();
      known.store(range, std::memory_order_relaxed);
    }
    return (address >> page_bits) - (range >> length_bits) < (range & ((1U << length_bits) - 1));
  }

 private:
  static constexpr unsigned page_bits = 12;
  static constexpr unsigned length_bits = 20;

  static std::uint64_t find() {
    unwind::loaded_module own;
    if (!unwind::find_module_lock_free(reinterpret_cast<std::uintptr_t>(&find), own) || own.path == nullptr ||
        *own.path == '\0') {
      return std::uint64_t{1} << length_bits;  // no page
    }
    const std::uint64_t first = own.start >> page_bits;
    return first << length_bits | (((own.end - 1) >> page_bits) + 1 - first);
  }
};

// The allocator's own frames, which begin every path.
std::size_t own_frames(const std::uintptr_t* frames, std::size_t count) {
  std::size_t own = 0;
  while (own < count && own_code::contains(frames[own] - 1)) ++own;
  return own == count ? 0 : own;
}

}  // namespace

// ---- samples ----

live_sample* heap_samples::new_sample() {
  void* const memory = samples_.allocate(metadata_);
  return memory != nullptr ? new (memory) live_sample{} : nullptr;
}

black_box::heap_bytes heap_samples::prepare_box() {
  if (TARN_LIKELY(!box_.is_wanted())) return {};
  box_.prepare();
  write_box_ranges();
  const page_heap_stats pages = central_.heap().stats();
  return {pages.in_use - pages.dropped, pages.free_dirty + pages.ahead, metadata_.used()};
}

void heap_samples::write_box_ranges() {
  if (box_.ranges_version() == central_.heap().ranges_version() + metadata_.region_count()) return;
  central_.heap().with_ranges([this](const heap_ranges& ranges) { box_.write_ranges(ranges, metadata_); });
}

bool heap_samples::take_due_box_figures() {
  if (!box_.is_wanted()) return false;
  write_box_ranges();
  const locked guard(*this);
  return box_.take_due_figures();
}

void heap_samples::write_box_locked(const live_sample& sample, const black_box::heap_bytes& heap,
                                    bool begins) {
  if (TARN_LIKELY(!box_.is_wanted())) return;
  box_.write(*sample.site, begins);
  // A child's new box gets the sites that it has inherited, as many at a time as there is room for.
  if (written_epoch_ != box_.epoch()) {
    bool is_complete = true;
    sites_.for_each([&](call_site& each) {
      const bool is_there = each.box_epoch == box_.epoch() || each.figures.live_samples == 0;
      is_complete = is_complete && (is_there || box_.write(each, false));
    });
    if (is_complete) written_epoch_ = box_.epoch();
  }
  const auto bytes = static_cast<std::int64_t>(sample.weighted_bytes);
  box_.note_change(heap, begins ? bytes : -bytes,
                   site_figures::variance_of(sample.weight, sample.weighted_bytes));
}

void heap_samples::link_locked(live_sample* sample, const request& r, call_site* site) {
  sample->site = site;
  sample->requested = r.requested;
  sample->taken = r.taken;
  sample->weight = r.weight;
  sample->weighted_bytes = byte_samples::weighted(r.weight, r.taken);
  join_locked(sample, r.owner != nullptr ? *r.owner : nobody_);
  live_count_.store(live_count() + 1, std::memory_order_relaxed);
  site->figures.note_allocated(sample->weight, sample->weighted_bytes);
}

void heap_samples::unlink_locked(live_sample* sample, std::int64_t now_ns) {
  leave_locked(sample);
  live_count_.store(live_count() - 1, std::memory_order_relaxed);
  sample->site->figures.note_freed(sample->weight, sample->weighted_bytes,
                                   static_cast<std::uint64_t>(now_ns - sample->born_ns));
}

void heap_samples::join_locked(live_sample* sample, sample_owner& owner) {
  if (owner.first == nullptr) chain::insert(owners_, &owner);
  chain::insert(owner.first, sample);
  sample->owner = &owner;
}

void heap_samples::leave_locked(live_sample* sample) {
  sample_owner& owner = *sample->owner;
  chain::erase(owner.first, sample);
  if (owner.first == nullptr) chain::erase(owners_, &owner);
}

// Links a sample whose block has its place.
void heap_samples::record(live_sample* sample, const request& r, const std::uintptr_t* frames,
                          std::size_t count) {
  const std::size_t own = own_frames(frames, count);
  frames += own;
  count -= own;
  const std::uint64_t hash = call_sites::hash_of(frames, count);
  sample->born_ns = os::now_ns();
  const black_box::heap_bytes heap = prepare_box();
  for (call_sites::memory memory;;) {
    {
      const locked guard(*this);
      bool can_add = false;
      call_site* site = sites_.find(hash, frames, count, can_add);
      if (site == nullptr && !can_add) site = sites_.other();
      if (site == nullptr && memory.site != nullptr) site = sites_.add(memory, hash, frames, count);
      site_count_.store(sites_.count(), std::memory_order_relaxed);
      if (site != nullptr) {
        link_locked(sample, r, site);
        return write_box_locked(*sample, heap, true);
      }
    }
    memory = prepare_site(count);
    if (memory.site == nullptr) {
      const locked guard(*this);
      link_locked(sample, r, sites_.other());
      return write_box_locked(*sample, heap, true);
    }
  }
}

// Inlined: the path begins with the frame of the caller.
TARN_ALWAYS_INLINE void heap_samples::record_here(live_sample* sample, const request& r) {
  std::uintptr_t frames[call_sites::most_frames];
  const std::size_t count = unwind::walk(unwind::here(), frames, call_sites::most_frames);
  record(sample, r, frames, count);
  TARN_PROBE_IF_WANTED(otel_memory, alloc, reinterpret_cast<void*>(sample->address), r.taken,
                       sample->weighted_bytes);
}

// ---- places ----

void heap_samples::list_locked(sample_cells* cells) {
  cells->is_listed = true;
  roomy_.push_front(cells);
}

void heap_samples::unlist_locked(sample_cells* cells) {
  cells->is_listed = false;
  roomy_.remove(cells);
}

// Takes cells for sample->taken bytes. False: the spans with room that were tried have none for so many.
bool heap_samples::place_in_cells(live_sample* sample, std::size_t step) {
  const locked guard(*this);
  const std::size_t wanted = sample_cells::cells_for(sample->taken);
  for (int looks = 0; looks < most_looks && !roomy_.empty(); ++looks) {
    sample_cells* const cells = roomy_.front();
    const std::size_t at = cells->take(wanted, step);
    if (cells->free_cells == 0 || at == sample_cells::none) unlist_locked(cells);
    if (at != sample_cells::none) {
      cells->first[at] = sample;
      sample->cells = cells;
      sample->address = cells->memory->start + at * sample_cells::cell_bytes;
      return true;
    }
    // To the end of the list.
    cells->is_listed = true;
    roomy_.push_back(cells);
  }
  return false;
}

// `s` is the caller's. Under the lock, because a thread with a bad pointer may look at the span.
void heap_samples::begin_use_locked(span* s, void* owner, std::size_t capacity) {
  s->owner.store(owner, std::memory_order_relaxed);
  s->capacity = static_cast<std::uint16_t>(capacity);
  s->state.store(span_state::sampled, std::memory_order_relaxed);
}

bool heap_samples::add_cells() {
  void* const memory = cell_store_.allocate(metadata_);
  span* const s = memory == nullptr ? nullptr
                                    : central_.take_pages(sample_cells::span_pages, 1, span_state::purging,
                                                          page_heap::use::sparse);
  if (s == nullptr) {
    if (memory != nullptr) cell_store_.deallocate(memory);
    return false;
  }
  auto* const cells = new (memory) sample_cells;
  cells->memory = s;
  map_.map_pages(s);
  const locked guard(*this);
  begin_use_locked(s, cells, sample_cells::count);
  list_locked(cells);
  return true;
}

bool heap_samples::place_in_own_span(live_sample* sample) {
  span* const s =
      central_.take_pages(pages_for(sample->taken), 1, span_state::purging, page_heap::use::filled);
  if (s == nullptr) return false;
  sample->address = s->start;
  const locked guard(*this);
  begin_use_locked(s, sample, 1);
  return true;
}

bool heap_samples::place(live_sample* sample) {
  if (sample->taken > sample_cells::largest_block) return place_in_own_span(sample);
  const std::size_t alignment = sample->taken & (~sample->taken + 1);
  const std::size_t step = std::max<std::size_t>(alignment / sample_cells::cell_bytes, 1);
  while (!place_in_cells(sample, step)) {
    if (!add_cells()) return false;
  }
  return true;
}

void heap_samples::end_use_locked(span* s) {
  s->owner.store(nullptr, std::memory_order_relaxed);
  s->capacity = 0;
  s->state.store(span_state::purging, std::memory_order_relaxed);
}

// ---- blocks ----

TARN_NOINLINE void* heap_samples::allocate(byte_samples& samples, std::size_t requested, std::size_t taken,
                                           sample_owner* owner) {
  const std::uint64_t weight = samples.follow(taken, os::now_ms());
  live_sample* const sample = weight != 0 ? new_sample() : nullptr;
  if (sample == nullptr) return nullptr;
  sample->taken = taken;
  if (!place(sample)) {
    samples_.deallocate(sample);
    return nullptr;
  }
  record_here(sample, {owner, requested, taken, weight});
  return reinterpret_cast<void*>(sample->address);
}

TARN_NOINLINE live_sample* heap_samples::add(byte_samples& samples, std::uintptr_t address,
                                             std::size_t requested, std::size_t taken, sample_owner* owner) {
  const std::uint64_t weight = samples.follow(taken, os::now_ms());
  return weight != 0 ? add_followed(weight, address, requested, taken, true, owner) : nullptr;
}

TARN_NOINLINE live_sample* heap_samples::add_followed(std::uint64_t weight, std::uintptr_t address,
                                                      std::size_t requested, std::size_t taken, bool is_large,
                                                      sample_owner* owner) {
  live_sample* const sample = new_sample();
  if (sample == nullptr) return nullptr;
  sample->address = address;
  sample->is_in_place = true;
  sample->is_large = is_large;
  record_here(sample, {owner, requested, taken, weight});
  return sample;
}

void heap_samples::announce_end(const live_sample* sample) {
  TARN_PROBE_IF_WANTED(otel_memory, free, reinterpret_cast<void*>(sample->address));
}

void heap_samples::remove_large_slow(span* s) {
  auto* const sample = static_cast<live_sample*>(s->owner.exchange(nullptr, std::memory_order_relaxed));
  if (sample == nullptr) return;
  announce_end(sample);
  remove(sample);
}

void heap_samples::remove(live_sample* sample) {
  const std::int64_t now = os::now_ns();
  const black_box::heap_bytes heap = prepare_box();
  {
    const locked guard(*this);
    unlink_locked(sample, now);
    write_box_locked(*sample, heap, false);
  }
  samples_.deallocate(sample);
}

live_sample* heap_samples::find_locked(const span* s, std::uintptr_t address) {
  void* const owner = s->owner.load(std::memory_order_relaxed);
  // Another thread may have freed the block, and the span, since the caller looked.
  if (!has(s) || owner == nullptr || !s->contains(address)) return nullptr;
  if (s->capacity == 1) return s->start == address ? static_cast<live_sample*>(owner) : nullptr;
  const std::size_t distance = address - s->start;
  if (distance % sample_cells::cell_bytes != 0) return nullptr;
  return static_cast<sample_cells*>(owner)->first[distance / sample_cells::cell_bytes];
}

std::size_t heap_samples::size_of(const span* s, const void* block) {
  const locked guard(*this);
  const live_sample* const sample = find_locked(s, address_of(block));
  return sample != nullptr ? sample->taken : 0;
}

// `emptied`: the span's cells if no block is left in it and other cells have room.
void heap_samples::leave_cells_locked(live_sample* sample, sample_cells*& emptied) {
  sample_cells* const cells = sample->cells;
  const std::size_t at = (sample->address - cells->memory->start) / sample_cells::cell_bytes;
  cells->first[at] = nullptr;
  cells->give_back(at, sample_cells::cells_for(sample->taken));
  if (!cells->is_listed) list_locked(cells);
  if (cells->free_cells == sample_cells::count && (cells->next != nullptr || cells->previous != nullptr)) {
    unlist_locked(cells);
    end_use_locked(cells->memory);
    emptied = cells;
  }
}

std::size_t heap_samples::deallocate(span* s, void* block) {
  const std::int64_t now = os::now_ns();
  const black_box::heap_bytes heap = prepare_box();
  live_sample* sample = nullptr;
  sample_cells* emptied = nullptr;
  {
    const locked guard(*this);
    sample = find_locked(s, address_of(block));
    if (sample == nullptr) return 0;
    announce_end(sample);
    unlink_locked(sample, now);
    write_box_locked(*sample, heap, false);
    if (sample->cells != nullptr) {
      leave_cells_locked(sample, emptied);
    } else {
      end_use_locked(s);
    }
  }
  const std::size_t taken = sample->taken;
  const bool has_own_span = sample->cells == nullptr;
  samples_.deallocate(sample);
  if (has_own_span) central_.heap().deallocate(s);
  if (emptied != nullptr) {
    central_.heap().deallocate(emptied->memory);
    cell_store_.deallocate(emptied);
  }
  return taken;
}

void heap_samples::validate_locked() const {
  sites_.validate();
  std::size_t live = 0;
  for (const sample_owner* o = owners_; o != nullptr; o = o->next) {
    TARN_INVARIANT("heap_samples", o, chain::is_linked(owners_, o) && o->first != nullptr);
    for (const live_sample* s = o->first; s != nullptr; s = s->next, ++live) {
      TARN_INVARIANT("heap_samples", s, chain::is_linked(o->first, s) && s->owner == o);
      const sample_cells* const cells = s->cells;
      if (cells == nullptr) continue;
      const std::size_t at = (s->address - cells->memory->start) / sample_cells::cell_bytes;
      TARN_INVARIANT("heap_samples", s, cells->first[at] == s && cells->is_taken(at));
    }
  }
  TARN_INVARIANT("heap_samples", this, live == live_count());
  std::size_t of_sites = 0;
  sites_.for_each([&](const call_site& site) { of_sites += site.figures.live_samples; });
  TARN_INVARIANT("heap_samples", this, of_sites == live);
  roomy_.validate();
  for (const sample_cells* c = roomy_.front(); c != nullptr; c = c->next) {
    TARN_INVARIANT("heap_samples", c, c->is_listed);
    TARN_INVARIANT("heap_samples", c, c->bits_set() + c->free_cells == sample_cells::count);
    std::size_t of_blocks = 0;
    for (const live_sample* s : c->first) of_blocks += s != nullptr ? sample_cells::cells_for(s->taken) : 0;
    TARN_INVARIANT("heap_samples", c, of_blocks == c->bits_set());
  }
}

}  // namespace tarn
