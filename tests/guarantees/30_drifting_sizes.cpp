// SPDX-License-Identifier: MIT
// Guarantee 30, second part: 100 MiB stay live while the sizes of new blocks drift slowly from 512 to 768 bytes and
// random older blocks are freed for them. The peak stays within 1.4 times the live bytes. The difficulty: spans of
// earlier sizes stay in use as long as one of their blocks is live.
#include "live_set.hpp"

namespace {

using namespace guarantee;

constexpr size_t live_bytes = 100 * mib;
constexpr double bound = 1.4;
constexpr size_t most_blocks = 400'000;
constexpr size_t smallest = 512;
constexpr size_t largest = 768;

}  // namespace

int main() {
  start();
  need_own_memory_figures();
  live_set live(most_blocks);
  random_numbers random(30);
  peak_sampler sampler(20);
  // Each step allocates as many bytes as are live.
  for (size_t centre = smallest; centre < largest; centre += centre / 128)
    live.replace(live_bytes, centre, live_bytes, random);
  const double ratio = static_cast<double>(sampler.finish()) / static_cast<double>(live_bytes);
  TARN_CHECK(ratio <= bound, "peak of %.2f times the live bytes", ratio);
  measured("peak of %.2f times the live bytes", ratio);
}
