// SPDX-License-Identifier: MIT
// 16 threads make 100,000 objects of 64 bytes each and destroy them in random order. At most a tenth of that memory
// stays resident: 2 s later, whether the threads are idle or have ended, even if the kernel collapses huge pages; and
// at once after trim().
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "../unit/pages/mapping_flags.hpp"
#include "program.hpp"

namespace {

using pools_test::order;

constexpr auto pool = tarn::pool_of<order>();
constexpr unsigned threads = 16;
constexpr std::size_t per_thread = 100000;
constexpr std::size_t payload = threads * per_thread * sizeof(order);

order** objects;  // mapped, so that it does not count as an allocator's memory
std::uint32_t* places;

void work(unsigned number) {
  order** const mine = objects + number * per_thread;
  std::uint32_t* const places_of_mine = places + number * per_thread;
  for (std::size_t i = 0; i < per_thread; ++i) mine[i] = pool.create(i);
  for (std::size_t i = 0; i < per_thread; ++i) pool.destroy(mine[places_of_mine[i]]);
}

// The kernel does now what khugepaged does sooner or later: it backs huge pages completely of which at least one page is
// backed, in mappings where the system's setting and the advice permit it.
void make_huge_pages() {
  constexpr int collapse = 25;  // MADV_COLLAPSE
  constexpr std::uintptr_t huge_page = 2 * guarantee::mib;
  std::set<std::uintptr_t> starts;
  for (order* const* at = objects; at < objects + threads * per_thread; ++at)
    starts.insert(reinterpret_cast<std::uintptr_t>(*at) & ~(huge_page - 1));
  std::vector<unsigned char> backed(huge_page / static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)));
  for (const std::uintptr_t start : starts) {
    void* const at = reinterpret_cast<void*>(start);
    if (mincore(at, huge_page, backed.data()) != 0 || std::ranges::count(backed, 1) == 0) continue;
    const std::string flags = tarn::mapping_flags(start);
    const bool is_scanned = guarantee::huge_pages_everywhere() ? flags.find(" nh ") == std::string::npos
                                                               : flags.find(" hg ") != std::string::npos;
    if (is_scanned) madvise(at, huge_page, collapse);
  }
}

void run(const char* what, bool stay, bool trim) {
  const std::size_t before = guarantee::rss_bytes();
  std::atomic<unsigned> done{0};
  std::atomic<bool> go_on{!stay};
  std::vector<std::jthread> workers;
  for (unsigned t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      work(t);
      ++done;
      go_on.wait(false);
    });
  }
  if (stay) {
    while (done != threads) guarantee::sleep_ms(10);
  } else {
    workers.clear();
  }
  if (trim) {
    tarn::trim();
  } else {
    guarantee::sleep_ms(2000);
    make_huge_pages();
  }
  const tarn::pool_stats stats = pool.stats();
  std::size_t kept = guarantee::growth(before, guarantee::rss_bytes());
  // Memory that the background thread is returning while trim() runs is returned a little later.
  for (unsigned i = 0; trim && kept > payload / 10 && i < 20 * guarantee::slowness(); ++i) {
    guarantee::sleep_ms(10);
    kept = guarantee::growth(before, guarantee::rss_bytes());
  }
  guarantee::measured("%s: %.1f MiB of %.1f MiB stay resident; pool %.1f MiB, %zu cached", what,
                      guarantee::in_mib(kept), guarantee::in_mib(payload), guarantee::in_mib(stats.bytes),
                      stats.cached);
  TARN_CHECK(stats.live == 0, "%s: %zu objects are live", what, stats.live);
  if (pools_test::measurable) {
    guarantee::need_own_memory_figures();
    TARN_CHECK(kept <= payload / 10, "%s: %zu bytes of %zu stay resident", what, kept, payload);
  }
  go_on = true;
  go_on.notify_all();
  workers.clear();
  tarn::trim();
}

}  // namespace

int main() {
  guarantee::start();
  objects = guarantee::own_array<order*>(threads * per_thread);
  places = guarantee::own_array<std::uint32_t>(threads * per_thread);
  guarantee::random_numbers random(1);
  for (unsigned t = 0; t < threads; ++t) {
    std::uint32_t* const mine = places + t * per_thread;
    std::iota(mine, mine + per_thread, 0U);
    for (std::size_t i = per_thread; i > 1; --i) std::swap(mine[i - 1], mine[random.below(i)]);
  }
  std::fill(objects, objects + threads * per_thread, nullptr);
  run("idle threads", true, false);
  run("ended threads", false, false);
  run("idle threads, trim", true, true);
  run("ended threads, trim", false, true);
}
