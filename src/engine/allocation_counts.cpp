// SPDX-License-Identifier: MIT
#include "engine/allocation_counts.hpp"

#include "os/report.hpp"

namespace tarn::allocation_counts {

thread_local constinit tarn_allocation_count* innermost = nullptr;

void begin(tarn_allocation_count& count) {
  count = {};
  count.outer = innermost;
  innermost = &count;
  if (count.outer != nullptr) return;
  engine::processor_user.samples = sample_countdown::counted();
  if (engine::local_cache != &engine::no_cache) adopt_cache(*engine::local_cache);
  if (engine::is_in_scope()) engine::allocating->count_every_pop();
}

void end(tarn_allocation_count& count) {
  if (&count != innermost) {
    os::fatal("tarn_count_end of a count that is not the innermost one of this thread", &count);
  }
  innermost = count.outer;
  if (innermost != nullptr) return;
  engine::processor_user.samples = {};
  if (engine::local_cache != &engine::no_cache) engine::local_cache->set_counting(false);
}

void forget() {
  if (innermost == nullptr) return;
  innermost = nullptr;
  engine::processor_user.samples = {};
}

void add(std::size_t size) {
  for (tarn_allocation_count* count = innermost; count != nullptr; count = count->outer) {
    if (count->allocations < tarn_counted_sizes) count->sizes[count->allocations] = size;
    ++count->allocations;
    count->bytes += size;
  }
}

void adopt_cache(thread_cache& cache) { cache.set_counting(true); }

}  // namespace tarn::allocation_counts
