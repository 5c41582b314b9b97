// SPDX-License-Identifier: MIT
#include "profiler/record/recorder_state.hpp"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "os/syscall.hpp"

// ld.so's: near the end of the main thread's stack, above all frames.
extern "C" [[gnu::weak]] void* __libc_stack_end;  // NOLINT(readability-identifier-naming): its name

namespace tarn::profiler::recorder {

constinit shared_memory shared;
constinit rule_table rules;
constinit process_state* process = nullptr;
constinit bool started = false;
constinit std::atomic<std::uint32_t> stack_generation{0};
constinit std::atomic<std::uint32_t> library_generation{0};

namespace {

constexpr std::uint64_t populate_bytes = std::uint64_t{64} << 10;
constexpr long wait_ns = 100000;
constexpr unsigned most_waits = 20000;  // of wait_ns without a sign of the collector
constexpr unsigned most_idle_beats =
    256;  // of the collector's rounds in which it reads nothing of a full ring
constexpr std::uintptr_t usual_stack_bytes = std::uintptr_t{8} << 20;

// Not wiped by fork: a child's forebear.
std::uint64_t last_serial = 0;
std::int32_t last_pid = 0;
pthread_key_t end_key;
bool has_end_key = false;

long pid_now() { return os::system_call(SYS_getpid); }

bool failed(long result) { return result < 0 && result > -4096; }

void count_own_faults(std::size_t bytes) {
  if (process != nullptr && process->slot != nullptr) {
    process->slot->own_faults.fetch_add(bytes / 4096, std::memory_order_relaxed);
  }
}

// Memory that is wiped in a forked child.
void* map_wiped(std::size_t bytes) {
  void* memory = map_pages(bytes);
  if (memory == nullptr) return nullptr;
  if (failed(os::system_call(SYS_madvise, reinterpret_cast<long>(memory), static_cast<long>(bytes),
                             MADV_WIPEONFORK))) {
    unmap_pages(memory, bytes);
    return nullptr;
  }
  return memory;
}

// Reads a decimal number and steps over it and one character behind it.
std::uint64_t take_number(const char*& text) {
  std::uint64_t value = 0;
  while (*text >= '0' && *text <= '9') value = 10 * value + static_cast<std::uint64_t>(*text++ - '0');
  if (*text != 0) ++text;
  return value;
}

char* put_number(char* out, std::uint64_t value) {
  char digits[20];
  unsigned count = 0;
  do digits[count++] = static_cast<char>('0' + value % 10);
  while ((value /= 10) != 0);
  while (count > 0) *out++ = digits[--count];
  *out = 0;
  return out;
}

char* put_string(char* out, const char* text) {
  while (*text != 0) *out++ = *text++;
  *out = 0;
  return out;
}

// A file of the collector's, as this process has mapped it.
struct mapped_file {
  void* memory = nullptr;  // null: it could not be mapped
  std::size_t bytes = 0;
};

// Maps /proc/PID/fd/DESCRIPTOR, provided that it is the file of that number and has the seals.
mapped_file map_file(std::uint64_t pid, std::uint64_t descriptor, std::uint64_t inode, bool writable,
                     long seals) {
  char path[64];
  char* end = put_number(put_string(path, "/proc/"), pid);
  put_number(put_string(end, "/fd/"), descriptor);
  const long file = os::system_call(SYS_openat, AT_FDCWD, reinterpret_cast<long>(path),
                                    (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (failed(file)) return {};
  struct stat status = {};
  const long sealed = os::system_call(SYS_fcntl, file, F_GET_SEALS);
  long memory = -1;
  if (fstat(static_cast<int>(file), &status) == 0 && status.st_ino == inode && !failed(sealed) &&
      (sealed & seals) == seals) {
    memory = os::system_call(SYS_mmap, 0, status.st_size, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                             MAP_SHARED | MAP_NORESERVE, file, 0);
  }
  os::system_call(SYS_close, file);
  if (failed(memory)) return {};
  os::system_call(SYS_madvise, memory, status.st_size, MADV_DONTDUMP);
  return {reinterpret_cast<void*>(memory), static_cast<std::size_t>(status.st_size)};
}

void unmap_file(const mapped_file& file) {
  if (file.memory != nullptr) unmap_pages(file.memory, file.bytes);
}

bool map_session(const char* place) {
  const std::uint64_t pid = take_number(place);
  const std::uint64_t header_descriptor = take_number(place);
  const std::uint64_t header_inode = take_number(place);
  const std::uint64_t state_descriptor = take_number(place);
  const std::uint64_t state_inode = take_number(place);
  const mapped_file header = map_file(pid, header_descriptor, header_inode, false, header_seals);
  const mapped_file state = map_file(pid, state_descriptor, state_inode, true, state_seals);
  const auto* described = static_cast<const session_header*>(header.memory);
  if (state.memory == nullptr || header.bytes < sizeof(session_header) ||
      !describes_state(*described, state.bytes)) {
    unmap_file(header);
    unmap_file(state);
    return false;
  }
  auto* bytes = static_cast<unsigned char*>(state.memory);
  shared.state = static_cast<session_state*>(state.memory);
  shared.rings = reinterpret_cast<ring_header*>(bytes + described->rings_offset);
  shared.words = reinterpret_cast<std::uint64_t*>(bytes + described->words_offset);
  shared.header = described;
  return true;
}

// The end of a path is what tells.
void keep_path(char (&room)[path_room], const char* path, std::size_t length) {
  const std::size_t skipped = length < path_room ? 0 : length - path_room + 1;
  std::memcpy(room, path + skipped, length - skipped);
  room[length - skipped] = 0;
}

usage_figures usage_now() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1000000000U +
           static_cast<std::uint64_t>(time.tv_usec) * 1000U;
  };
  return {static_cast<std::uint64_t>(usage.ru_minflt), static_cast<std::uint64_t>(usage.ru_majflt),
          ns(usage.ru_utime), ns(usage.ru_stime)};
}

std::uint64_t ticks_now() { return read_ticks(shared.header->ticks) >> shared.header->tick_shift; }

void fill_slot(process_slot& slot) {
  const auto pid = static_cast<std::int32_t>(pid_now());
  slot.pid = pid;
  slot.parent_pid = static_cast<std::int32_t>(os::system_call(SYS_getppid));
  slot.serial = shared.state->next_serial.fetch_add(1, std::memory_order_relaxed);
  slot.parent_serial = last_pid != pid ? last_serial : 0;
  slot.start_ticks = ticks_now();
  for (auto* count : {&slot.lost_waiting, &slot.lost_nested, &slot.lost_threads, &slot.own_faults,
                      &slot.unwind_checked, &slot.unwind_wrong}) {
    count->store(0, std::memory_order_relaxed);
  }
  slot.at_start = usage_now();
  slot.ended.store(0, std::memory_order_relaxed);
  char path[4096];
  const long length = os::system_call(SYS_readlinkat, AT_FDCWD, reinterpret_cast<long>("/proc/self/exe"),
                                      reinterpret_cast<long>(path), sizeof path);
  keep_path(slot.program, path, failed(length) ? 0 : static_cast<std::size_t>(length));
  loaded_module allocator;
  slot.allocator[0] = 0;
  if (find_module(reinterpret_cast<std::uintptr_t>(real.malloc), allocator) && allocator.path != nullptr) {
    keep_path(slot.allocator, allocator.path, std::strlen(allocator.path));
    slot.allocator_start = allocator.start;
    slot.allocator_end = allocator.end;
  }
  last_serial = slot.serial;
  last_pid = pid;
}

// One thread attaches; others that come meanwhile record nothing yet.
bool attach() {
  // acquire, pairs with the release below: slot and slot_index are there
  if (process->attaching.load(std::memory_order_acquire) == attached) return true;
  std::uint32_t state = not_attached;
  if (!process->attaching.compare_exchange_strong(state, under_way, std::memory_order_acquire)) {
    return state == attached;
  }
  // relaxed: a stale answer means some events more that nobody takes
  if (shared.header->recording.load(std::memory_order_relaxed) == 0) {
    detach();
    return false;
  }
  for (std::uint32_t index = 0; index < process_slots; ++index) {
    process_slot& slot = shared.state->processes[index];
    slot_state expected = slot_state::free;
    // acquire, pairs with the collector's release: it has done with the slot's last process
    if (!slot.state.compare_exchange_strong(expected, slot_state::claimed, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
      continue;
    }
    fill_slot(slot);
    if (shared.header->mode == record_mode::full) {
      static const block_filter everything = {0, 1};
      filter.store(&everything, std::memory_order_release);  // pairs with the acquire of those who free
    }
    process->slot_index = index;
    process->slot = &slot;
    // release, pairs with the collector's acquire: the slot is filled
    slot.state.store(slot_state::live, std::memory_order_release);
    // release, pairs with the acquire above
    process->attaching.store(attached, std::memory_order_release);
    return true;
  }
  detach();
  return false;
}

void end_of_thread(void* context) {
  auto* state = static_cast<thread_state*>(context);
  if (state->ring == nullptr) return;
  // Other destructors still allocate: only the last round is the end.
  if (++state->rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
    pthread_setspecific(end_key, state);
    return;
  }
  char name[17] = {};
  const std::uint8_t before = self.busy;
  self.busy = recording;
  if (!failed(os::system_call(SYS_prctl, PR_GET_NAME, reinterpret_cast<long>(name)))) {
    put_text(*state, text_kind::thread_name, name, nullptr, 0);
  }
  self.busy = before;
  state->ending.store(1, std::memory_order_release);  // pairs with take_over_ended's acquire
}

bool is_gone(std::int32_t thread) { return os::system_call(SYS_tgkill, pid_now(), thread, 0) == -ESRCH; }

// A state whose thread has ended, with its ring and the call paths it has told.
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
  const session_header& header = *shared.header;
  const std::uint32_t first = shared.state->next_ring.load(std::memory_order_relaxed);
  for (std::uint32_t step = 0; step < header.rings; ++step) {
    const std::uint32_t index = (first + step) % header.rings;
    ring_header& ring = shared.rings[index];
    slot_state expected = slot_state::free;
    // acquire, pairs with the collector's release: it has done with the ring's last owner
    if (!ring.state.compare_exchange_strong(expected, slot_state::claimed, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
      continue;
    }
    shared.state->next_ring.store((index + 1) % header.rings, std::memory_order_relaxed);
    ring.process.store(process->slot_index, std::memory_order_relaxed);
    ring.process_serial.store(process->slot->serial, std::memory_order_relaxed);
    ring.head.store(0, std::memory_order_relaxed);
    ring.tail.store(0, std::memory_order_relaxed);
    state.words = shared.words + static_cast<std::uint64_t>(index) * header.ring_words;
    state.mask = header.ring_words - 1;
    state.head = 0;
    state.populated = 0;
    state.room_end = 0;
    // release, pairs with the collector's acquire: head and tail are 0
    ring.state.store(slot_state::live, std::memory_order_release);
    state.ring = &ring;
    return true;
  }
  return false;
}

void find_own_stack(thread_state& state) {
  if (state.id == pid_now() && &__libc_stack_end != nullptr) {
    state.own_stack.high = (reinterpret_cast<std::uintptr_t>(__libc_stack_end) & ~std::uintptr_t{7}) + 8;
    rlimit limit = {};
    const bool limited = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < 64 * usual_stack_bytes;
    state.own_stack.low = state.own_stack.high - (limited ? limit.rlim_cur : usual_stack_bytes);
    return;
  }
  pthread_attr_t attributes;
  void* low = nullptr;
  std::size_t bytes = 0;
  state.own_stack = {};
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  if (pthread_attr_getstack(&attributes, &low, &bytes) == 0) {
    state.own_stack.low = reinterpret_cast<std::uintptr_t>(low);
    state.own_stack.high = state.own_stack.low + bytes;
  }
  pthread_attr_destroy(&attributes);
}

void introduce(thread_state& state) {
  state.rounds = 0;
  state.path.forget();
  state.random = static_cast<std::uint64_t>(state.id) * 0x9e3779b97f4a7c15U ^ ticks_now();
  state.events = 0;
  find_own_stack(state);
  if (has_end_key) pthread_setspecific(end_key, &state);
  if (!state.reserve(2)) return;
  state.last_ticks = ticks_now();
  state.put(static_cast<std::uint64_t>(word_kind::time) | state.last_ticks << kind_bits);
  state.put(static_cast<std::uint64_t>(word_kind::thread) |
            static_cast<std::uint64_t>(static_cast<std::uint32_t>(state.id)) << 32);
  state.publish();
  char name[17] = {};
  if (!failed(os::system_call(SYS_prctl, PR_GET_NAME, reinterpret_cast<long>(name)))) {
    put_text(state, text_kind::thread_name, name, nullptr, 0);
  }
}

thread_state* new_thread() {
  if (process == nullptr || shared.header == nullptr) return nullptr;
  // relaxed: nothing depends on it but whether events are still made
  if (process->detached.load(std::memory_order_relaxed) != 0 || !attach()) return nullptr;
  const auto id = static_cast<std::int32_t>(os::system_call(SYS_gettid));
  // After a fork its memory is there, but wiped.
  thread_state* state = self.state;
  const bool forked = state != nullptr;
  if (!forked) state = take_over_ended(id);
  const bool taken = state != nullptr && !forked;
  if (state == nullptr) {
    state = static_cast<thread_state*>(map_wiped(sizeof(thread_state)));
    if (state == nullptr) return nullptr;
    count_own_faults(sizeof(thread_state));
  }
  if (!taken && !claim_ring(*state)) {
    process->slot->lost_threads.fetch_add(1, std::memory_order_relaxed);
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
  introduce(*state);
  return state;
}

void populate_more(thread_state& thread, std::uint64_t ring_words) {
  if (thread.populated >= ring_words || thread.head + most_words < thread.populated) return;
  constexpr std::uint64_t step = populate_bytes / 8;
  const std::uint64_t words = step < ring_words - thread.populated ? step : ring_words - thread.populated;
  os::system_call(SYS_madvise, reinterpret_cast<long>(thread.words + thread.populated),
                  static_cast<long>(words * 8), MADV_POPULATE_WRITE);
  thread.populated += words;
  count_own_faults(words * 8);
}

// Looks up the mapping around `address` in /proc/self/maps.
stack_bounds find_mapping(std::uintptr_t address) {
  stack_bounds found;
  const long file =
      os::system_call(SYS_openat, AT_FDCWD, reinterpret_cast<long>("/proc/self/maps"), O_RDONLY | O_CLOEXEC);
  if (failed(file)) return found;
  char buffer[1024];
  std::uintptr_t numbers[2] = {0, 0};
  unsigned field = 0;  // 0 and 1: the two numbers; 2: the rest of the line
  for (;;) {
    const long size = os::system_call(SYS_read, file, reinterpret_cast<long>(buffer), sizeof buffer);
    if (size <= 0) break;
    for (long index = 0; index < size && found.high == 0; ++index) {
      const char unit = buffer[index];
      if (unit == '\n') {
        if (address >= numbers[0] && address < numbers[1]) found = {numbers[0], numbers[1]};
        numbers[0] = numbers[1] = 0;
        field = 0;
      } else if (field < 2 && (unit == '-' || unit == ' ')) {
        ++field;
      } else if (field < 2) {
        numbers[field] =
            numbers[field] << 4 | static_cast<std::uintptr_t>(unit <= '9' ? unit - '0' : unit - 'a' + 10);
      }
    }
    if (found.high != 0) break;
  }
  os::system_call(SYS_close, file);
  return found;
}

}  // namespace

void detach() {
  static const block_filter nothing = {0, 0};
  process->detached.store(1, std::memory_order_relaxed);
  filter.store(&nothing, std::memory_order_release);  // pairs with the acquire of those who free
}

std::uint64_t thread_state::ticks_since_last() {
  const std::uint64_t now = ticks_now();
  std::uint64_t passed = now - last_ticks;
  if (passed > most_ticks) {
    put(static_cast<std::uint64_t>(word_kind::time) | now << kind_bits);
    passed = 0;
  }
  last_ticks = now;
  return passed;
}

bool thread_state::give_up() {
  process->slot->lost_waiting.fetch_add(1, std::memory_order_relaxed);
  detach();
  return false;
}

bool thread_state::make_room(std::uint64_t count) {
  const session_header& header = *shared.header;
  std::uint64_t beat = 0;
  std::uint64_t tail = 0;
  unsigned waits = 0;
  unsigned beats = 0;  // without a word of this ring being read
  for (;;) {
    // relaxed: see attach
    if (header.recording.load(std::memory_order_relaxed) == 0 ||
        process->detached.load(std::memory_order_relaxed) != 0) {
      detach();
      return false;
    }
    populate_more(*this, header.ring_words);
    // acquire, pairs with the collector's release: it has read the words that are overwritten now
    const std::uint64_t now_tail = ring->tail.load(std::memory_order_acquire);
    if (head - now_tail > header.ring_words) return give_up();  // another process has overwritten it
    if (now_tail != tail) {
      tail = now_tail;
      beats = 0;
    }
    room_end = tail + header.ring_words;
    if (populated < header.ring_words && populated < room_end) room_end = populated;
    if (head + count <= room_end) return true;
    const std::uint64_t now = header.beat.load(std::memory_order_relaxed);
    if (now != beat) {
      beat = now;
      waits = 0;
      ++beats;
    }
    // Where the collector's number is not of this process's space, its silence tells.
    const bool gone = waits % 64 == 63 && os::system_call(SYS_kill, header.collector, 0) == -ESRCH;
    // Where another process has overwritten what this one has published, the collector works but reads nothing here.
    if (gone || ++waits > most_waits || beats > most_idle_beats) return give_up();
    timespec pause = {0, wait_ns};
    os::system_call(SYS_nanosleep, reinterpret_cast<long>(&pause), 0);
  }
}

thread_state* find_thread() {
  thread_state* state = self.state;
  if (state != nullptr && state->ring != nullptr) return state;
  const std::uint8_t before = self.busy;
  self.busy = calling;
  const int error = errno;
  state = new_thread();
  errno = error;
  self.busy = before;
  return state;
}

void put_text(thread_state& thread, text_kind kind, const char* text, const std::uint64_t* tail,
              unsigned tail_words) {
  std::size_t length = std::strlen(text);
  if (length > most_text_bytes) length = most_text_bytes;
  const std::size_t words = (length + 7) / 8;
  if (!thread.reserve(1 + words + tail_words)) return;
  thread.put(static_cast<std::uint64_t>(word_kind::text) | static_cast<std::uint64_t>(kind) << 4 |
             length << 16);
  for (std::size_t index = 0; index < words; ++index) {
    std::uint64_t word = 0;
    std::memcpy(&word, text + 8 * index, length - 8 * index < 8 ? length - 8 * index : 8);
    thread.put(word);
  }
  for (unsigned index = 0; index < tail_words; ++index) thread.put(tail[index]);
  thread.publish();
}

const stack_bounds& bounds_of(thread_state& thread, std::uintptr_t stack_pointer) {
  if (thread.own_stack.contain(stack_pointer)) return thread.own_stack;
  // relaxed: this thread's own unmapping is what could take its stack away
  const std::uint32_t generation = stack_generation.load(std::memory_order_relaxed);
  if (thread.other_stack_generation != generation || !thread.other_stack.contain(stack_pointer)) {
    thread.other_stack_generation = generation;
    thread.other_stack = find_mapping(stack_pointer);
    thread.path.forget();
  }
  return thread.other_stack;
}

void start() {
  // Before libc is ready there is no environment; then a later call starts.
  if (started || real.malloc == nullptr || environ == nullptr) return;
  started = true;
  const char* place = std::getenv(session_variable);
  if (place == nullptr || *place == 0) return;
  const std::uint8_t before = self.busy;
  self.busy = calling;
  const int error = errno;
  auto* made = static_cast<process_state*>(map_wiped(sizeof(process_state)));
  if (made != nullptr && map_session(place)) {
    has_end_key = pthread_key_create(&end_key, end_of_thread) == 0;
    process = made;
    self.countdown = -1;  // so that this thread is introduced by its next allocation
    find_thread();
  }
  errno = error;
  self.busy = before;
}

void process_ends() {
  if (process == nullptr || process->slot == nullptr ||
      process->detached.load(std::memory_order_relaxed) != 0)
    return;
  if (process->slot->pid != pid_now()) return;  // a child by vfork, in its parent's memory
  const int error = errno;
  process->slot->at_exit = usage_now();
  process->slot->ended.store(1, std::memory_order_release);  // pairs with the collector's acquire
  errno = error;
}

}  // namespace tarn::profiler::recorder
