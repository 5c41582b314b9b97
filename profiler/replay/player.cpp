// SPDX-License-Identifier: MIT
#include "profiler/replay/player.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "profiler/replay/pool_routes.hpp"
#include "profiler/replay/trace_image.hpp"
#include "profiler/replay/work_code.hpp"

namespace tarn::profiler {

namespace {

// How far a lane may be ahead of the slowest one, in steps of the recording's order: 4,096 events.
constexpr std::uint32_t most_ahead = 4096 / order_step;
constexpr std::size_t operations_between_looks = 64;
constexpr std::size_t cache_line = 64;

void* const no_block = reinterpret_cast<void*>(std::uintptr_t{1});  // stands for an allocation that failed

[[noreturn]] void fail(const std::string& problem) { throw profile_error("replay: " + problem); }

// Memory for the replay itself, populated at once, so that it does not influence the measurement.
void* take_memory(std::size_t bytes) {
  void* const memory = mmap(nullptr, std::max<std::size_t>(bytes, 4096), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) fail(std::string("no memory for its places: ") + std::strerror(errno));
  return memory;
}

void pause_briefly(unsigned& round) {
  if (++round % 64 != 0) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    return;
  }
  const timespec moment = {0, 30000};
  nanosleep(&moment, nullptr);
}

struct alignas(cache_line) lane_progress {
  std::atomic<std::uint32_t> order{
      0};             // of the operation that comes next, or of an earlier one; only for pacing
  double failed = 0;  // written by its lane, read when all have ended
};

struct shared_state {
  const std::byte* image = nullptr;
  const image_header* header = nullptr;
  play_mode mode = play_mode::heap;
  std::atomic<void*>* places = nullptr;
  lane_progress* progress = nullptr;
  const route_pools* pools = nullptr;
  std::atomic<unsigned> ready{0};
  std::atomic<bool> go{false};
};

void write_pages(void* block, std::size_t size, std::size_t pages, std::size_t page_bytes) {
  auto* const bytes = static_cast<volatile std::byte*>(block);
  // Small blocks are written completely, of larger ones each page.
  const std::size_t step = size < page_bytes ? cache_line : page_bytes;
  const std::size_t end = std::min(size, pages * page_bytes);
  for (std::size_t at = 0; at < end; at += step) bytes[at] = std::byte{1};
}

// Replaces the program's own work: dependent reads over a part of the second-level cache, so that malloc finds its
// data as far away as in the program. The work for a given time is fixed, and so the same under every malloc.
class own_work {
 public:
  own_work() : memory_(static_cast<const volatile std::uint64_t*>(take_memory(bytes))) {}

  void run(std::uint64_t ns) {
    for (std::uint64_t step = 0; step < ns / ns_per_step; ++step) {
      at_ = at_ * 0x5851f42d4c957f2dU + 0x14057b7ef767814fU +
            memory_[(at_ >> 40) % (bytes / sizeof(std::uint64_t))];
    }
  }

 private:
  static constexpr std::size_t bytes = std::size_t{256} << 10;
  static constexpr std::uint64_t ns_per_step = 6;
  const volatile std::uint64_t* memory_;
  std::uint64_t at_ = 1;
};

class lane_player {
 public:
  lane_player(shared_state& shared, std::uint32_t lane)
      : shared_(shared), own_(shared.progress[lane]), page_bytes_(shared.header->page_bytes) {
    const auto* lanes = reinterpret_cast<const image_lane*>(shared.image + shared.header->lanes_offset);
    first_ = reinterpret_cast<const replay_op*>(shared.image + lanes[lane].first);
    count_ = lanes[lane].count;
    if (shared.mode == play_mode::routes) {
      routes_ = ::new (take_memory(sizeof(route_set))) route_set(*shared.pools);
    }
  }

  void run() {
    for (std::size_t index = 0; index < count_; ++index) {
      const replay_op& op = first_[index];
      if (index % operations_between_looks == 0) keep_pace(op.order);
      if (op.work != 0) work_.run(work_of_code(op.work));
      play_one(op);
    }
    own_.order.store(0xffffffff, std::memory_order_relaxed);
  }

 private:
  // The lane with the oldest next operation never waits here, so that one lane can always proceed.
  void keep_pace(std::uint32_t order) {
    own_.order.store(order, std::memory_order_relaxed);
    if (order < most_ahead || order - most_ahead <= slowest_) return;
    unsigned round = 0;
    while ((slowest_ = slowest()) < order - most_ahead) pause_briefly(round);
  }

  std::uint32_t slowest() const {
    std::uint32_t least = 0xffffffff;
    for (std::uint64_t lane = 0; lane < shared_.header->lanes; ++lane) {
      least = std::min(least, shared_.progress[lane].order.load(std::memory_order_relaxed));
    }
    return least;
  }

  // Waits until the lane that allocates the block has put it into the place.
  void* take_from(const replay_op& op, std::uint32_t place) {
    std::atomic<void*>& slot = shared_.places[place];
    void* block = slot.load(std::memory_order_acquire);  // pairs with put: the block's bytes
    if (block == nullptr) {
      own_.order.store(op.order, std::memory_order_relaxed);
      unsigned round = 0;
      while ((block = slot.load(std::memory_order_acquire)) == nullptr) pause_briefly(round);
    }
    return block;
  }

  void empty(std::uint32_t place) { shared_.places[place].store(nullptr, std::memory_order_relaxed); }

  void put(const replay_op& op, void* block) {
    if (block == nullptr) {
      own_.failed += 1;
      block = no_block;
    } else if (shared_.mode != play_mode::nothing && op.kind != replay_kind::reallocate) {
      write_pages(block, op.size, op.other, page_bytes_);
    }
    shared_.places[op.place].store(block, std::memory_order_release);  // pairs with take_from
  }

  void* obtain(const replay_op& op) {
    if (shared_.mode == play_mode::nothing) return &own_;
    if (op.route != 0 && routes_ != nullptr) {
      void* const block = routes_->take(op.route, op.size);
      if (block != nullptr && op.kind == replay_kind::zeroed) std::memset(block, 0, op.size);
      return block;
    }
    switch (op.kind) {
      case replay_kind::zeroed:
        return std::calloc(1, op.size);
      case replay_kind::by_new:
        return ::operator new(op.size, std::nothrow);
      case replay_kind::aligned:
        return aligned(op);
      case replay_kind::map: {
        void* const block = mmap(nullptr, std::max<std::uint64_t>(op.size, 1), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return block == MAP_FAILED ? nullptr : block;
      }
      default:
        return std::malloc(op.size);
    }
  }

  static void* aligned(const replay_op& op) {
    void* block = nullptr;
    const std::size_t alignment = std::max<std::size_t>(sizeof(void*), std::size_t{1} << op.alignment);
    return posix_memalign(&block, alignment, op.size) == 0 ? block : nullptr;
  }

  void release(const replay_op& op, void* block) {
    if (block == no_block || shared_.mode == play_mode::nothing) return;
    if (op.route != 0 && routes_ != nullptr) return routes_->give(op.route, block);
    if (op.kind == replay_kind::by_delete) return ::operator delete(block);
    if (op.kind == replay_kind::unmap) {
      munmap(block, std::max<std::uint64_t>(op.size, 1));
      return;
    }
    std::free(block);
  }

  void reallocate(const replay_op& op) {
    void* const old = take_from(op, op.other);
    empty(op.other);
    if (shared_.mode == play_mode::nothing) return put(op, old);
    void* const block = std::realloc(old == no_block ? nullptr : old, std::max<std::uint64_t>(op.size, 1));
    // The old block stays then, and is too small for the writes that follow.
    if (block == nullptr && old != no_block) std::free(old);
    put(op, block);
  }

  void play_one(const replay_op& op) {
    switch (op.kind) {
      case replay_kind::allocate:
      case replay_kind::zeroed:
      case replay_kind::aligned:
      case replay_kind::by_new:
      case replay_kind::map:
        return put(op, obtain(op));
      case replay_kind::free:
      case replay_kind::by_delete:
      case replay_kind::unmap: {
        void* const block = take_from(op, op.place);
        empty(op.place);
        return release(op, block);
      }
      case replay_kind::reallocate:
        return reallocate(op);
      case replay_kind::touch:
        if (op.place == no_place) return;
        if (void* const block = take_from(op, op.place);
            block != no_block && shared_.mode != play_mode::nothing) {
          write_pages(block, op.size, op.other, page_bytes_);
        }
    }
  }

  shared_state& shared_;
  lane_progress& own_;
  const replay_op* first_ = nullptr;
  std::size_t count_ = 0;
  std::size_t page_bytes_;
  std::uint32_t slowest_ = 0;
  route_set* routes_ = nullptr;  // in memory of the replay's own, which stays
  own_work work_;
};

// What follows reads /proc without stdio, whose buffers are blocks too.
double status_bytes(const char* name) {
  char text[4096];
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  if (size <= 0) return 0;
  text[size] = 0;
  const char* const found = std::strstr(text, name);
  return found != nullptr ? std::strtod(found + std::strlen(name), nullptr) * 1024 : 0;
}

// Resets the kernel's VmHWM.
void forget_peak() {
  const int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  const ssize_t written = write(file, "5", 1);
  (void)written;  // without it, the peak from before counts if it was higher
  close(file);
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double now() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct lane_start {
  shared_state* shared = nullptr;
  std::uint32_t lane = 0;
};

void* run_lane(void* argument) {
  const lane_start start = *static_cast<const lane_start*>(argument);
  lane_player player(*start.shared, start.lane);
  start.shared->ready.fetch_add(1, std::memory_order_relaxed);
  unsigned round = 0;
  while (!start.shared->go.load(std::memory_order_acquire)) pause_briefly(round);  // pairs with measure
  player.run();
  return nullptr;
}

// The first lane runs in this thread: it has the program's first event, so it is the main thread's.
play_figures measure(shared_state& shared, lane_start* starts, pthread_t* threads) {
  const auto lanes = static_cast<std::uint32_t>(shared.header->lanes);
  for (std::uint32_t lane = 0; lane < lanes; ++lane) starts[lane] = {&shared, lane};
  for (std::uint32_t lane = 1; lane < lanes; ++lane) {
    const int error = pthread_create(&threads[lane], nullptr, run_lane, &starts[lane]);
    if (error != 0) fail(std::string("cannot start a thread: ") + std::strerror(error));
  }
  lane_player first(shared, 0);
  unsigned round = 0;
  while (shared.ready.load(std::memory_order_relaxed) + 1 < lanes) pause_briefly(round);
  forget_peak();
  const double resident = status_bytes("VmRSS:");
  rusage before = {};
  rusage after = {};
  getrusage(RUSAGE_SELF, &before);
  const double begin = now();
  shared.go.store(true, std::memory_order_release);  // pairs with run_lane
  first.run();
  for (std::uint32_t lane = 1; lane < lanes; ++lane) pthread_join(threads[lane], nullptr);
  const double end = now();
  getrusage(RUSAGE_SELF, &after);
  play_figures figures;
  figures.wall_seconds = end - begin;
  figures.user_seconds = seconds_of(after.ru_utime) - seconds_of(before.ru_utime);
  figures.system_seconds = seconds_of(after.ru_stime) - seconds_of(before.ru_stime);
  figures.faults =
      static_cast<double>(after.ru_minflt - before.ru_minflt + after.ru_majflt - before.ru_majflt);
  figures.peak_bytes = std::max(0.0, status_bytes("VmHWM:") - resident);
  for (std::uint32_t lane = 0; lane < lanes; ++lane) figures.failed += shared.progress[lane].failed;
  return figures;
}

}  // namespace

play_figures play(int descriptor, play_mode mode) {
  struct stat status = {};
  if (fstat(descriptor, &status) != 0 || status.st_size < static_cast<off_t>(sizeof(image_header))) {
    fail("what it was given is no trace");
  }
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* const memory = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (memory == MAP_FAILED) fail(std::string("cannot map the trace: ") + std::strerror(errno));
  shared_state shared;
  shared.image = static_cast<const std::byte*>(memory);
  shared.header = reinterpret_cast<const image_header*>(shared.image);
  if (shared.header->magic != image_magic || shared.header->bytes != bytes)
    fail("what it was given is no trace");
  shared.mode = mode;
  const auto lanes = static_cast<std::size_t>(shared.header->lanes);
  shared.places =
      static_cast<std::atomic<void*>*>(take_memory(shared.header->places * sizeof(std::atomic<void*>)));
  shared.progress = static_cast<lane_progress*>(take_memory(lanes * sizeof(lane_progress)));
  route_pools pools;
  if (mode == play_mode::routes) {
    const std::string problem = pools.open(*shared.header);
    if (!problem.empty()) fail(problem);
    shared.pools = &pools;
  }
  auto* const starts = static_cast<lane_start*>(take_memory(lanes * sizeof(lane_start)));
  auto* const threads = static_cast<pthread_t*>(take_memory(lanes * sizeof(pthread_t)));
  return measure(shared, starts, threads);
}

}  // namespace tarn::profiler
