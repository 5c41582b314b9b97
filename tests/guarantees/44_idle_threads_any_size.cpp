// SPDX-License-Identifier: MIT
// Guarantee 44: like 29, for blocks of every size from 16 bytes to 256 KiB: 100 threads that have each allocated 8 MiB
// at the same time, freed it and gone to sleep keep at most 0.5 MiB of memory each, including the objects in their
// loaded magazines.
#include "idle_threads.hpp"

int main() {
  guarantee::start();
  guarantee::keeps_little_when_idle(
      {.least_bits = 4, .most_bits = 18, .bound = guarantee::mib / 2, .seed = 44});
}
