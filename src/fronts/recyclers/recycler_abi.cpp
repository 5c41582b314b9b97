// SPDX-License-Identifier: MIT
// The functions of recyclers in tarn/pool.h and tarn/detail/recycler_bin.hpp.
#include "tarn/detail/recycler_bin.hpp"

#include <cerrno>
#include <cstddef>

#include "background/caretaker.hpp"
#include "base/fnv.hpp"
#include "base/known_part.hpp"
#include "base/random.hpp"
#include "fronts/recyclers/recycler_registry.hpp"
#include "os/clock.hpp"
#include "os/errno_keeper.hpp"
#include "os/memory_marks.hpp"
#include "os/report.hpp"

using namespace tarn;

// What is compiled into programs and no function takes, so that tests/abi does not see it: docs/reference/abi.md.
static_assert(sizeof(tarn_recycler_bins) == 16 && sizeof(tarn_recycler_entry) == 16);
static_assert(offsetof(tarn_recycler_bin, top) == 0 && offsetof(tarn_recycler_bin, taken) == 8 &&
              offsetof(tarn_recycler_bin, recent_use) == 16 && offsetof(tarn_recycler_bin, busy) == 24 &&
              offsetof(tarn_recycler_bin, claimed) == 28);

namespace {

std::uint64_t sum_of(const void* object, std::size_t bytes) {
  std::uint64_t sum = fnv().add({static_cast<const char*>(object), bytes}).sum;
  // Padding bytes are included, so valgrind takes the sum for uninitialised, which it is not.
  memory_marks::show(&sum, sizeof sum);
  return sum;
}

constinit thread_local std::uint64_t random_state = 0;

using source = recycler_core::source;

// An object from the calling thread's bin, from magazines handed over, or stolen from another bin; or null. Without a
// bin only the second.
void* get_from_others(tarn_recycler& recycler, recycler_bin* bin) {
  void* object = nullptr;
  if (bin != nullptr && detail::enter(bin)) {
    object = bin->get();
    if (object == nullptr) {
      if (recycler_magazine* const m = recycler_registry::steal(&recycler)) {
        recycler.note(source::stolen, m->count);
        object = bin->get_from(m);
      }
    }
    if (os::is_check_due()) bin->validate();
    detail::leave(bin);
  } else {
    object = recycler.take_fresh();
    if (object != nullptr) {
      // As a bin counts: an object that came from a magazine handed over, and a get that needed neither victims nor a miss.
      recycler.note(source::exchanged);
      recycler.note_hits(1);
    }
  }
  return object;
}

}  // namespace

tarn_recycler* tarn_recycler_create(const tarn_recycler_options* options) noexcept {
  const tarn_recycler_options all = known_options<tarn_recycler_options>(options, TARN_RECYCLER_OPTIONS);
  if (all.destroy == nullptr || (all.name == nullptr && all.name_length != 0)) {
    errno = EINVAL;
    return nullptr;
  }
  caretaker::stop_at_exit();
  return recycler_registry::create(all);
}

void tarn_recycler_close(tarn_recycler* recycler) noexcept { recycler_registry::close(recycler); }

void tarn_recycler_free(tarn_recycler* recycler) noexcept { recycler_registry::free(recycler); }

std::size_t tarn_recycler_number(const tarn_recycler* recycler) noexcept { return recycler->number; }

void* tarn_recycler_get(tarn_recycler* recycler) noexcept {
  const os::errno_keeper keeper;
  caretaker::run_inline_if_no_thread();
  void* object = get_from_others(*recycler, recycler_registry::bin_of(recycler));
  if (object != nullptr) return object;
  object = recycler->take_victim();
  recycler->note(object != nullptr ? source::victim : source::miss);
  return object;
}

int tarn_recycler_give_back(tarn_recycler* recycler, void* object, std::size_t bytes) noexcept {
  const os::errno_keeper keeper;
  // relaxed: close() requires that no other call runs meanwhile, so the program's own order makes it visible.
  if (recycler->closed.load(std::memory_order_relaxed)) return 0;
  recycler_bin* const bin = recycler_registry::bin_of(recycler);
  bool kept = false;
  if (bin != nullptr && detail::enter(bin)) {
    kept = bin->give(object, bytes);
    if (os::is_check_due()) bin->validate();
    detail::leave(bin);
  } else {
    kept = recycler->give_one(object, bytes);
  }
  if (!kept) {
    recycler->note_drop(tarn_recycler_over_limit);
    // relaxed: end_generation() clears the flag before it looks, at bins behind a process fence and at the rest under the
    // recycler's lock. So it finds the object, or the flag is seen cleared here.
  } else if (!recycler->watched.load(std::memory_order_relaxed) &&
             !recycler->watched.exchange(true, std::memory_order_relaxed)) {
    caretaker::wake();
  }
  caretaker::run_inline_if_no_thread();
  return kept ? 1 : 0;
}

void tarn_recycler_note_drop(tarn_recycler* recycler, tarn_recycler_drop reason) noexcept {
  recycler->note_drop(reason);
}

bool tarn_recycler_draws_drop(tarn_recycler* recycler) noexcept {
  if (random_state == 0)
    random_state = static_cast<std::uint64_t>(os::now_ns()) ^ reinterpret_cast<std::uintptr_t>(&random_state);
  const bool drops = next_random(random_state) % 4 == 0;
  if (drops) recycler->note_drop(tarn_recycler_at_random);
  return drops;
}

std::size_t tarn_recycler_trim(tarn_recycler* recycler) noexcept {
  return recycler_registry::end_generation(recycler, true);
}

void tarn_recycler_get_stats(tarn_recycler* recycler, tarn_recycler_stats* out, std::size_t size) noexcept {
  tarn_recycler_stats all{};
  recycler_registry::get_figures(recycler, all);
  put_known(all, out, size);
}

void tarn_recycler_visit(void (*visit)(void* context, const char* name, const tarn_recycler_stats* figures),
                         void* context) noexcept {
  recycler_registry::recyclers.for_each([visit, context](tarn_recycler& recycler) {
    tarn_recycler_stats figures{};
    recycler_registry::get_figures(&recycler, figures);
    visit(context, recycler.name(), &figures);
  });
}

std::uint64_t tarn_recycler_seal(void* object, std::size_t bytes) noexcept {
  const std::uint64_t sum = sum_of(object, bytes);
  memory_marks::hide(object, bytes);
  return sum;
}

std::uint64_t tarn_recycler_unseal(void* object, std::size_t bytes) noexcept {
  memory_marks::show(object, bytes);
  return sum_of(object, bytes);
}

void tarn_recycler_fatal(const tarn_recycler* recycler, const char* what, const void* object) noexcept {
  os::fatal_at(object, what, " of ", recycler->shown_name());
}

// ---- metrics ----

namespace tarn::recycler_registry {
namespace {

using enum metric_kind;
using enum metric_unit;
using figures = tarn_recycler_stats;

constexpr metric_of<figures> rows[] = {
    {"tarn_recycler_idle_objects", gauge, none, "Constructed objects that wait for their next use",
     &figures::objects},
    {"tarn_recycler_idle_bytes", gauge, bytes, "Memory that these are counted with", &figures::bytes},
    {"tarn_recycler_hits", counter, none, "Objects taken from the own bin of the thread", &figures::hits},
    {"tarn_recycler_victims", counter, none, "Objects taken from the older generation", &figures::victims},
    {"tarn_recycler_stolen", counter, none, "Objects taken from bins of other threads", &figures::stolen},
    {"tarn_recycler_misses", counter, none, "Objects that had to be built", &figures::misses},
};

}  // namespace

constinit const metric_group metrics = metric_table<rows>::group_of<tarn_recycler_visit>("recycler");

}  // namespace tarn::recycler_registry
