// SPDX-License-Identifier: MIT
// pressure: decides whether the process uses too much memory, for malloc, pools, recyclers, buffer pools and the
// program's callbacks alike (docs/design/0034).
//
//   calm        nothing
//   tight       a limit is nearly reached, or tasks wait for memory (os/memory_pressure.hpp): idle memory goes sooner
//   above_soft  the soft limit of the rule (option `limit`) is exceeded: everything that is not in use goes now, caches
//               stay small, and callbacks run
//
// A soft limit in bytes is compared with what tarn itself has backed (backed_bytes()); one that is a part of the control
// group's limit, as by default, with what the group uses without idle file pages. The hard limit is enforced by the page
// heap, on the same bytes.
//
// A hard limit that the process exceeds already when it is set is reported, in one line on stderr.
//
// No look, which reads files, is made per allocation. A look is due when the heap has grown by a quarter of the room that the
// last look found, or by 1/32 of the soft limit, which may have been lowered since (the mark, backing_limits::set_mark()); when a
// period of decay ends; and, while the program has callbacks, by time. The first is made by the background thread; if the heap
// has grown by twice as much before that has looked, the program's thread looks.
//
// Thread safety: any thread. No lock. The figures of one look are stored one by one; a reader may mix two looks.
// Invariants (validate()): used >= soft if and only if the level is above_soft; excess is 0 below that level, and at most
// used.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/limit_rule.hpp"
#include "os/futex.hpp"
#include "os/memory_pressure.hpp"
#include "pages/backing_limits.hpp"

namespace tarn::pressure {

#pragma GCC visibility push(hidden)

enum class level : std::uint8_t { calm, tight, above_soft };

// In bytes. `used`: what `soft` is compared with. `hard`: as the page heap enforces it. No limit: os::unlimited.
// `excess`: what must go before the level falls; a little more than used - soft, so that it does not rise at once.
struct verdict {
  level now = level::calm;
  std::uint64_t used = 0;
  std::uint64_t soft = os::unlimited;
  std::uint64_t hard = os::unlimited;
  std::uint64_t excess = 0;
};
// `own`: backed bytes of tarn.
verdict decide(const os::memory_state& seen, const rule& by, std::uint64_t own);

// What tarn has from the system and knows to be backed, and its metadata.
std::uint64_t backed_bytes();

inline constexpr std::int64_t interval_ms = 1000;

// The last look, for all who ask. Time comes from the caller.
class watch {
 public:
  explicit constexpr watch(limit_rule& by) : rule_(by) {}

  // Looks if interval_ms have passed since the last time; returns the number of such looks so far. One thread looks, the
  // others have the last result; until there is one, each looks for itself.
  std::uint32_t look(std::int64_t now_ms);
  // Looks now.
  verdict look_now();

  // Whether the heap has passed its mark by so little that another thread may look, in a moment.
  [[nodiscard]] bool may_look_later() const {
    return backed_bytes() < firm_mark_.load(std::memory_order_relaxed);
  }

  [[nodiscard]] verdict last() const;
  [[nodiscard]] level now() const { return level_.load(std::memory_order_relaxed); }
  // The smallest limit of the machine and of groups, and whether the level is not calm: for budgets.
  [[nodiscard]] std::uint64_t least_limit() const { return limit_.load(std::memory_order_relaxed); }

  void validate() const;

 private:
  friend class pressure_test_access;

  void store(const verdict& v);

  limit_rule& rule_;
  std::atomic<std::int64_t> next_look_{0};
  std::atomic<std::uint32_t> looks_{0};
  std::atomic<std::uint64_t> limit_{os::unlimited};
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint64_t> soft_{os::unlimited};
  std::atomic<std::uint64_t> hard_{os::unlimited};
  std::atomic<std::uint64_t> excess_{0};
  std::atomic<std::uint64_t> firm_mark_{2 * backing_limits::first_mark};
  std::atomic<level> level_{level::calm};
};

extern watch process;

// Gives back what has been freed, at most what exceeds the soft limit. Any thread, without locks; bytes given back.
std::size_t trim_excess();

// Rounds: one pass of the thread that runs the program's code (background/caretaker.hpp). Threads whose heap grows above
// the soft limit wait for its end, for 20 ms at most: it may be waiting for a lock of the program that they hold.
void set_rounds(bool are_run);
void end_round();
// Waits as said above. Called inside allocations, without locks.
void slow_down();
// The waits of one request that the hard limit has refused. wait(), called before each of its tries, lets a round
// run and waits for its end; for 100 ms at most in all tries together, since the caller may hold a lock that the round
// waits for. Owner: the thread that makes the request.
class refused_request {
 public:
  void wait();

 private:
  std::int64_t waits_until_ = 0;  // 0: it has not waited yet
};
// The number of requests that the hard limit has refused since the last call.
std::uint32_t take_refusals();
// The calling thread runs rounds: it waits for none.
void set_runner(bool is_runner);

#pragma GCC visibility pop

}  // namespace tarn::pressure
