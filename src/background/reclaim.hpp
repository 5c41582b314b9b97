// SPDX-License-Identifier: MIT
// reclaim: what is free in caches, depots and fronts goes back to the page heap, and from there to the system: for the
// program, or for a request that has found no memory.
//
// Thread safety: any thread, without locks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "background/pressure.hpp"
#include "base/compiler.hpp"

namespace tarn::engine {

#pragma GCC visibility push(hidden)

// Moves all free objects that it can reach (the calling thread's, other threads' surplus, depots) into spans, and spare
// spans into the page heap.
void reclaim();

// reclaim(), and then gives free memory back to the system, except `keep` bytes of free pages; if nothing is to be kept,
// also idle pages of spans in use, which cannot be counted against `keep`. Returns the bytes given back.
std::size_t trim(std::size_t keep);

// The tries of one request that has found no memory, each after memory has been given back. If the last request that
// looked everywhere did so in vain a moment ago (for up to 32 times as long as it looked, 250 ms at most), this one looks
// only for what its thread has freed since, and what has become idle in scopes and buffer pools: a program at its limit
// is refused in a time that does not depend on how much others have.
class reclaim_tries {
 public:
  // Gives memory back. False: there is no further try.
  bool goes_on();
  // The last try has failed, too.
  void end_in_vain() const;

 private:
  static constexpr int most_tries = 3;

  pressure::refused_request refused_;
  std::int64_t began_ = 0;
  int tries_ = 0;
  bool is_brief_ = false;
};

// For a request that has found no memory: take() after each try, which prepare() precedes, while it returns null.
template <class Take, class Prepare>
auto* take_after_reclaim(Take take, Prepare prepare) {
  decltype(take()) taken = nullptr;
  reclaim_tries tries;
  while (taken == nullptr) {
    prepare();
    if (!tries.goes_on()) break;
    taken = take();
  }
  if (taken == nullptr) tries.end_in_vain();
  return taken;
}

// take(), repeated after reclaim() while it returns null. Free objects in caches may make whole spans. Several tries,
// because another thread may be reclaiming at the same time and hold some of them.
template <class Take>
auto* take_or_reclaim(Take take) {
  auto* const taken = take();
  return TARN_LIKELY(taken != nullptr) ? taken : take_after_reclaim(take, [] {});
}

#pragma GCC visibility pop

}  // namespace tarn::engine
