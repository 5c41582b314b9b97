// SPDX-License-Identifier: MIT
// Guarantee 36: a sandbox may refuse any memory call with EPERM, once or from any moment on. For each of mmap, mremap,
// munmap and madvise the n-th call of a workload is refused, and in other runs the n-th and all after it, for every n
// (in a quick run every seventh) up to the number of calls. Requests may fail, but no block loses a byte.
#include "failure_workload.hpp"
#include "kernel_emulator.hpp"

namespace {

using namespace guarantee;

long refused_number = 0;
size_t first_refused = 0;
bool all_after = false;
size_t seen = 0;

long refuse(const kernel::call& c) {
  if (c.number != refused_number) return kernel::pass(c);
  ++seen;
  return seen == first_refused || (all_after && seen > first_refused) ? -EPERM : kernel::pass(c);
}

// Grows blocks until they have mappings of their own and move.
void grow_blocks() {
  slot blocks[3] = {};
  for (size_t size = 700 * kib; size < 12 * mib; size += size / 2) {
    for (slot& one : blocks) {
      void* const block = hide(realloc(one.at, size));
      if (block == nullptr) {
        TARN_CHECK(errno == ENOMEM, "realloc: errno %d, not ENOMEM", errno);
        one.check("after a refused realloc");
        continue;
      }
      const slot grown{static_cast<unsigned char*>(block), one.size};
      grown.check("after realloc");
      one = {static_cast<unsigned char*>(block), size};
      one.stamp(size);
    }
  }
  for (slot& one : blocks) one.clear("at the end");
}

// Stores in `calls` how many calls of this kind the workload makes.
int run_refusing(size_t* calls) {
  kernel::emulate(refuse);
  failure_workload(9, refusals::accepted).run(1);
  grow_blocks();
  *calls = seen;
  return holds;
}

}  // namespace

int main() {
  start();
  auto* const calls = shared_with_children<size_t>();
  struct {
    const char* name;
    long number;
  } const kinds[] = {
      {"mmap", SYS_mmap}, {"mremap", SYS_mremap}, {"munmap", SYS_munmap}, {"madvise", SYS_madvise}};
  const size_t step = long_run() ? 1 : 7;
  size_t runs = 0;
  char what[64];
  for (const auto& kind : kinds) {
    refused_number = kind.number;
    for (const bool sustained : {false, true}) {
      all_after = sustained;
      *calls = SIZE_MAX;
      for (first_refused = 1; first_refused <= *calls; first_refused += step, ++runs) {
        *calls = 0;
        snprintf(what, sizeof what, "EPERM for %s number %zu%s", kind.name, first_refused,
                 sustained ? " and later" : "");
        expect_good(run_in_child(60, [calls] { return run_refusing(calls); }), what);
      }
    }
  }
  measured("%zu runs with a call refused, no byte lost", runs);
  return holds;
}
