// SPDX-License-Identifier: MIT
#include "background/decay.hpp"

#include <algorithm>
#include <atomic>

#include "background/pressure.hpp"
#include "background/warm_blocks.hpp"
#include "base/compiler.hpp"
#include "engine/front.hpp"
#include "engine/instance.hpp"
#include "engine/options.hpp"
#include "os/clock.hpp"
#include "os/memory_calls.hpp"
#include "os/own_threads/thread.hpp"

namespace tarn::decay {
namespace {

std::atomic<std::int64_t> last_period{0};
std::atomic<bool> errands_wait{false};
std::atomic<bool> relief_waits{false};
std::atomic<bool> look_waits{false};
// The gates see every change of rights: see note_rights_are_followed().
std::atomic<bool> rights_followed{false};
// The background thread stays for the figures of the black box alone.
std::atomic<bool> only_keeps_box{false};
constexpr std::int64_t box_period_ms = 1000;
// Some thread made slow calls between the last two periods.
std::atomic<bool> caches_in_use{false};

// The thread ends after this many periods in a row that left no work.
constexpr int idle_periods = 3;

// A sanitizer's runtime must know every thread, so under one the program's own threads run the periods.
// NOLINTNEXTLINE(misc-redundant-expression): two macros of the same value
constexpr bool may_have_thread = !TARN_TSAN && !TARN_ASAN;

// Under memory pressure an eighth as long.
std::int64_t period_ms() {
  if (only_keeps_box.load(std::memory_order_relaxed)) return box_period_ms;
  const std::int64_t divisor = pressure::process.now() == pressure::level::calm ? 2 : 16;
  return std::clamp<std::int64_t>(options::decay_ms() / divisor, 10, 60000);
}

// `of_thread`: in the background thread, which alone empties caches that are in use; the program's threads may be inside a
// slow path of one.
void relieve(bool of_thread) {
  run_period();
  if (of_thread) {
    engine::registry.for_each([](thread_cache& cache) { cache.take_surplus(false); });
    engine::registry.empty_idle_caches();
    engine::registry.empty_resting(true);
    engine::processors.drain(true);
  }
  engine::central_tier.flush_idle_magazines(true);
  engine::central_tier.release_spares(true);
  warm_blocks::release();
  pressure::trim_excess();
}

// A thread that used its cache since the last period may sleep from now on; a later period then takes its surplus.
bool caches_hold_surplus() {
  return caches_in_use.load(std::memory_order_relaxed) && engine::budget.is_worth_watching();
}

bool work_left() {
  bool left = engine::heap.has_idle_memory() || warm_blocks::has_any() ||
              engine::central_tier.depots().spare_bytes() != 0 || engine::registry.has_resting() ||
              caches_hold_surplus() || engine::heap.has_idle_structs() ||
              engine::central_tier.magazines().has_work() || engine::blocks.has_work();
  engine::for_each_front([&left](const engine::front& e) { left = left || e.has_work(); });
  return left;
}

void run_errands() {
  engine::heap.touch_ahead();
  engine::heap.purge_owed(true);
  if (look_waits.exchange(false, std::memory_order_relaxed) &&
      pressure::process.look_now().now == pressure::level::above_soft)
    relief_waits.store(true, std::memory_order_relaxed);
  if (relief_waits.exchange(false, std::memory_order_relaxed)) relieve(true);
  engine::for_each_front([](const engine::front& e) { e.run_errands(); });
}

// When the period began that the thread waits for the end of. A thread that follows one ended by a hold keeps its schedule,
// however often that happens. After a long time without periods, memory counts as young: a whole period passes first.
std::int64_t begin_of_period_ms() {
  const std::int64_t now = os::now_ms();
  const std::int64_t last = last_period.load(std::memory_order_relaxed);
  return now - last < 2 * period_ms() ? last : now;
}

// Sleeps until the end of the period, whose length may change meanwhile, and runs errands when they are requested. Returns
// early if the thread must end.
void sleep_through_period() {
  const std::int64_t begin = begin_of_period_ms();
  while (!os::background_thread_must_end()) {
    const std::int64_t left = begin + period_ms() - os::now_ms();
    if (left > 0) os::sleep_in_background_thread(left);
    // acquire: partner of the release in run_errands_soon().
    if (errands_wait.exchange(false, std::memory_order_acquire)) run_errands();
    if (os::now_ms() >= begin + period_ms()) return;
  }
}

// Returns whether work is left. A period that a hold interrupts is due again as soon as there is a thread.
bool run_period_of_thread() {
  const std::int64_t begin = os::now_ms();
  const bool left = run_period();
  engine::registry.empty_idle_caches();
  engine::processors.drain(false);
  write_box_figures();
  last_period.store(os::background_thread_must_end() ? begin - period_ms() : begin,
                    std::memory_order_relaxed);
  return left;
}

// Sleeps and runs periods until there is nothing to do.
void run_periods() {
  only_keeps_box.store(false, std::memory_order_relaxed);
  for (int idle = 0; idle < idle_periods || engine::samples.box().is_wanted();) {
    sleep_through_period();
    if (os::background_thread_must_end() || options::decay_ms() < 0) return;
    idle = run_period_of_thread() ? 0 : std::min(idle + 1, idle_periods);
    only_keeps_box.store(idle == idle_periods, std::memory_order_relaxed);
  }
}

void run_period_if_due() {
  const std::int64_t now = os::now_ms();
  std::int64_t last = last_period.load(std::memory_order_relaxed);
  // The first call only sets the time: nothing has been idle for a period yet.
  const bool first = last == 0;
  if ((first || now - last >= period_ms()) &&
      last_period.compare_exchange_strong(last, now, std::memory_order_relaxed) && !first) {
    run_period();
  }
}

// Without a thread nobody gives memory back while the program rests, or only takes what its caches have: so what waits is
// bounded by what is in use, or by unwatched_bytes. Half of that stays, so that a heap that grows and shrinks around the
// bound takes few page faults.
void trim_unwatched() {
  constexpr std::size_t unwatched_bytes = 64 * mib;
  const std::size_t most = std::max(unwatched_bytes, engine::heap.in_use_bytes());
  if (engine::heap.dirty_bytes() > most) engine::heap.trim(most / 2);
}

bool thread_allowed() {
  if (!may_have_thread) return false;
  const options::background choice = options::background_choice();
  if (choice == options::background::on) os::note_threads_allowed();
  const bool allowed = choice == options::background::on || (choice == options::background::automatic &&
                                                             rights_followed.load(std::memory_order_relaxed));
  // Who listens for memory that goes is called in threads of libc.
  return allowed && !os::memory_calls_are_heard();
}

}  // namespace

bool wake() {
  if (TARN_UNLIKELY(relief_waits.load(std::memory_order_relaxed)) &&
      !(thread_allowed() && os::ensure_background_thread()) &&
      relief_waits.exchange(false, std::memory_order_relaxed)) {
    relieve(false);
  }
  if (options::decay_ms() < 0) return true;
  if (thread_allowed() && os::ensure_background_thread()) return true;
  if (thread_allowed() && os::in_vfork_child()) {
    // The vfork child shares its parent's heap; the parent may sleep for long and has no thread that could purge.
    engine::heap.trim(0);
    return true;
  }
  trim_unwatched();
  run_period_if_due();
  return false;
}

bool run_errands_soon() {
  if (!thread_allowed()) return false;
  // release: partner of the acquire in sleep_through_period().
  const bool is_first = !errands_wait.exchange(true, std::memory_order_release);
  // A process in which no thread may start makes no system call for it.
  if (!os::ensure_background_thread()) {
    errands_wait.store(false, std::memory_order_relaxed);
    return false;
  }
  if (is_first) os::ring_background_thread();
  return true;
}

void note_rights_are_followed() { rights_followed.store(true, std::memory_order_relaxed); }

void relieve_soon() {
  relief_waits.store(true, std::memory_order_relaxed);
  run_errands_soon();
}

bool run_period() {
  if (pressure::process.now() != pressure::level::calm || pressure::process.last().soft != os::unlimited)
    pressure::process.look(os::now_ms());
  engine::heap.purge_owed(true);
  engine::for_each_front([](const engine::front& e) {
    if (!os::background_thread_must_end()) e.age();
  });
  bool in_use = false;
  engine::registry.for_each([&in_use](thread_cache& cache) { in_use = cache.take_surplus(true) || in_use; });
  engine::registry.empty_resting(false);
  in_use = engine::processors.end_period() || in_use;
  caches_in_use.store(in_use, std::memory_order_relaxed);
  engine::central_tier.depots().look_for_parent();
  engine::central_tier.flush_idle_magazines(false);
  engine::central_tier.release_spares(false);
  engine::central_tier.purge_idle_pages(false);
  engine::heap.age();
  warm_blocks::release();
  engine::central_tier.magazines().age(engine::metadata);
  engine::blocks.age(engine::metadata);
  if (os::is_check_due()) engine::central_tier.depots().validate();
  return work_left();
}

}  // namespace tarn::decay

// When the thread must end, a period stops between two steps; each step checks for that within milliseconds.
void tarn::os::background_thread_body() {
  using namespace tarn::decay;
  for (;;) {
    run_periods();
    leave_background_thread();
    const bool work =
        errands_wait.load(std::memory_order_relaxed) || (options::decay_ms() >= 0 && work_left());
    if (!work || must_not_be_heard() || !stay_in_background_thread()) return;
  }
}

// Heaps other than the engine's are those of tests.
void tarn::free_memory_gathered(const page_heap& heap) {
  if (&heap == &engine::heap) decay::wake();
}

// Under pressure what is free goes before the program gets more.
bool tarn::is_taken_over(const page_heap& heap) {
  return &heap == &engine::heap && pressure::process.now() == pressure::level::calm &&
         pressure::process.may_look_later() && decay::run_errands_soon();
}

void tarn::figures_are_missing() {
  if (options::decay_ms() >= 0 && decay::thread_allowed()) os::ensure_background_thread();
}

// In a thread of the program, inside an allocation, without locks.
void tarn::backed_memory_grew(page_heap& heap) {
  if (&heap != &engine::heap) return;
  if (pressure::process.may_look_later()) {
    decay::look_waits.store(true, std::memory_order_relaxed);
    if (decay::run_errands_soon()) return;
  }
  if (pressure::process.look_now().now != pressure::level::above_soft) return;
  pressure::trim_excess();
  decay::relieve_soon();
  pressure::slow_down();
}
