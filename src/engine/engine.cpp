// SPDX-License-Identifier: MIT
#include "engine/engine.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>

#include "engine/allocation_counts.hpp"
#include "engine/front.hpp"
#include "engine/options.hpp"
#include "os/memory.hpp"
#include "os/memory_calls.hpp"
#include "os/own_library.hpp"
#include "os/own_threads/thread.hpp"
#include "os/sandbox.hpp"

// Of glibc, absent in other libcs.
extern "C" [[gnu::weak]] int on_exit(void (*)(int, void*), void*) noexcept;

namespace tarn::engine {

namespace {

enum class thread_phase : std::uint8_t { fresh, attached, ended };
thread_local constinit thread_phase phase = thread_phase::fresh;

// The key whose destructor runs when a thread ends. A program may have used up all keys before our first allocation
// (exit_key is then meaningless), and libc may have no memory for a thread's value. A thread without a value ends
// unnoticed; its cache is adopted later (threads/registry.cpp), so such caches stay few.
pthread_key_t exit_key;
bool has_exit_key = false;

// libc calls the destructors of all keys in rounds while any key has a value, at most PTHREAD_DESTRUCTOR_ITERATIONS
// times. Other keys' destructors allocate and free, so the cache is destroyed only in the last round: before that, the
// key is given a value again. The value counts the rounds. ThreadSanitizer's destructor removes its state in the last
// round, so there the cache goes one round earlier.
constexpr std::uintptr_t last_round = PTHREAD_DESTRUCTOR_ITERATIONS - TARN_TSAN;

void use_processors(bool in_use) {
  if (processor_user.in_use == in_use) return;
  processor_user.in_use = in_use;
  processors.threads.fetch_add(in_use ? 1 : ~std::size_t{0}, std::memory_order_relaxed);
}

void thread_ends(void* value) {
  allocation_counts::forget();
  // In every round: this may be the last one that this thread reaches. Its next miss shares again.
  use_processors(false);
  const auto round = reinterpret_cast<std::uintptr_t>(value);
  if (round < last_round && pthread_setspecific(exit_key, reinterpret_cast<void*>(round + 1)) == 0) {
    return;
  }
  for_each_front([](const front& e) { e.thread_ends(); });
  thread_cache* cache = local_cache;
  phase = thread_phase::ended;
  local_cache = &no_cache;
  allocating = &no_cache;
  if (cache != &no_cache) registry.destroy(cache);
}

constinit os::mutex preparing{os::lock_rank::preparation};
std::atomic<bool> prepared{false};  // written under `preparing`
std::atomic<std::size_t> attached_threads{0};

// In this file, not in fork.cpp: a member of an archive is linked only if something refers to it. Not at the first
// allocation: that may come in a sandbox that forbids opening files.
[[gnu::constructor(101)]] void at_load([[maybe_unused]] int count, [[maybe_unused]] char** arguments,
                                       [[maybe_unused]] char** environment) {
#ifdef __GLIBC__
  // This library's constructors run before libc's, and may allocate; libc will set the same value.
  if (environ == nullptr) environ = environment;
#endif
  register_fork_handlers();
  os::huge_pages_everywhere() ? touch.set_everywhere(true) : metadata.set_never_huge();
  os::machine_bytes();
}

// Prepares the engine once. The lock makes a fork by another thread wait until preparation is complete.
void prepare() {
  {
    os::lock_guard guard(preparing);
    if (prepared.load(std::memory_order_relaxed)) return;
    // Nothing here allocates, so no block exists yet: all blocks are marked with the same secret.
    free_mark::choose_secret();
    options::read_environment();
    has_exit_key = pthread_key_create(&exit_key, thread_ends) == 0;
    // release: partner of the acquire in attach_thread().
    prepared.store(true, std::memory_order_release);
  }
  free_mark::protect_secret();
  // If another library's constructor, which allocates, runs before ours, our fork handlers are registered here, before
  // those that it registers. pthread_atfork allocates from the 49th handler on; if that were the process's first
  // allocation, before any constructor of this library, it would wait for itself.
  register_fork_handlers();
}

// After the options: the profile may have been switched on with a rate of its own.
void open_black_box() {
  const char* const folder = options::black_box_folder();
  if (folder == nullptr || !samples.box().open(folder)) return;
  if (profile_samples.mean() == 0) options::set("profile", "on");
  samples.box().note_mean(profile_samples.mean());
  if (on_exit != nullptr) on_exit([](int status, void*) { samples.box().end(status); }, nullptr);
}

// Runs after the constructors of src/os, which have priority 101: warnings about options need what they record.
[[gnu::constructor]] void prepare_at_load() {
  prepare();
  os::keep_own_library_loaded();
  open_black_box();
  options::start_control();
}

}  // namespace

os::mutex& preparation_lock() { return preparing; }

std::size_t threads_attached() { return attached_threads.load(std::memory_order_relaxed); }

thread_cache* attach_thread(bool own) {
  if (local_cache != &no_cache) return local_cache;
  // acquire: partner of the release in prepare().
  if (TARN_UNLIKELY(!prepared.load(std::memory_order_acquire))) {
    prepare();
    if (local_cache != &no_cache) return local_cache;  // libc has allocated meanwhile
  }
  if (phase == thread_phase::ended) return nullptr;
  if (phase == thread_phase::fresh) attached_threads.fetch_add(1, std::memory_order_relaxed);
  if (TARN_UNLIKELY(processor_user.may_be_vfork_child)) {
    if (os::in_sandbox() || os::in_vfork_child()) return nullptr;
    processor_user.may_be_vfork_child = false;
  }
  bool adopted = false;
  thread_cache* cache = nullptr;
  // Set before pthread_setspecific, which may allocate.
  const auto answer = own ? processor_caches::answer::own : processors.choose_for_this_thread();
  if (answer == processor_caches::answer::own) {
    cache = registry.create(&adopted);
    if (cache == nullptr) return nullptr;
  } else if (phase == thread_phase::fresh) {
    // The number of caches may include some of threads that have ended.
    cache = registry.adopt_ended();
    adopted = cache != nullptr;
  }
  if (cache != nullptr) {
    local_cache = cache;
    if (allocating == &no_cache) allocating = cache;  // else the thread is in a scope
  }
  if (TARN_UNLIKELY(allocation_counts::innermost != nullptr) && cache != nullptr)
    allocation_counts::adopt_cache(*cache);
  use_processors(cache == nullptr && answer == processor_caches::answer::processors);
  if (phase == thread_phase::fresh) {
    phase = thread_phase::attached;
    // pthread_setspecific may allocate and fail; errno must stay unchanged, since the caller may be free().
    const int error = errno;
    if (has_exit_key) pthread_setspecific(exit_key, reinterpret_cast<void*>(std::uintptr_t{1}));
    errno = error;
  }
  if (TARN_UNLIKELY(adopted)) for_each_front([](const front& e) { e.thread_adopts(); });
  return cache;
}

void begin_bare_thread() {
  local_cache = &no_cache;
  allocating = &no_cache;
  phase = thread_phase::ended;
}

traffic traffic_of_thread() {
  traffic all = uncached_traffic;
  if (local_cache != &no_cache) {
    const thread_cache::traffic_bytes cached = local_cache->traffic();
    all.allocated += cached.allocated;
    all.freed += cached.freed;
  }
  return all;
}

TARN_COLD void note_traffic() { *noted_traffic = traffic_of_thread(); }

void before_vfork() {
  if (local_cache != &no_cache || phase == thread_phase::ended) return;
  // In a sandbox nothing may be asked later, so the thread gets a cache of its own, which the child can use.
  if (os::in_sandbox() && attach_thread(true) != nullptr) return;
  use_processors(false);
  processor_user.may_be_vfork_child = true;
}

}  // namespace tarn::engine

// Its nested allocations and frees go straight to the central tier, which is as consistent as for any other thread. The
// count of threads that share stays: this one shares again at once.
void tarn::os::run_without_cache(void (*call)(void*), void* context) {
  using namespace tarn::engine;
  thread_cache* const cache = local_cache;
  allocation_bins* const bins = allocating;
  const thread_phase before = phase;
  const bool shares = processor_user.in_use;
  traffic* const noted = noted_traffic;  // which would lack that of the cache
  begin_bare_thread();
  processor_user.in_use = false;
  noted_traffic = nullptr;
  call(context);
  noted_traffic = noted;
  processor_user.in_use = shares;
  phase = before;
  local_cache = cache;
  allocating = bins;
}
