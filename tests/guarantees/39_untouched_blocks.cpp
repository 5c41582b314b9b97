// SPDX-License-Identifier: MIT
// Guarantee 39: a block costs only the memory that the program touches, and malloc grants no more than the system does.
// 1,000 blocks of 4 MiB with one page of each written: at most 10 MiB resident. Where the system backs all memory with
// huge pages: 16 MiB, and for pages inside blocks additionally what the same pages of one mapping cost. 8,000 blocks of 1 to
// 17 KiB, allocated and freed ten times and never written: at most 4 MiB. A block longer than RAM and swap: ENOMEM, if the system's overcommit policy demands it. Freed address space serves mmap. calloc
// returns zeroes, also where madvise does nothing and reports success.
#include <sys/sysinfo.h>

#include "kernel_emulator.hpp"

namespace {

using namespace guarantee;

constexpr size_t block = 4 * mib;
constexpr size_t count = 1000;

// The resident memory for one written page in each of `count` pieces of a mapping that has no allocator.
size_t cost_of_mapping(size_t place) {
  auto* const cost = shared_with_children<size_t>();
  const child_result child = run_in_child(100, [cost, place] {
    constexpr size_t huge_page = 2 * mib;
    void* const mapped = mmap(nullptr, count * block + huge_page, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TARN_CHECK(mapped != MAP_FAILED, "mmap: %s", strerror(errno));
    auto* const first =
        static_cast<unsigned char*>(mapped) + huge_page - reinterpret_cast<uintptr_t>(mapped) % huge_page;
    const size_t before = resident();
    for (size_t i = 0; i < count; ++i) first[i * block + place] = 1;
    *cost = growth(before, resident());
    return holds;
  });
  expect_good(child, "1,000 pages of a mapping");
  return *cost;
}

// Writes one page of each block; `place` is the page's offset in the block.
int write_one_page_of_each(size_t place) {
  // Where the system backs all memory with huge pages, the allocator's own tables lie on huge pages, too.
  const size_t for_huge_pages =
      huge_pages_everywhere() ? 6 * mib + (place != 0 ? cost_of_mapping(place) : 0) : 0;
  const size_t bound = 10 * mib + for_huge_pages;
  auto* const blocks = own_array<unsigned char*>(count);
  void* const heap = take(32 * mib);  // makes the heap large enough for tarn to ask for huge pages
  const size_t before = resident();
  for (size_t i = 0; i < count; ++i) {
    blocks[i] = static_cast<unsigned char*>(take(block));
    TARN_CHECK(blocks[i] != nullptr, "malloc(4 MiB) fails with %zu blocks live", i);
    blocks[i][place] = 1;
  }
  const size_t cost = growth(before, resident());
  measured("1,000 blocks of 4 MiB, a page at %zu KiB of each written: %.1f MiB", place / kib, in_mib(cost));
  TARN_CHECK(cost <= bound, "%.0f MiB resident for 1,000 pages written, not %.0f", in_mib(cost),
             in_mib(bound));
  for (size_t i = 0; i < count; ++i) give(blocks[i]);
  give(heap);
  return holds;
}

// Again and again, as in a benchmark that only calls malloc and free. The bound holds the tables of 80,000 blocks.
int write_nothing() {
  constexpr size_t small_blocks = 8000;
  auto* const blocks = own_array<unsigned char*>(small_blocks);
  const size_t before = resident();
  for (int round = 0; round < 10; ++round) {
    size_t asked = 0;
    for (size_t i = 0; i < small_blocks; ++i) {
      const size_t size = 1025 + i * 97 % (16 * kib);
      blocks[i] = static_cast<unsigned char*>(take(size));
      TARN_CHECK(blocks[i] != nullptr, "malloc(%zu) fails with %zu blocks live", size, i);
      asked += size;
    }
    if (round == 0) measured("8,000 blocks of 1 to 17 KiB, %.0f MiB in all", in_mib(asked));
    for (size_t i = 0; i < small_blocks; ++i) give(blocks[i]);
  }
  const size_t cost = growth(before, resident());
  measured("ten times allocated and freed, not written: %.1f MiB resident", in_mib(cost));
  TARN_CHECK(cost <= 4 * mib, "%.1f MiB resident for blocks that nobody has written, not 4", in_mib(cost));
  return holds;
}

int ask_for_too_much() {
  struct sysinfo machine {};
  sysinfo(&machine);
  const size_t all = (machine.totalram + machine.totalswap) * machine.mem_unit;
  char policy[8];
  if (read_start("/proc/sys/vm/overcommit_memory", policy, sizeof policy) == 0 || policy[0] == '1')
    return holds;
  for (int i = 0; i < 2; ++i) {
    errno = 0;
    TARN_CHECK(take(all + all / 2) == nullptr, "malloc gives %zu MiB on a machine that has %zu MiB",
               (all + all / 2) / mib, all / mib);
    TARN_CHECK(errno == ENOMEM, "errno %d, not ENOMEM", errno);
    errno = 0;
    TARN_CHECK(hide(calloc(all + all / 2, 1)) == nullptr && errno == ENOMEM,
               "calloc of %zu MiB on a machine that has %zu MiB: not NULL with ENOMEM", (all + all / 2) / mib,
               all / mib);
    // In the second round the heap has free address space, from blocks that the system did grant.
    void* halves[4];
    for (void*& half : halves) half = take(all / 2);
    for (void* half : halves) give(half);
  }
  return holds;
}

int map_what_was_freed() {
  if (!system_probes::address_space_is_limited()) {
    measured("%s: mapping what was freed was left out", system_probes::no_limit);
    return holds;
  }
  constexpr size_t limit = 3 * gib;
  constexpr size_t most = 2 * gib;
  const rlimit space{limit, limit};
  if (setrlimit(RLIMIT_AS, &space) != 0) skip("setrlimit: %s", strerror(errno));
  void* const whole = take(most);
  TARN_CHECK(whole != nullptr, "malloc(2 GiB) fails under a limit of 3 GiB");
  static_cast<char*>(whole)[0] = 1;
  give(whole);
  void* mapped = MAP_FAILED;
  for (int i = 0; i < 50 && mapped == MAP_FAILED; ++i) {
    mapped = mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    sleep_ms(100);
  }
  TARN_CHECK(mapped != MAP_FAILED, "2 GiB that were freed 5 s ago cannot be mapped under RLIMIT_AS");
  return holds;
}

int calloc_where_madvise_pretends() {
  kernel::emulate(kernel::madvise_pretends);
  constexpr size_t sizes[] = {600 * kib, 3 * mib, 20 * mib};
  for (int round = 0; round < 3; ++round) {
    for (const size_t size : sizes) {
      void* const used = take(size);
      memset(used, 0x5a, size);
      give(used);
    }
    if (tarn_trim != nullptr) tarn_trim(0);
    for (const size_t size : sizes) {
      void* const zeroed = hide(calloc(size, 1));
      TARN_CHECK(first_nonzero(zeroed, size) == size, "calloc(%zu) is not zero where madvise does nothing",
                 size);
      give(zeroed);
    }
  }
  return holds;
}

int write_first_pages() { return write_one_page_of_each(0); }
int write_inner_pages() { return write_one_page_of_each(2 * mib + 64 * kib); }

}  // namespace

// With a number as argument the program runs only the part of that number.
int main(int argc, char** argv) {
  start();
  need_own_memory_figures();
  struct {
    const char* name;
    int (*body)();
  } const parts[] = {
      {"1,000 blocks", write_first_pages},         {"1,000 blocks, inside", write_inner_pages},
      {"1 to 17 KiB, not written", write_nothing}, {"more than the machine has", ask_for_too_much},
      {"address space", map_what_was_freed},       {"calloc", calloc_where_madvise_pretends},
  };
  for (const auto& one : parts) {
    if (argc > 1 && atoi(argv[1]) != &one - parts) continue;
    expect_good(run_in_child(100, one.body), one.name);
  }
  return holds;
}
