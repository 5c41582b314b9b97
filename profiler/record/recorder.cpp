// SPDX-License-Identifier: MIT
#include "profiler/record/recorder.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/random.hpp"
#include "profiler/record/own_calls.hpp"
#include "profiler/record/recorder_state.hpp"

namespace tarn::profiler::recorder {

constinit thread_local thread_local_part self __attribute__((tls_model("initial-exec"))) = {};

namespace {

constexpr block_filter no_blocks = {0, 0};
constexpr std::uint32_t usable_every =
    64;  // mode full: records the usable size of one in this many blocks; a power of two
constexpr std::size_t always_checked_bytes = std::size_t{1} << 20;
constexpr std::uint32_t check_every = 8;  // one in this many of the large blocks below that size
// Mode full: after one in this many timed calls, times a call that does nothing; a power of two.
constexpr std::uint32_t nothing_every = 8;
// Mode full: measures the recorder's own time in one of this many sections; a power of two.
constexpr std::uint32_t own_every = 16;

// The address in the event of a realloc whose new block is not recorded (mode sample).
constexpr std::uintptr_t unrecorded_block = 8;

bool is_full() { return session.header->mode == record_mode::full; }

// While one exists, the thread holds a lock of the recorder.
class holding_mark {
 public:
  holding_mark() {
    self.busy = holding;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~holding_mark() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    self.busy = recording;
  }
  holding_mark(const holding_mark&) = delete;
  holding_mark& operator=(const holding_mark&) = delete;
};

bool is_on_signal_stack() {
  stack_t now = {};
  return failed(own_call(SYS_sigaltstack, 0, reinterpret_cast<long>(&now))) ||
         (now.ss_flags & SS_ONSTACK) != 0;
}

// The recorder's work within one hook. Events of signal handlers that interrupt it are not recorded, but counted.
class section {
 public:
  section() {
    // The common case is first: nothing but this is needed for a thread that has recorded for a while.
    thread_state* const known = self.state;
    const bool is_common = self.busy == not_busy && process != nullptr && known != nullptr &&
                           known->ring != nullptr && known->sections >= young_sections;
    if (__builtin_expect(is_common, 1) == 0 && !prepare()) return;
    self.section = &mark_;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // a handler sees the mark of what is busy
    self.busy = recording;
    entered_ = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    thread = is_common ? known : find_thread();
    if (thread == nullptr) return;
    if (!thread->enter()) {
      thread = nullptr;
      return;
    }
    own_weight_ = is_full() ? own_weight_of(thread->sections) : 1;
    ++thread->sections;
    if (own_weight_ != 0) own_timer_.start(session.header->ticks);
  }
  ~section() {
    if (own_weight_ != 0) count_own_time();
    if (thread != nullptr) {
      if (__builtin_expect(counts_faults_, 0) != 0) count_own_faults();
      thread->leave();
    }
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (entered_) self.busy = not_busy;
  }
  section(const section&) = delete;
  section& operator=(const section&) = delete;

  thread_state* thread = nullptr;

 private:
  // False: there is nothing to record.
  [[gnu::noinline, gnu::cold]] bool prepare() {
    if (self.busy != not_busy) {
      const bool was_left = is_left();
      if (self.busy != calling && process != nullptr && process->file.page != nullptr) {
        process->file.page->lost_nested.fetch_add(1, std::memory_order_relaxed);
      }
      if (!was_left) return false;
      self.section = &mark_;
      self.state->start_anew();
      self.busy = not_busy;
    }
    const bool starts = !started;
    if (starts) start();
    if (process == nullptr) {
      if (started) record_nothing();
      return false;
    }
    counts_faults_ = starts || self.state == nullptr || self.state->sections < young_sections;
    if (counts_faults_ && !starts) self.faults_before = thread_faults();
    return true;
  }

  // Whether the section that the thread is in has ended without its destructor: a signal handler has left it by a jump. Then
  // something else lies in its place by now; or the thread is farther up its stack, and not on a signal handler's. If neither
  // can be told, the section counts as one that goes on.
  [[nodiscard]] bool is_left() const {
    if (self.busy != recording || self.state == nullptr || has_fallen_silent()) return false;
    if (self.section == &mark_) return true;
    const auto left = reinterpret_cast<std::uintptr_t>(self.section);
    const auto here = reinterpret_cast<std::uintptr_t>(&mark_);
    own_stack& stack = self.state->stack;
    std::uintptr_t mark = left;
    if (stack.memory_from(here, stack_question()).read(left, mark) && mark != left) return true;
    return left < here && stack.holds(left, stack_question()) && stack.holds(here, stack_question()) &&
           !is_on_signal_stack();
  }

  // Adds the section's duration to own_ticks, which the collector subtracts from the program's time.
  [[gnu::noinline]] void count_own_time() {
    const call_time own = own_timer_.stop();
    if (own.known == timing::interrupted) return;
    // relaxed: an independent sum
    process->file.page->own_ticks.fetch_add(own.ticks * own_weight_, std::memory_order_relaxed);
  }

  // How many sections the time of section `index` of a thread stands for, in mode full; 0: it is not timed. The
  // first ones run on cold caches and stand for themselves only.
  static std::uint32_t own_weight_of(std::uint32_t index) {
    if (index < own_every) return 1;
    return (index & (own_every - 1)) == 0 ? own_every : 0;
  }

  const std::uintptr_t mark_ = reinterpret_cast<std::uintptr_t>(&mark_);
  call_timer own_timer_;
  std::uint32_t own_weight_ = 0;  // number of sections that this one's time stands for; 0: not timed
  bool entered_ = false;
  bool counts_faults_ = false;
};

// ---- sampling ----

// Bytes to the next sample, exponentially distributed. The mean depends on earlier samples only, so it says nothing of
// which block comes next.
std::int64_t draw(thread_state& thread) {
  // relaxed: a count that nothing else depends on
  const std::uint64_t drawn = process->distances_drawn.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t doublings = drawn / samples_before_doubling;
  const std::uint32_t first = session.header->first_halvings;
  thread.halvings = doublings < first ? first - static_cast<std::uint32_t>(doublings) : 0;
  const double uniform = (static_cast<double>(next_random(thread.random) >> 11) + 0.5) * 0x1p-53;
  const double mean = static_cast<double>(session.header->sample_bytes >> thread.halvings);
  return static_cast<std::int64_t>(negative_logarithm(uniform) * mean) + 1;
}

// The collector weighs the block that ends a countdown by the distance from which the countdown was drawn.
void report_halvings(thread_state& thread) {
  if (thread.reported_halvings == thread.halvings || !thread.reserve(1)) return;
  thread.put(note_word(note_kind::halvings, thread.halvings));
  thread.reported_halvings = thread.halvings;
}

// Whether a block of `size` bytes is recorded; wants_allocation has subtracted them from the countdown.
bool is_sampled(thread_state& thread, std::size_t size) {
  if (is_full()) return true;
  const std::int64_t base = sample_base;
  const bool large = size >= large_block_bytes;
  // Large blocks are always recorded, so they do not count towards the next sample.
  const auto taken = static_cast<std::int64_t>(countdown_of(size));
  if (large) self.countdown += taken;
  if (!thread.has_countdown) {
    // The thread's first block: its random state exists only now.
    thread.has_countdown = true;
    self.countdown = base + draw(thread) - (large ? 0 : taken);
  }
  if (large) return true;
  if (self.countdown >= base) return false;
  report_halvings(thread);
  self.countdown = base + draw(thread);
  return true;
}

// ---- events ----

// An allocation of `size` bytes has failed: adds them to the countdown again.
void take_back(std::size_t size) {
  self.countdown = static_cast<std::int64_t>(static_cast<std::uint64_t>(self.countdown) + countdown_of(size));
}

std::size_t usable_size(void* block) {
  return real.malloc_usable_size != nullptr ? real.malloc_usable_size(block) : 0;
}

// Puts the duration of a call: one or two words.
void put_time(thread_state& thread, note_kind known, note_kind not_known, const call_time& time) {
  if (time.known == timing::none) return;
  if (time.known == timing::interrupted) {
    thread.put(note_word(not_known, 0));
  } else {
    thread.put(note_word(known, ticks_figure(time.ticks, time.known == timing::doubtful)));
  }
  if (time.nothing != 0) thread.put(note_word(note_kind::nothing_ticks, ticks_figure(time.nothing, false)));
}

// The event's time is the end of the call if the call was timed, otherwise now.
void put_block(thread_state& thread, word_kind kind, std::uintptr_t block, std::size_t size,
               std::uint32_t node, const call_time& time) {
  if (!thread.reserve(6)) return;
  if (size >= size_elsewhere) thread.put(note_word(note_kind::size, size));
  put_time(thread, note_kind::call_ticks, note_kind::untimed_call, time);
  const std::uint64_t ticks = thread.ticks_since_last(time.end);
  thread.put(address_word(kind, ticks, block));
  thread.put(node | static_cast<std::uint64_t>(size < size_elsewhere ? size : size_elsewhere) << 32);
  thread.publish();
}

void put_note(thread_state& thread, note_kind what, std::uint64_t figure) {
  if (thread.reserve(1)) thread.put(note_word(what, figure));
}

bool wants_usable(const thread_state& thread, std::size_t size) {
  return !is_full() || size >= large_block_bytes || (thread.events & (usable_every - 1)) == 1;
}

// Records how many pages of a block are resident, before it is freed: of a very long one in proportion to pieces of it, as
// the program waits.
void put_residency(thread_state& thread, void* block, std::size_t size) {
  if (size < large_block_bytes) return;
  if (size < always_checked_bytes && (next_random(thread.random) & (check_every - 1)) != 0) return;
  constexpr std::size_t most_pieces = 64;
  unsigned char states[1024];
  const std::uintptr_t page = static_cast<std::uintptr_t>(getpagesize());
  // Whole pages only: the pages at both ends may be shared with other blocks.
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(block) + page - 1) & ~(page - 1);
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(block) + size) & ~(page - 1);
  const std::size_t pages = begin < end ? (end - begin) / page : 0;
  const std::size_t step = std::max(sizeof states, pages / most_pieces);
  std::uint64_t checked = 0;
  std::uint64_t resident = 0;
  for (std::size_t first = 0; first < pages; first += step) {
    const std::size_t count = std::min(sizeof states, pages - first);
    if (own_call(SYS_mincore, static_cast<long>(begin + first * page), static_cast<long>(count * page),
                 reinterpret_cast<long>(states)) != 0) {
      return;
    }
    for (std::size_t index = 0; index < count; ++index) resident += states[index] & 1;
    checked += count;
  }
  if (checked == 0) return;
  put_note(thread, note_kind::checked_pages, pages);
  put_note(thread, note_kind::resident_pages, resident * pages / checked);
}

bool is_to_be_timed(thread_state& thread, std::size_t size) {
  if (!is_full() || size >= large_block_bytes) return true;
  if (self.untimed != 0) {
    --self.untimed;
    return false;
  }
  // Skips 0 to 2 * full_timed_every - 2 calls, uniformly distributed, so that a regular pattern in the program
  // cannot decide which calls are timed.
  self.untimed = static_cast<std::uint8_t>((next_random(thread.random) >> 32) % (2 * full_timed_every - 1));
  return true;
}

bool take_size(void* block, std::size_t& size) {
  const holding_mark lock;
  return process->samples.take(block, size);
}

// Whether `block`, which is about to be freed, was recorded; if so, records how much of it is resident. The size is 0 if it is
// not known: of small blocks in mode full. The program's malloc is not asked, as it must be the first to see a damaged heap.
bool leaves(thread_state& thread, void* block, std::size_t& size) {
  size = 0;
  // acquire: partner of the release in sampled_blocks::grow: the counts are filled
  const block_filter* large = process->large.load(std::memory_order_acquire);
  const bool may_be_known = !is_full() || (large != nullptr && may_hold(*large, block));
  const bool known = may_be_known && take_size(block, size);
  if (!known && !is_full()) return false;
  put_residency(thread, block, size);
  return true;
}

// Keeps the size of a recorded block until leaves(). False: no memory, and the block must not be recorded.
bool keep_size(void* block, std::size_t size) {
  const holding_mark lock;
  if (!is_full()) return process->samples.insert(block, size, filter);
  if (size >= large_block_bytes) process->samples.insert(block, usable_size(block), process->large);
  return true;
}

}  // namespace

constinit std::atomic<const block_filter*> filter{&no_blocks};
constinit std::atomic<std::int64_t> recorded_below{0};

tick_source session_ticks() {
  return session.header != nullptr ? session.header->ticks : tick_source::counter;
}

void time_nothing(call_time& beside) {
  if (is_full() && (++self.state->nothings & (nothing_every - 1)) != 0) return;
  call_timer timer(session.header->ticks);
  real.free(nullptr);
  const call_time nothing = timer.stop();
  if (nothing.known != timing::interrupted) beside.nothing = nothing.ticks;
}

bool wants_time(std::size_t size) {
  // Without a state the thread has no random numbers to decide by.
  if (session.header == nullptr || self.busy != not_busy || self.state == nullptr) return false;
  if (has_fallen_silent()) return false;
  return is_to_be_timed(*self.state, size);
}

void allocated(word_kind kind, void* block, std::size_t size, std::size_t alignment,
               const call_origin& origin, const call_time& time) {
  if (block == nullptr) return take_back(size);
  const section here;
  if (here.thread == nullptr) return;
  thread_state& thread = *here.thread;
  if (!is_sampled(thread, size)) return;
  if (!keep_size(block, size)) return;
  const std::uint32_t node = node_of(thread, origin);
  if (alignment != 0) put_note(thread, note_kind::alignment, alignment);
  if (wants_usable(thread, size)) put_note(thread, note_kind::usable, usable_size(block));
  put_block(thread, kind, reinterpret_cast<std::uintptr_t>(block), size, node, time);
}

bool freeing(word_kind kind, void* block) {
  const section here;
  std::size_t size = 0;
  if (here.thread == nullptr || !leaves(*here.thread, block, size)) return false;
  thread_state& thread = *here.thread;
  if (!thread.reserve(2)) return false;
  const std::uint64_t ticks = thread.ticks_since_last();
  thread.put(address_word(kind, ticks, reinterpret_cast<std::uintptr_t>(block)));
  thread.publish();
  if (is_full() || size >= large_block_bytes) return is_to_be_timed(thread, size);
  // A random delay: see wants_free_time.
  if (self.timed_in == 0)
    self.timed_in = static_cast<std::uint8_t>(8 + (next_random(thread.random) >> 32) % 16);
  return false;
}

void freed(const call_time& time) {
  const section here;
  if (here.thread == nullptr || !here.thread->reserve(2)) return;
  put_time(*here.thread, note_kind::free_ticks, note_kind::untimed_free, time);
  here.thread->publish();
}

bool realloc_begins(void* block) {
  const section here;
  std::size_t size = 0;
  if (here.thread == nullptr || !leaves(*here.thread, block, size)) return false;
  thread_state& thread = *here.thread;
  if (!thread.reserve(2)) return false;
  const std::uint64_t ticks = thread.ticks_since_last();
  thread.put(address_word(word_kind::realloc_begin, ticks, reinterpret_cast<std::uintptr_t>(block)));
  thread.publish();
  thread.old_block = reinterpret_cast<std::uintptr_t>(block);
  thread.old_size = size;
  return true;
}

void realloc_ends(bool begun, void* block, std::size_t size, const call_origin& origin,
                  const call_time& time) {
  if (block == nullptr) take_back(size);
  const section here;
  if (here.thread == nullptr) return;
  thread_state& thread = *here.thread;
  if (block == nullptr) {
    if (!begun) return;
    if (size != 0) keep_size(reinterpret_cast<void*>(thread.old_block), thread.old_size);
    put_block(thread, word_kind::realloc_end, 0, size, 0, {});
    return;
  }
  const bool sampled = is_sampled(thread, size) && keep_size(block, size);
  if (!sampled && !begun) return;
  const std::uint32_t node = node_of(thread, origin);
  if (sampled && wants_usable(thread, size)) put_note(thread, note_kind::usable, usable_size(block));
  const auto address = sampled ? reinterpret_cast<std::uintptr_t>(block) : unrecorded_block;
  put_block(thread, word_kind::realloc_end, address, size, node, sampled ? time : call_time{});
}

void mapped(void* start, std::size_t bytes, const call_origin& origin) {
  if (is_allocators(origin)) return;
  const section here;
  if (here.thread == nullptr) return;
  thread_state& thread = *here.thread;
  const std::uint32_t node = node_of(thread, origin);
  if (!thread.reserve(4)) return;
  const std::uint64_t ticks = thread.ticks_since_last();
  thread.put(address_word(word_kind::map, ticks, reinterpret_cast<std::uintptr_t>(start)));
  thread.put(bytes);
  thread.put(node);
  thread.publish();
}

bool unmapping(void* start, std::size_t bytes) {
  const section here;
  if (here.thread == nullptr) return false;
  thread_state& thread = *here.thread;
  if (!thread.reserve(3)) return false;
  const std::uint64_t ticks = thread.ticks_since_last();
  thread.put(address_word(word_kind::unmap, ticks, reinterpret_cast<std::uintptr_t>(start)));
  thread.put(bytes);
  thread.publish();
  return true;
}

void unmap_refused(void* start) {
  const section here;
  if (here.thread == nullptr || !here.thread->reserve(1)) return;
  here.thread->put(note_word(note_kind::unmap_refused, reinterpret_cast<std::uintptr_t>(start) >> 3));
  here.thread->publish();
}

void thread_named(const char* name) {
  const section here;
  if (here.thread != nullptr) put_text(*here.thread, text_kind::thread_name, name, nullptr, 0);
}

void fall_silent(silence because) {
  is_silent.store(true, std::memory_order_relaxed);
  if (process == nullptr) return;
  if (process->file.page != nullptr)
    process->file.page->silent_because.store(because, std::memory_order_relaxed);
  detach();
}

}  // namespace tarn::profiler::recorder
