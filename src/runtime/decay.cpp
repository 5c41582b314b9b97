// SPDX-License-Identifier: MIT
#include "runtime/decay.hpp"

#include <algorithm>
#include <atomic>

#include "base/fence.hpp"
#include "os/clock.hpp"
#include "os/futex.hpp"
#include "os/thread.hpp"
#include "runtime/engine.hpp"
#include "runtime/extension.hpp"
#include "runtime/options.hpp"

namespace tarn::decay {
namespace {

enum class phase : std::uint8_t { absent, running, refused };
std::atomic<phase> thread{phase::absent};
std::atomic<std::int64_t> last_period{0};
// 1: there are errands.
os::futex_word sleep_word{0};

// Periods with nothing to do before the thread ends.
constexpr int idle_periods = 3;

// A sanitizer's runtime must know every thread; there the program's own threads run the periods.
// NOLINTNEXTLINE(misc-redundant-expression): two macros of the same value
constexpr bool may_have_thread = !TARN_TSAN && !TARN_ASAN;

std::int64_t period_ms() { return std::clamp<std::int64_t>(options::decay_ms() / 2, 10, 60000); }

bool work_left() {
  bool left = engine::heap.dirty_bytes() != 0 || engine::middle.spare_bytes() != 0;
  engine::for_each_extension([&left](const engine::extension& e) { left = left || e.has_work(); });
  return left;
}

void run_errands() {
  engine::for_each_extension([](const engine::extension& e) {
    if (e.run_errands != nullptr) e.run_errands();
  });
}

// Sleeps for what is left of the period, but for errands.
void sleep_until(std::int64_t end_ms) {
  for (;;) {
    const std::int64_t left = end_ms - os::now_ms();
    if (left > 0) os::futex_wait(&sleep_word, 0, left);
    // acquire: partner of the release in run_errands_soon().
    if (sleep_word.exchange(0, std::memory_order_acquire) != 0) run_errands();
    if (os::now_ms() >= end_ms) return;
  }
}

void thread_main() {
  int idle = 0;
  for (;;) {
    sleep_until(os::now_ms() + period_ms());
    const bool may_go_on = options::decay_ms() >= 0;
    idle = may_go_on && run_period() ? 0 : idle + 1;
    if (idle < idle_periods && may_go_on) continue;
    thread.store(phase::absent, std::memory_order_relaxed);
    full_fence();  // partner: the one in start_thread_if_absent(). Either it sees `absent`, or its memory is seen here.
    phase expected = phase::absent;
    const bool errands = sleep_word.load(std::memory_order_relaxed) != 0;
    if (!(errands || (work_left() && options::decay_ms() >= 0)) ||
        !thread.compare_exchange_strong(expected, phase::running, std::memory_order_relaxed)) {
      return;
    }
    idle = 0;
  }
}

void run_period_if_due() {
  const std::int64_t now = os::now_ms();
  std::int64_t last = last_period.load(std::memory_order_relaxed);
  if (now - last >= period_ms() &&
      last_period.compare_exchange_strong(last, now, std::memory_order_relaxed)) {
    run_period();
  }
}

bool thread_refused() {
  return !may_have_thread || !options::background_allowed() ||
         thread.load(std::memory_order_relaxed) == phase::refused;
}

void start_thread_if_absent() {
  full_fence();  // partner: the one in thread_main()
  phase expected = phase::absent;
  if (thread.load(std::memory_order_relaxed) != phase::absent ||
      !thread.compare_exchange_strong(expected, phase::running, std::memory_order_relaxed)) {
    return;
  }
  os::wait_for_background_thread();
  if (!os::start_background_thread(thread_main)) thread.store(phase::refused, std::memory_order_relaxed);
}

}  // namespace

void wake() {
  if (options::decay_ms() < 0) return;
  if (thread_refused()) {
    run_period_if_due();
  } else {
    start_thread_if_absent();
  }
}

bool run_errands_soon() {
  if (thread_refused()) return false;
  // release: partner of the acquire in sleep_until().
  if (sleep_word.exchange(1, std::memory_order_release) == 0) os::futex_wake(&sleep_word, 1);
  start_thread_if_absent();
  return thread.load(std::memory_order_relaxed) == phase::running;
}

bool run_period() {
  engine::for_each_extension([](const engine::extension& e) { e.age(); });
  engine::registry.for_each([](thread_cache& cache) { cache.take_surplus(true); });
  engine::middle.flush_idle_magazines(false);
  engine::middle.release_spares(false);
  engine::heap.age();
  return work_left();
}

void after_fork_in_child() {
  sleep_word.store(0, std::memory_order_relaxed);
  os::forget_background_thread();
  thread.store(phase::absent, std::memory_order_relaxed);
}

}  // namespace tarn::decay
