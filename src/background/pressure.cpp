// SPDX-License-Identifier: MIT
#include "background/pressure.hpp"

#include <algorithm>
#include <new>

#include "base/text.hpp"
#include "engine/front.hpp"
#include "engine/instance.hpp"
#include "os/clock.hpp"
#include "os/invariant.hpp"
#include "os/own_threads/thread.hpp"
#include "os/report.hpp"
#include "os/sandbox.hpp"

namespace tarn::pressure {

constinit watch process{option_limit};

namespace {

// Below the soft limit by this part, the level falls.
constexpr std::uint64_t margin_divisor = 32;
// The heap grows by at least this part of the soft limit between two looks, and at least by least_step.
constexpr std::uint64_t step_divisor = 256;
constexpr std::uint64_t least_step = 256 * kib;
// Without a limit, somebody must have looked when the heap has grown by half, or by this much.
constexpr std::uint64_t first_look = 16 * mib;
// With one, when it has grown by this part of it, or by twice first_look, however much room there was: the limit may be
// lowered at any time.
constexpr std::uint64_t longest_step_divisor = 16;
// Of the budget of caches above the soft limit.
constexpr unsigned cache_halvings = 4;
constexpr std::int64_t longest_wait_ms = 20;
constexpr std::int64_t longest_wait_before_failing_ms = 100;

static_assert(backing_limits::none == os::unlimited);

std::atomic<bool> rounds_are_run{false};
std::atomic<const void*> runner{nullptr};  // os::this_thread() of the thread that runs rounds
os::futex_word rounds{0};                  // that have ended
std::atomic<std::uint32_t> refusals_seen{0};

// No limit: os::unlimited.
std::uint64_t bytes_of(const bound& b, std::uint64_t group) {
  switch (b.what) {
    case bound::kind::none: break;
    case bound::kind::bytes: return b.value;
    case bound::kind::automatic: return group == os::unlimited ? os::unlimited : os::near(group);
    case bound::kind::percent: return group == os::unlimited ? os::unlimited : group / 100 * b.value;
  }
  return os::unlimited;
}

// By how much the heap may grow until somebody must have looked.
std::uint64_t growth_before_look(const verdict& v, std::uint64_t own) {
  if (v.soft == os::unlimited) return std::max(own / 2, first_look);
  const std::uint64_t room = v.soft > v.used ? v.soft - v.used : 0;
  const std::uint64_t longest_step = std::max(v.soft / longest_step_divisor, 2 * first_look);
  return std::max({std::min(room / 2, longest_step), v.soft / step_divisor, least_step});
}

void ring_fronts() {
  engine::for_each_front([](const engine::front& e) { e.pressed(); });
}

// Waits until a round has ended, until the time `until_ms` at the latest. Not in a thread that runs rounds.
void wait_for_round(std::int64_t until_ms) {
  if (!rounds_are_run.load(std::memory_order_relaxed) ||
      runner.load(std::memory_order_relaxed) == os::this_thread()) {
    return;
  }
  // acquire: partner of the release in end_round(); makes the memory that the round freed visible here.
  const std::uint32_t before = rounds.load(std::memory_order_acquire);
  ring_fronts();
  while (rounds.load(std::memory_order_acquire) == before) {
    const std::int64_t left = until_ms - os::now_ms();
    if (left <= 0) return;
    os::futex_wait(&rounds, before, left);
  }
}

// Free pages can still go, and others' caches may; what is in use cannot.
void report_if_exceeded(std::uint64_t hard) {
  const std::uint64_t used = engine::heap.in_use_bytes() + engine::metadata.used();
  if (used <= hard) return;
  text_buffer<256> line;
  line.put("tarn: the hard limit of option limit, ")
      .number(hard)
      .put(" bytes now, is below the ")
      .number(used);
  line.put(
      " bytes that tarn has in use already; allocations fail until it has less, or the limit is raised\n");
  os::write_line(line);
}

}  // namespace

verdict decide(const os::memory_state& seen, const rule& by, std::uint64_t own) {
  verdict v;
  const std::uint64_t group = seen.group.limit;
  v.soft = bytes_of(by.soft, group);
  v.used = by.soft.what == bound::kind::bytes || group == os::unlimited ? own : seen.group.used;
  v.hard = bytes_of(by.hard, group);
  if (by.hard.what == bound::kind::percent && v.hard != os::unlimited) {
    // What others in the group use, and what of this process is not tarn's, is not there for tarn.
    const std::uint64_t others = seen.group.used - std::min(own, seen.group.used);
    v.hard -= std::min(others, v.hard);
  }
  if (v.used >= v.soft) {
    v.now = level::above_soft;
    v.excess = std::min(v.used - v.soft + v.soft / margin_divisor, v.used);
  } else if (seen.pressed) {
    v.now = level::tight;
  }
  return v;
}

std::uint64_t backed_bytes() { return engine::heap.backed_bytes() + engine::metadata.used(); }

// ---- watch ----

void watch::store(const verdict& v) {
  used_.store(v.used, std::memory_order_relaxed);
  soft_.store(v.soft, std::memory_order_relaxed);
  hard_.store(v.hard, std::memory_order_relaxed);
  excess_.store(v.excess, std::memory_order_relaxed);
  level_.store(v.now, std::memory_order_relaxed);
}

verdict watch::last() const {
  return {level_.load(std::memory_order_relaxed), used_.load(std::memory_order_relaxed),
          soft_.load(std::memory_order_relaxed), hard_.load(std::memory_order_relaxed),
          excess_.load(std::memory_order_relaxed)};
}

// Once the process has entered a sandbox, which may forbid opening files, only tarn's own bytes are known; a hard limit
// stays as it was.
verdict watch::look_now() {
  os::memory_state seen;
  if (!os::has_entered_sandbox()) {
    void* const room = engine::blocks.allocate(sizeof(os::memory_look));
    if (room == nullptr) return last();
    seen = os::look_at_memory("", *new (room) os::memory_look);
    engine::blocks.deallocate(room, sizeof(os::memory_look));
  }
  limit_.store(seen.limits.limit, std::memory_order_relaxed);
  const std::uint64_t own = backed_bytes();
  const rule by = rule_.current();
  verdict v = decide(seen, by, own);
  if (by.hard.what == bound::kind::percent && os::has_entered_sandbox())
    v.hard = hard_.load(std::memory_order_relaxed);
  store(v);
  const bool is_first = rule_.take_new();
  if (this == &process) {
    engine::budget.halvings.store(v.now == level::above_soft ? cache_halvings : 0, std::memory_order_relaxed);
    engine::heap.limits().set_most(v.hard);
    const std::uint64_t growth = growth_before_look(v, own);
    firm_mark_.store(own + growth, std::memory_order_relaxed);
    engine::heap.limits().set_mark(own + growth / 2 - std::min(engine::metadata.used(), own));
    if (is_first) report_if_exceeded(v.hard);
  }
  return v;
}

std::uint32_t watch::look(std::int64_t now_ms) {
  std::int64_t due = next_look_.load(std::memory_order_relaxed);
  const bool is_mine = now_ms >= due && next_look_.compare_exchange_strong(due, now_ms + interval_ms,
                                                                           std::memory_order_relaxed);
  if (is_mine || looks_.load(std::memory_order_relaxed) == 0) {
    look_now();
    looks_.fetch_add(1, std::memory_order_release);  // partner: the acquire below
  }
  return looks_.load(std::memory_order_acquire);
}

// Call while no other thread looks.
void watch::validate() const {
  const verdict v = last();
  TARN_INVARIANT("pressure", this, (v.used >= v.soft) == (v.now == level::above_soft));
  TARN_INVARIANT("pressure", this, v.excess <= (v.now == level::above_soft ? v.used : 0));
}

// ---- giving back ----

std::size_t trim_excess() {
  const std::uint64_t excess = process.last().excess;
  const std::size_t dirty = engine::heap.dirty_bytes();
  return excess == 0 ? 0 : engine::heap.trim(dirty > excess ? dirty - excess : 0);
}

// ---- rounds ----

void set_rounds(bool are_run) { rounds_are_run.store(are_run, std::memory_order_relaxed); }

void set_runner(bool is_runner) {
  runner.store(is_runner ? os::this_thread() : nullptr, std::memory_order_relaxed);
}

void end_round() {
  rounds.fetch_add(1, std::memory_order_release);  // partner: the acquire in wait_for_round()
  os::futex_wake(&rounds, INT32_MAX);
}

void slow_down() { wait_for_round(os::now_ms() + longest_wait_ms); }

void refused_request::wait() {
  if (engine::heap.limits().refusals() == refusals_seen.load(std::memory_order_relaxed)) return;
  if (option_limit.is_new()) process.look_now();
  if (waits_until_ == 0) waits_until_ = os::now_ms() + longest_wait_before_failing_ms;
  if (os::now_ms() < waits_until_) wait_for_round(waits_until_);
}

std::uint32_t take_refusals() {
  const std::uint32_t all = engine::heap.limits().refusals();
  return all - refusals_seen.exchange(all, std::memory_order_relaxed);
}

}  // namespace tarn::pressure
