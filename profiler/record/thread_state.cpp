// SPDX-License-Identifier: MIT
// thread_state: the recorder's state of each thread: how a thread gets a ring, and how its words get there.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "os/syscall.hpp"
#include "profiler/record/own_calls.hpp"
#include "profiler/record/recorder_state.hpp"

namespace tarn::profiler::recorder {

namespace {

constexpr std::uint64_t most_step = std::uint64_t{8} << 10;  // words

pthread_key_t end_key;
bool has_end_key = false;

// In a sandbox without a system call: libc computes the id of a thread's CPU clock from the thread id, as ~id << 3
// | kind.
std::int32_t thread_id() {
  clockid_t clock = 0;
  if (!in_sandbox()) return static_cast<std::int32_t>(os::system_call(SYS_gettid));
  return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? ~(clock >> 3) : 0;
}

void end_of_thread(void* context) {
  auto* state = static_cast<thread_state*>(context);
  if (state->ring == nullptr) return;
  // Other destructors may still allocate, so only the last round counts as the thread's end.
  if (++state->rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
    pthread_setspecific(end_key, state);
    return;
  }
  char name[17] = {};
  const std::uint8_t before = self.busy;
  self.busy = holding;
  if (state->enter() && !failed(own_call(SYS_prctl, PR_GET_NAME, reinterpret_cast<long>(name)))) {
    put_text(*state, text_kind::thread_name, name, nullptr, 0);
  }
  state->leave();
  self.busy = before;
  state->ending.store(1, std::memory_order_release);  // partner of take_over_ended's acquire
}

bool is_gone(std::int32_t thread) { return own_call(SYS_tgkill, pid_now(), thread, 0) == -ESRCH; }

// Takes over the state of a thread that has ended, with its ring and node ids; null: there is none.
thread_state* take_over_ended(std::int32_t id) {
  const os::lock_guard hold(process->threads_lock);
  for (thread_state* state = process->threads; state != nullptr; state = state->next) {
    if (state->ending.load(std::memory_order_acquire) == 0) continue;
    if (state->id != id && !is_gone(state->id)) continue;
    state->ending.store(0, std::memory_order_relaxed);
    return state;
  }
  return nullptr;
}

bool claim_ring(thread_state& state) {
  const process_file& file = process->file;
  // relaxed: a ring that no thread has taken yet is all zeroes
  const std::uint32_t index = file.page->rings.fetch_add(1, std::memory_order_relaxed);
  if (index >= file.ring_count) return false;
  const std::uint64_t ring_words = session.header->ring_words;
  state.words = file.words + index * ring_words;
  state.mask = ring_words - 1;
  state.head = 0;
  state.step = 0;
  state.room_end = 0;
  state.ring = &file.rings[index];
  return true;
}

void begin_state(thread_state& state) {
  state.rounds = 0;
  state.path.forget();
  state.random = static_cast<std::uint64_t>(state.id) * 0x9e3779b97f4a7c15U ^ ticks_now();
  state.events = 0;
  state.has_countdown = false;
  state.is_introduced = false;
  state.reported_halvings = none_reported;
  state.sections = 0;
  state.nothings = 0;
  state.stack.begin(state.id == process->file.page->pid);
  if (has_end_key) pthread_setspecific(end_key, &state);
}

thread_state* new_thread() {
  if (session.header == nullptr || !attach()) return nullptr;
  // Rings do not become free again for a thread that got none; those of ended threads serve new threads.
  if (self.lost_in == process->file.page) return nullptr;
  const std::int32_t id = thread_id();
  // Not null after fork: the memory is kept, but wiped.
  thread_state* state = self.state;
  const bool forked = state != nullptr;
  if (!forked) state = take_over_ended(id);
  const bool taken = state != nullptr && !forked;
  if (state == nullptr) {
    state = static_cast<thread_state*>(map_wiped(sizeof(thread_state)));
    if (state == nullptr) return nullptr;
  }
  if (!taken && !claim_ring(*state)) {
    process->file.page->lost_threads.fetch_add(1, std::memory_order_relaxed);
    self.lost_in = process->file.page;
    if (!forked) unmap_pages(state, sizeof(thread_state));
    return nullptr;
  }
  state->id = id;
  if (!taken) {
    const os::lock_guard hold(process->threads_lock);
    state->next = process->threads;
    process->threads = state;
  }
  self.state = state;
  begin_state(*state);
  // Otherwise resume() does it.
  if (!state->is_interrupted) state->introduce();
  return state;
}

}  // namespace

void follow_thread_ends() {
  if (!has_end_key) has_end_key = pthread_key_create(&end_key, end_of_thread) == 0;
}

void release_threads() {
  for (thread_state* state = process->threads; state != nullptr;) {
    thread_state* next = state->next;
    state->path.release();
    if (is_gone(state->id)) {
      unmap_pages(state, sizeof(thread_state));
    } else {
      wipe_pages(state, sizeof(thread_state));
    }
    state = next;
  }
  process->threads = nullptr;
}

void thread_state::introduce() {
  if (!reserve(3)) return;
  last_ticks = ticks_now();
  put(static_cast<std::uint64_t>(word_kind::time) | last_ticks << kind_bits);
  put(static_cast<std::uint64_t>(word_kind::thread) |
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(id)) << 32);
  if (id != process->file.page->pid) put(note_word(note_kind::stack_end, stack.end()));
  publish();
  is_introduced = true;
  char name[17] = {};
  if (!failed(own_call(SYS_prctl, PR_GET_NAME, reinterpret_cast<long>(name)))) {
    put_text(*this, text_kind::thread_name, name, nullptr, 0);
  }
}

bool thread_state::begin_anew() {
  head = ring->head.load(std::memory_order_relaxed);  // its own
  path.release();
  modules.forget();
  reported_halvings = none_reported;
  if (!reserve(2)) return false;
  last_ticks = ticks_now();
  put(static_cast<std::uint64_t>(word_kind::time) | last_ticks << kind_bits);
  put(note_word(note_kind::nodes_anew, 0));
  publish();
  return true;
}

void thread_state::start_anew() {
  if (ring == nullptr || !enter()) return;
  begin_anew();
  leave();
}

bool thread_state::interrupt() {
  // relaxed, both: a sum, and a number of which only a change matters
  process->file.page->lost_waiting.fetch_add(1, std::memory_order_relaxed);
  interrupted_in = session.header->rounds.load(std::memory_order_relaxed);
  is_interrupted = true;
  head = room_end;  // nothing more of this event fits in
  return false;
}

bool thread_state::resume() {
  // relaxed, both: as in interrupt
  if (session.header->rounds.load(std::memory_order_relaxed) == interrupted_in) {
    process->file.page->lost_waiting.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  is_interrupted = false;
  if (!begin_anew()) return false;
  if (!is_introduced) introduce();
  return is_introduced;
}

bool thread_state::give_up() {
  process->file.page->silent_because.store(silence::no_collector, std::memory_order_relaxed);
  detach();
  return false;
}

// The next page if the collector has read all pages before the last one; otherwise twice as much as last time.
void thread_state::populate_more(std::uint64_t tail) {
  const auto page_words = static_cast<std::uint64_t>(getpagesize()) / 8;
  const std::uint64_t free_words = std::min(tail + mask + 1 - room_end, mask + 1 - (room_end & mask));
  step = std::min(tail + page_words >= room_end ? page_words : std::min(2 * step, most_step), free_words);
  const bool counts_faults = sections > young_sections;  // otherwise the section does
  if (counts_faults) self.faults_before = thread_faults();
  const long result = own_call(SYS_madvise, reinterpret_cast<long>(words + (room_end & mask)),
                               static_cast<long>(step * 8), MADV_POPULATE_WRITE);
  room_end += step;
  if (!counts_faults) return;
  count_own_faults();
  if (result != 0)  // they are still to come; relaxed: a sum
    process->file.page->own_faults.fetch_add(step / page_words, std::memory_order_relaxed);
}

bool thread_state::make_room(std::uint64_t count) {
  std::uint64_t tail = 0;
  collector_patience patience;
  while (!is_interrupted) {
    // relaxed, both: a stale value only means another round, or some events that nothing reads
    if (session.header->recording.load(std::memory_order_relaxed) == 0 ||
        process->detached.load(std::memory_order_relaxed) != 0) {
      detach();
      return false;
    }
    // acquire: partner of the collector's release in ring_set::report: it has read the words that will be overwritten
    const std::uint64_t now_tail = ring->tail.load(std::memory_order_acquire);
    if (head - now_tail > mask + 1) return give_up();  // the program has overwritten the tail
    if (now_tail != tail) {
      tail = now_tail;
      patience.sign_of_progress();
    }
    while (head + count > room_end && room_end < tail + mask + 1) populate_more(tail);
    if (head + count <= room_end) return true;
    // If the program has overwritten the published head, the collector goes on, but reads nothing of this ring;
    // then patience ends.
    if (!patience.wait(*session.header)) return patience.is_silent() ? interrupt() : give_up();
  }
  return false;
}

thread_state* find_thread() {
  thread_state* state = self.state;
  if (state != nullptr && state->ring != nullptr) return state;
  const std::uint8_t before = self.busy;
  self.busy = calling;
  const int error = errno;
  state = nullptr;
  if (process != nullptr) {
    // seq_cst, all four: this thread increments `arriving`, then reads `detached`; release_recording sets
    // `detached` (in detach), then reads `arriving`. So either it sees this thread, or this thread sees that
    // nothing is recorded any more.
    process->arriving.fetch_add(1, std::memory_order_seq_cst);
    if (process->detached.load(std::memory_order_seq_cst) == 0) state = new_thread();
    process->arriving.fetch_sub(1, std::memory_order_release);
  }
  errno = error;
  self.busy = before;
  return state;
}

void put_text(thread_state& thread, text_kind kind, std::string_view text, const std::uint64_t* tail,
              unsigned tail_words) {
  const std::size_t length = text.size() < most_text_bytes ? text.size() : most_text_bytes;
  const std::size_t words = (length + 7) / 8;
  if (!thread.reserve(1 + words + tail_words)) return;
  thread.put(static_cast<std::uint64_t>(word_kind::text) | static_cast<std::uint64_t>(kind) << 4 |
             length << 16);
  for (std::size_t index = 0; index < words; ++index) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + 8 * index, length - 8 * index < 8 ? length - 8 * index : 8);
    thread.put(word);
  }
  for (unsigned index = 0; index < tail_words; ++index) thread.put(tail[index]);
  thread.publish();
}

}  // namespace tarn::profiler::recorder
