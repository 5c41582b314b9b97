// SPDX-License-Identifier: MIT
// Guarantee 20, where a few blocks stay live: blocks of 1 MiB exhaust RLIMIT_AS or RLIMIT_DATA, and all except a few
// are freed, so that the free memory lies in pieces. A block that is longer than each piece must be granted, and after
// it as many blocks of 1 MiB as before. This repeats, with other blocks kept each time, in 1 and in 4 threads. Where
// the system refuses to unmap, the long block is NULL with ENOMEM and no memory is lost.
// Invariant: live blocks keep their content. Each setting runs in a child process.
#include <iterator>

#include "inject.hpp"
#include "kept_bytes.hpp"
#include "kernel_emulator.hpp"

namespace {

using namespace guarantee;

constexpr size_t room = 256 * mib;
constexpr size_t most_pieces = room / mib;
// 1 MiB, the hardened build's guard included: half a huge page, because address space goes back in whole huge pages.
const size_t piece = mib - guard_bytes();
constexpr size_t survivors = 4;
// The bytes of the long block, as a share of those of the freed pieces.
constexpr double long_share = 0.85;
// The blocks of 1 MiB of a later round, as a share of those of the first one.
constexpr double again_share = 0.95;

void limit_growth(int resource) {
  const size_t used = resource == RLIMIT_AS ? address_space() : proc_bytes("/proc/self/status", "VmData:");
  const rlimit limit{used + room, used + room};
  if (setrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0)
    skip("setrlimit: %s", strerror(errno));
}

// A block whose size is stored at its start, at its end and every 64 KiB. Few marks, so that thousands of rounds are
// quick.
struct block {
  unsigned char* at;
  size_t size;

  template <class Visit>
  void each_word(Visit visit) const {
    for (size_t offset = 0; offset + sizeof size < size; offset += 64 * kib) visit(at + offset);
    visit(at + size - sizeof size);
  }
  bool fill(size_t new_size) {
    errno = 0;
    at = static_cast<unsigned char*>(take(new_size));
    size = new_size;
    TARN_CHECK(at != nullptr || errno == ENOMEM, "malloc(%zu): NULL with errno %d, not ENOMEM", size, errno);
    if (at != nullptr) each_word([this](unsigned char* word) { memcpy(word, &size, sizeof size); });
    return at != nullptr;
  }
  void check(const char* when) const {
    if (at == nullptr) return;
    each_word([=, this](const unsigned char* word) {
      TARN_CHECK(memcmp(word, &size, sizeof size) == 0, "%s: block of %zu bytes lost byte %td", when, size,
                 word - at);
    });
  }
  void clear(const char* when) {
    check(when);
    give(at);
    at = nullptr;
  }
};

// All blocks of 1 MiB. Several threads may call fill() at once.
struct heap {
  block pieces[most_pieces] = {};
  size_t next = 0;

  size_t fill() {
    size_t taken = 0;
    for (;;) {
      const size_t i = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
      if (i >= most_pieces) break;
      if (pieces[i].at == nullptr && !pieces[i].fill(piece)) break;
      ++taken;
    }
    return taken;
  }
  // Frees all except a few, which lie far apart and at other places in each round.
  size_t keep_few(size_t round) {
    size_t kept = 0;
    size_t taken = 0;
    for (const block& one : pieces) taken += one.at != nullptr;
    for (size_t i = 0; i < most_pieces; ++i) {
      if (kept < survivors && i % (taken / survivors) == 10 + round % 20 && pieces[i].at != nullptr) {
        pieces[i].check("to live on");
        std::swap(pieces[kept++], pieces[i]);
      }
    }
    for (size_t i = kept; i < most_pieces; ++i) pieces[i].clear("before a long block");
    next = 0;
    return kept;
  }
  void check() const {
    for (const block& one : pieces) one.check("beside a long block");
  }
};

heap all;

void* work(void* count) {
  *static_cast<size_t*>(count) = all.fill();
  return nullptr;
}

template <size_t threads>
size_t fill() {
  size_t counts[threads] = {};
  in_threads(work, counts);
  size_t sum = 0;
  for (const size_t count : counts) sum += count;
  all.check();
  return sum;
}

template <size_t threads>
int exhaust(int resource, size_t rounds) {
  limit_growth(resource);
  size_t first = 0;
  for (size_t round = 0; round < rounds; ++round) {
    const size_t taken = fill<threads>();
    if (round == 0) first = taken;
    TARN_CHECK(static_cast<double>(taken) >= again_share * static_cast<double>(first),
               "limit %d, %zu threads: %zu blocks of 1 MiB in round %zu, %zu in the first one", resource,
               threads, taken, round, first);
    const size_t kept = all.keep_few(round);
    const auto longest = static_cast<size_t>(long_share * static_cast<double>((first - kept) * piece));
    block longer = {};
    TARN_CHECK(longer.fill(longest),
               "limit %d, %zu threads, round %zu: malloc(%.0f MiB) fails, %zu of %zu MiB free", resource,
               threads, round, in_mib(longest), taken - kept, taken);
    all.check();
    longer.clear("between pieces");
  }
  return holds;
}

struct forks {
  bool end = false;
  size_t count = 0;
};

// Forks children while other threads are at any point of an allocation. Each child allocates and frees what it finds
// free.
void* fork_over_and_over(void* argument) {
  auto* const self = static_cast<forks*>(argument);
  while (!__atomic_load_n(&self->end, __ATOMIC_RELAXED)) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      block own[64] = {};
      for (size_t i = 0; i < std::size(own); ++i) own[i].fill(i % 8 == 0 ? 20 * mib : piece / 2);
      for (block& one : own) one.clear("in a child");
      _exit(holds);
    }
    int status = 0;
    if (child > 0) {
      waitpid(child, &status, 0);
      TARN_CHECK(status == 0, "a child forked beside the exhausting threads ends with status 0x%x", status);
      ++self->count;
    }
  }
  return nullptr;
}

int exhaust_beside_forks(size_t rounds) {
  forks beside;
  const pthread_t forking = start_thread(fork_over_and_over, &beside);
  exhaust<4>(RLIMIT_AS, rounds);
  __atomic_store_n(&beside.end, true, __ATOMIC_RELAXED);
  pthread_join(forking, nullptr);
  TARN_CHECK(beside.count != 0, "no child was forked: the test is void");
  return holds;
}

// munmap always fails, as where the table of mappings is full, or in a sandbox.
int where_nothing_is_unmapped() {
  limit_growth(RLIMIT_AS);
  const size_t first = all.fill();
  all.keep_few(0);
  kernel::emulate(kernel::no_munmap);
  block longer = {};
  TARN_CHECK(!longer.fill(first * piece * 3 / 5),
             "a block is found though nothing can be unmapped: the test is void");
  all.check();
  const size_t again = all.fill();
  TARN_CHECK(again + 1 >= first, "%zu blocks of 1 MiB once the system has refused to unmap, %zu before",
             again, first);
  all.check();
  return holds;
}

}  // namespace

int main() {
  start();
  need_address_space_limits();
  const unsigned seconds = long_run() ? 1200 : 60;
  for (const int resource : {RLIMIT_AS, RLIMIT_DATA}) {
    const size_t rounds = (resource == RLIMIT_AS ? 30 : 5) * (long_run() ? 50 : 1);
    expect_good(run_in_child(seconds, [=] { return exhaust<1>(resource, rounds); }), "1 thread");
    expect_good(run_in_child(seconds, [=] { return exhaust<4>(resource, rounds); }), "4 threads");
  }
  expect_good(run_in_child(seconds, [] { return exhaust_beside_forks(long_run() ? 300 : 5); }), "forks");
  expect_good(run_in_child(60, where_nothing_is_unmapped), "munmap refused");
}
