// SPDX-License-Identifier: MIT
// Guarantee 30, third part: 64 MiB stay live while the sizes of new blocks rise from 256 bytes to 4 KiB and fall again,
// and random older blocks are freed for them. The resident set stays within 1.65 times the live bytes, and within 1.5
// times on average. The difficulty: blocks of earlier sizes lie scattered over most of the memory. Every block keeps
// its content.
#include "live_set.hpp"

namespace {

using namespace guarantee;

constexpr size_t live_bytes = 64 * mib;
constexpr size_t most_blocks = 512 * 1024;
constexpr size_t smallest = 256;
constexpr int doublings = 4;
// How often the live bytes are replaced while sizes rise, and again while they fall.
constexpr int turnovers = 20;
constexpr double bound = 1.65;
constexpr double bound_on_average = 1.5;

// 256 bytes * 2^(part * doublings), interpolated linearly between powers of two.
size_t centre_at(double part) {
  const double doubling = part * doublings;
  const auto whole = static_cast<unsigned>(doubling);
  const double size = static_cast<double>(smallest << whole) * (1 + (doubling - whole));
  return static_cast<size_t>(size);
}

}  // namespace

int main() {
  start();
  need_own_memory_figures();
  live_set live(most_blocks);
  random_numbers random(30);
  const size_t before = resident();
  constexpr size_t steps = 2 * turnovers * 8;
  size_t most = 0;
  size_t sum = 0;
  for (size_t step = 0; step < steps; ++step) {
    const double part = static_cast<double>(step) / (steps / 2);
    live.replace(live_bytes / 8, centre_at(part < 1 ? part : 2 - part), live_bytes, random);
    const size_t now = growth(before, resident());
    most = now > most ? now : most;
    sum += now;
  }
  live.drop_all();
  const double ratio = static_cast<double>(most) / static_cast<double>(live_bytes);
  const double average = static_cast<double>(sum) / steps / static_cast<double>(live_bytes);
  TARN_CHECK(ratio <= bound, "peak of %.2f times the live bytes", ratio);
  TARN_CHECK(average <= bound_on_average, "%.2f times the live bytes on average", average);
  measured("%.2f times the live bytes on average, peak of %.2f", average, ratio);
}
