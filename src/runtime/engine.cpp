// SPDX-License-Identifier: MIT
#include "runtime/engine.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>

#include "os/memory.hpp"
#include "runtime/decay.hpp"
#include "runtime/extension.hpp"
#include "runtime/options.hpp"

namespace tarn::engine {

constinit page_map map;
constinit metadata_arena metadata;
constinit first_touch touch;
constinit page_heap heap{metadata, map, touch};
constinit central central_tier{metadata, map, heap};
constinit cache_budget budget;
constinit thread_cache_registry registry{central_tier, budget};
constinit guarded_blocks guards;
constinit sample_windows guard_windows;
constinit std::atomic<std::size_t> large_bytes{0};
constinit thread_cache no_cache{thread_cache::empty_tag{}};

thread_local constinit thread_cache* local_cache = &no_cache;

namespace {

enum class thread_phase : std::uint8_t { fresh, attached, ended };
thread_local constinit thread_phase phase = thread_phase::fresh;

// A program may have used up all keys before our first allocation; key 0 is then another's. Without a key, and for a
// thread whose value libc has no memory for, nobody tells us that a thread ends: its cache is adopted later
// (registry.cpp), so that such caches stay few.
pthread_key_t exit_key;
bool has_exit_key = false;

// libc calls the destructors of all keys in rounds, as long as any has a value, PTHREAD_DESTRUCTOR_ITERATIONS
// times at most. Other keys' destructors allocate and free, so the cache goes in the last round: until then
// the key is given a value again. The value counts the rounds.
// ThreadSanitizer's own destructor takes its state away in the last one.
constexpr std::uintptr_t last_round = PTHREAD_DESTRUCTOR_ITERATIONS - TARN_TSAN;

void thread_ends(void* value) {
  const auto round = reinterpret_cast<std::uintptr_t>(value);
  if (round < last_round && pthread_setspecific(exit_key, reinterpret_cast<void*>(round + 1)) == 0) {
    return;
  }
  for_each_extension([](const extension& e) { e.thread_ends(); });
  thread_cache* cache = local_cache;
  phase = thread_phase::ended;
  local_cache = &no_cache;
  if (cache != &no_cache) registry.destroy(cache);
}

constinit os::mutex preparing{os::lock_rank::preparation};
std::atomic<bool> prepared{false};  // written under `preparing`

// Here, and not beside what it registers: an archive's member is linked only if something names it. Not on the first
// allocation, which may come in a sandbox that lets no file be opened.
[[gnu::constructor(101)]] void at_load([[maybe_unused]] int count, [[maybe_unused]] char** arguments,
                                       [[maybe_unused]] char** environment) {
#ifdef __GLIBC__
  // This library's constructors come before libc's own, and may allocate; libc will set the same.
  if (environ == nullptr) environ = environment;
#endif
  register_fork_handlers();
  touch.set_everywhere(os::huge_pages_everywhere());
  os::machine_bytes();
}

// A fork by another thread waits until all is done.
void prepare() {
  {
    os::lock_guard guard(preparing);
    if (prepared.load(std::memory_order_relaxed)) return;
    // Nothing here allocates, and no block exists yet: all of them are marked with one secret.
    free_mark::choose_secret();
    options::read_environment();
    has_exit_key = pthread_key_create(&exit_key, thread_ends) == 0;
    // release: partner of the acquire in attach_thread().
    prepared.store(true, std::memory_order_release);
  }
  free_mark::protect_secret();
  // Where constructors of others, which allocate, come before ours: the handlers that they register run before ours.
  // pthread_atfork allocates from the 49th handler on, and would wait for itself if that were the first allocation of
  // the process, before any constructor of this library.
  register_fork_handlers();
}

// After the constructors that note what the options' warnings need: those of os/ have priority 101.
[[gnu::constructor]] void prepare_at_load() { prepare(); }

}  // namespace

os::mutex& preparation_lock() { return preparing; }

thread_cache* attach_thread() {
  if (local_cache != &no_cache) return local_cache;
  // acquire: partner of the release in prepare().
  if (TARN_UNLIKELY(!prepared.load(std::memory_order_acquire))) prepare();
  if (phase == thread_phase::ended) return nullptr;
  bool adopted = false;
  thread_cache* cache = registry.create(&adopted);
  if (cache == nullptr) return nullptr;
  // Set before setspecific, which may allocate.
  local_cache = cache;
  if (phase == thread_phase::fresh) {
    phase = thread_phase::attached;
    // It may allocate, and fail; free, too, may have come here, and leaves errno alone.
    const int error = errno;
    if (has_exit_key) pthread_setspecific(exit_key, reinterpret_cast<void*>(std::uintptr_t{1}));
    errno = error;
  }
  if (TARN_UNLIKELY(adopted)) for_each_extension([](const extension& e) { e.thread_adopts(); });
  return cache;
}

void reclaim() {
  for_each_extension([](const extension& e) { e.reclaim(); });
  if (local_cache != &no_cache) local_cache->flush_all();
  registry.for_each([](thread_cache& cache) { cache.take_surplus(false); });
  registry.for_each_unused([](thread_cache& cache) { cache.flush_all(); });
  central_tier.flush_idle_magazines(true);
  central_tier.release_spares(true);
}

}  // namespace tarn::engine
