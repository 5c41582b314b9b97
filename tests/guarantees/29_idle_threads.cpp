// SPDX-License-Identifier: MIT
// Guarantee 29: 100 threads that have each allocated 8 MiB at the same time, freed it and gone to sleep keep at most 1
// MiB of memory each.
#include "idle_threads.hpp"

int main() {
  guarantee::start();
  guarantee::keeps_little_when_idle(
      {.least_bits = 5, .most_bits = 13, .bound = 1 * guarantee::mib, .seed = 29});
}
