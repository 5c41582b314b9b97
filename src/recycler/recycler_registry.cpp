// SPDX-License-Identifier: MIT
#include "recycler/recycler_registry.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <new>

#include "os/clock.hpp"
#include "os/process_fence.hpp"
#include "runtime/engine.hpp"
#include "runtime/front.hpp"

extern "C" {
constinit thread_local tarn_recycler_bins tarn_recycler_local_bins{nullptr, 0};
}

namespace tarn::recycler_registry {
namespace {

constexpr std::size_t longest_name = 4000;
constexpr std::size_t first_table = 8;
// How often bins are claimed in one call; a bin whose owner is inside each time is left for the next call.
constexpr int claim_tries = 3;

// The calling thread's bins, linked by recycler_bin::next_of_thread.
struct thread_bins {
  recycler_bin* first;
  bool ended;  // thread_ends() has run: the thread makes no bin any more
};
constinit thread_local thread_bins mine{nullptr, false};

constinit os::mutex lock{os::lock_rank::recyclers};
recycler_core* recyclers = nullptr;         // guarded by lock
tarn_recycler* unused_recyclers = nullptr;  // guarded by lock; freed structures, for reuse with their numbers
std::size_t numbers = 0;                    // guarded by lock; numbers given out so far
recycler_bin* unused_bins = nullptr;        // guarded by lock; structures for reuse
std::uint32_t claims = 0;                   // guarded by lock; the last claim's number

// ---- recyclers ----

// Creates a recycler and links it. Requires: the lock is held; the locks of metadata, taken here, rank after it. Null
// when there is no memory.
tarn_recycler* make_locked(const tarn_recycler_request& request) {
  const std::size_t name_length = std::min(request.name_length, longest_name);
  void* memory = unused_recyclers;
  std::size_t number = numbers;
  if (memory != nullptr) {
    number = unused_recyclers->number;
  } else {
    memory = engine::metadata.allocate(sizeof(tarn_recycler), alignof(tarn_recycler));
  }
  auto* const name = static_cast<char*>(engine::blocks.allocate(name_length + 1));
  if (memory == nullptr || name == nullptr) {
    if (name != nullptr) engine::blocks.deallocate(name, name_length + 1);
    return nullptr;
  }
  std::string_view(request.name, name_length).copy(name, name_length);
  name[name_length] = '\0';
  if (memory == unused_recyclers) {
    unused_recyclers = static_cast<tarn_recycler*>(unused_recyclers->next);
  } else {
    ++numbers;
  }
  auto* const recycler = new (memory) tarn_recycler(request, name);
  recycler->number = number;
  recycler->next = recyclers;
  recyclers = recycler;
  return recycler;
}

// Pins and returns `recycler`, or the first one after it in the list that is not ending; null if there is none.
recycler_core* pin_first_locked(recycler_core* recycler) {
  while (recycler != nullptr && recycler->pins.is_ending()) recycler = recycler->next;
  if (recycler != nullptr) recycler->pins.pin();
  return recycler;
}

// ---- bins ----

void link_locked(recycler_bin* bin, recycler_core* recycler) {
  bin->core = recycler;
  bin->previous = nullptr;
  bin->next = recycler->bins;
  if (bin->next != nullptr) bin->next->previous = bin;
  recycler->bins = bin;
}

// Detaches the bin from its recycler, which keeps the hits that the bin has counted.
void unlink_locked(recycler_bin* bin) {
  (bin->previous != nullptr ? bin->previous->next : bin->core->bins) = bin->next;
  if (bin->next != nullptr) bin->next->previous = bin->previous;
  bin->next = bin->previous = nullptr;
  bin->core->note_hits(bin->hits.load(std::memory_order_relaxed));
  bin->hits.store(0, std::memory_order_relaxed);
  bin->core = nullptr;
}

// Grows the calling thread's table until it has an entry `number`. False when there is no memory.
bool grow_table_to(std::size_t number) {
  tarn_recycler_bins& table = tarn_recycler_local_bins;
  if (number < table.count) return true;
  std::size_t count = table.count != 0 ? table.count : first_table;
  while (count <= number) count *= 2;
  auto** const bins =
      static_cast<tarn_recycler_bin**>(engine::blocks.allocate(count * sizeof(tarn_recycler_bin*)));
  if (bins == nullptr) return false;
  for (std::size_t i = 0; i < count; ++i) bins[i] = i < table.count ? table.bins[i] : nullptr;
  const tarn_recycler_bins old = table;
  table = {bins, count};
  if (old.bins != nullptr) engine::blocks.deallocate(old.bins, old.count * sizeof(tarn_recycler_bin*));
  return true;
}

// Removes the bin from the calling thread's table: the number under which it stands may belong to another recycler by
// now.
void clear_table_entries(const recycler_bin* bin) {
  const tarn_recycler_bins& table = tarn_recycler_local_bins;
  for (std::size_t i = 0; i < table.count; ++i) {
    if (table.bins[i] == bin) table.bins[i] = nullptr;
  }
}

// The calling thread's bin of the recycler; else one of its bins whose recycler is closed, or a new one, linked to the
// recycler. Null when there is no memory.
recycler_bin* find_or_make(recycler_core* recycler) {
  recycler_bin* bin = nullptr;
  {
    os::lock_guard guard(lock);
    recycler_bin* detached = nullptr;
    for (recycler_bin* b = mine.first; b != nullptr; b = b->next_of_thread) {
      if (b->core == recycler) return b;
      if (b->core == nullptr) detached = b;
    }
    if (detached != nullptr) {
      clear_table_entries(detached);
      // close() has left the bin claimed. release: partner of the acquire in enter(), as at the end of any claim.
      link_locked(detached, recycler);
      detached->claimed.store(0, std::memory_order_release);
      return detached;
    }
    bin = unused_bins;
    if (bin != nullptr) unused_bins = bin->next_of_thread;
  }
  void* memory = bin;
  if (memory == nullptr) memory = engine::metadata.allocate(sizeof(recycler_bin), separation);
  if (memory == nullptr) return nullptr;
  bin = new (memory) recycler_bin;
  os::lock_guard guard(lock);
  bin->next_of_thread = mine.first;
  mine.first = bin;
  link_locked(bin, recycler);
  return bin;
}

// ---- access to other threads' bins ----

// Claims the recycler's bins and calls visit(bin) for each whose owner is outside; the owner stays outside meanwhile.
// Returns the number of bins not visited because their owners were inside. `for_good`: tries until all bins are
// visited, and leaves them claimed. The lock is not held during the system call; a bin that is claimed again, or
// unlinked by the end of its thread, meanwhile is not visited.
template <class Visit>
std::size_t with_claimed(recycler_core* recycler, bool for_good, Visit visit) {
  std::size_t missed = 0;
  bool owners_go_on = false;
  for (int tries = 0; for_good || tries < claim_tries; ++tries) {
    // sched_yield() would not let an owner of lower priority run.
    if (owners_go_on) os::sleep_ms(1);
    std::uint32_t claim = 0;
    {
      os::lock_guard guard(lock);
      if (recycler->bins == nullptr) return 0;
      claim = ++claims != 0 ? claims : ++claims;
      for (recycler_bin* b = recycler->bins; b != nullptr; b = b->next) {
        b->claimed.store(claim, std::memory_order_relaxed);
      }
    }
    // Partner: the signal fence in enter(). If the system has no such fence, `busy` proves nothing, and no bin is
    // visited; except for_good, as close() requires that no other thread is inside.
    const bool known = os::process_fence() || for_good;
    missed = 0;
    os::lock_guard guard(lock);
    for (recycler_bin* b = recycler->bins; b != nullptr;) {
      recycler_bin* const next = b->next;
      if (b->claimed.load(std::memory_order_relaxed) == claim) {
        // acquire: partner of the release in leave(); makes the owner's writes to the bin visible.
        if (known && b->busy.load(std::memory_order_acquire) == 0) {
          visit(b);
          // release, here and below: partner of the acquire in enter().
          if (!for_good) b->claimed.store(0, std::memory_order_release);
        } else {
          ++missed;
          b->claimed.store(0, std::memory_order_release);
        }
      }
      b = next;
    }
    if (missed == 0 || !known) break;
    owners_go_on = true;
  }
  return missed;
}

void append(recycler_magazine*& chain, recycler_magazine* more) {
  while (more != nullptr) {
    recycler_magazine* const next = more->next;
    more->next = chain;
    chain = more;
    more = next;
  }
}

}  // namespace

void thread_ends() {
  mine.ended = true;
  recycler_bin* bin = mine.first;
  mine.first = nullptr;
  while (bin != nullptr) {
    recycler_bin* const next = bin->next_of_thread;
    {
      os::lock_guard guard(lock);
      if (recycler_core* const recycler = bin->core) {
        // A thread that has claimed the bin takes objects only under the lock, so this thread needs no claim.
        recycler_magazine* chain = bin->take_all();
        while (chain != nullptr) {
          recycler_magazine* const m = chain;
          chain = m->next;
          recycler->give_magazine(m);
        }
        unlink_locked(bin);
      }
      bin->next_of_thread = unused_bins;
      unused_bins = bin;
    }
    bin = next;
  }
  const tarn_recycler_bins table = tarn_recycler_local_bins;
  tarn_recycler_local_bins = {nullptr, 0};
  if (table.bins != nullptr) engine::blocks.deallocate(table.bins, table.count * sizeof(tarn_recycler_bin*));
}

// ---- parts of recycler_front ----

void trim_all() {
  for_each([](recycler_core& r) { end_generation(&r, true); });
}

void walk_locks(const os::lock_walk& walk) {
  walk.list(lock, [&walk] {
    for (recycler_core* r = recyclers; r != nullptr; r = r->next) walk.visit(r->lock());
  });
}

// Other threads' bins were copied while their threads used them, so the objects in them are lost to the child.
void after_fork_in_child() {
  for (recycler_core* r = recyclers; r != nullptr; r = r->next) {
    r->bins = nullptr;
    r->pins.reset();
  }
  for (recycler_bin* bin = mine.first; bin != nullptr; bin = bin->next_of_thread) {
    recycler_core* const recycler = bin->core;
    bin->busy.store(0, std::memory_order_relaxed);
    if (recycler == nullptr) continue;
    bin->claimed.store(0, std::memory_order_relaxed);
    link_locked(bin, recycler);
  }
  for (recycler_core* r = recyclers; r != nullptr; r = r->next) {
    std::size_t bytes = 0;
    std::size_t objects = 0;
    for (const recycler_bin* b = r->bins; b != nullptr; b = b->next) b->add_payments(bytes, objects);
    r->restart_budget(bytes, objects);
    // Most children exec another program at once, so no thread is started. The next object kept by the slow path sets
    // this again.
    r->watched.store(false, std::memory_order_relaxed);
  }
}

tarn_recycler* create(const tarn_recycler_request& request) {
  engine::attach_thread();
  engine::attach(engine::recycler_front);
  tarn_recycler* recycler = nullptr;
  {
    os::lock_guard guard(lock);
    recycler = make_locked(request);
  }
  if (recycler == nullptr) errno = ENOMEM;
  return recycler;
}

void close(tarn_recycler* recycler) {
  recycler->closed.store(true, std::memory_order_relaxed);
  for (;;) {
    {
      os::lock_guard guard(lock);
      recycler->pins.begin_ending();
      if (recycler->pins.is_free()) break;
    }
    recycler->pins.wait();
  }
  recycler_magazine* chain = nullptr;
  with_claimed(recycler, true, [&chain](recycler_bin* bin) {
    append(chain, bin->take_all());
    // The bin stays in its thread's list, claimed, until the thread reuses it for another recycler or ends.
    unlink_locked(bin);
  });
  append(chain, recycler->rotate_generations(nullptr));
  append(chain, recycler->rotate_generations(nullptr));
  recycler->destroy_chain(chain);
}

void free(tarn_recycler* recycler) {
  const char* const name = recycler->name();
  engine::blocks.deallocate(const_cast<char*>(name), std::char_traits<char>::length(name) + 1);
  os::lock_guard guard(lock);
  recycler_core** link = &recyclers;
  while (*link != recycler) link = &(*link)->next;
  *link = recycler->next;
  recycler->next = unused_recyclers;
  unused_recyclers = recycler;
}

recycler_bin* bin_of(recycler_core* recycler) {
  if (mine.ended || recycler->closed.load(std::memory_order_relaxed)) return nullptr;
  const std::size_t number = recycler->number;
  if (number < tarn_recycler_local_bins.count) {
    auto* const bin = static_cast<recycler_bin*>(tarn_recycler_local_bins.bins[number]);
    if (bin != nullptr && bin->core == recycler) return bin;
  }
  engine::attach_thread();
  if (!grow_table_to(number)) return nullptr;
  recycler_bin* const bin = find_or_make(recycler);
  tarn_recycler_local_bins.bins[number] = bin;
  return bin;
}

recycler_magazine* steal(recycler_core* recycler) {
  os::lock_guard guard(lock);
  for (recycler_bin* b = recycler->bins; b != nullptr; b = b->next) {
    if (recycler_magazine* const m = b->take_spare_magazine()) return m;
  }
  return nullptr;
}

std::size_t end_generation(recycler_core* recycler, bool all) {
  // Cleared first: an object that becomes idle from here on either sets it again, or is found below.
  recycler->watched.store(false, std::memory_order_relaxed);
  recycler_magazine* gathered = nullptr;
  const std::size_t missed =
      with_claimed(recycler, false, [&gathered](recycler_bin* bin) { append(gathered, bin->take_all()); });
  {
    os::lock_guard guard(lock);
    recycler->generation_began_ms = os::now_ms();
    // Spare magazines of bins that could not be claimed need no claim.
    for (recycler_bin* b = recycler->bins; missed != 0 && b != nullptr; b = b->next) {
      if (recycler_magazine* const m = b->take_spare_magazine()) {
        m->next = gathered;
        gathered = m;
      }
    }
  }
  recycler_magazine* chain = recycler->rotate_generations(gathered);
  if (all) append(chain, recycler->rotate_generations(nullptr));
  if (missed != 0 || !recycler->is_empty()) recycler->watched.store(true, std::memory_order_relaxed);
  return recycler->destroy_chain(chain);
}

std::int64_t end_due_generations(std::int64_t now_ms, bool all) {
  std::int64_t next = -1;
  for_each([&](recycler_core& r) {
    if (!r.watched.load(std::memory_order_relaxed)) return;
    // Memory pressure, which ends all generations, is looked for at least this often.
    constexpr std::int64_t pressure_ms = 1000;
    const std::int64_t cycle = r.cycle_ms() != 0 ? r.cycle_ms() : std::numeric_limits<std::int64_t>::max();
    std::int64_t since = 0;
    {
      os::lock_guard guard(lock);
      since = now_ms - r.generation_began_ms;
    }
    if (all || since >= cycle) {
      end_generation(&r, all);
      since = 0;
      if (!r.watched.load(std::memory_order_relaxed)) return;
    }
    const std::int64_t left = std::min(cycle - since, pressure_ms);
    next = next < 0 ? left : std::min(next, left);
  });
  return next;
}

void get_figures(recycler_core* recycler, tarn_recycler_figures& out) {
  recycler->get_figures(out);
  with_claimed(recycler, false, [&out](recycler_bin* bin) { bin->add_to(out); });
  // Objects that moved meanwhile may be counted twice; there are never more than are paid for.
  out.objects = std::min<std::uint64_t>(out.objects, recycler->budget().paid_objects());
  out.bytes = std::min<std::uint64_t>(out.bytes, recycler->budget().paid_bytes());
  os::lock_guard guard(lock);
  for (const recycler_bin* b = recycler->bins; b != nullptr; b = b->next) {
    out.hits += b->hits.load(std::memory_order_relaxed);
  }
}

recycler_core* first_pinned() {
  os::lock_guard guard(lock);
  return pin_first_locked(recyclers);
}

recycler_core* next_pinned(recycler_core* recycler) {
  recycler_core* next = nullptr;
  bool ends = false;
  {
    os::lock_guard guard(lock);
    ends = recycler->pins.unpin();
    next = pin_first_locked(recycler->next);
  }
  if (ends) recycler->pins.wake();
  return next;
}

}  // namespace tarn::recycler_registry
