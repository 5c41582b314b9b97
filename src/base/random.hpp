// SPDX-License-Identifier: MIT
// next_random: random numbers for samples and other choices that nobody gains by guessing (splitmix64: Steele, Lea, Flood,
// "Fast splittable pseudorandom number generators", 2014). What must not be guessed has a secret and generators of its
// own (slots/hardened_shuffle.hpp, threads/hardened_quarantine.hpp).
#pragma once

#include <cstdint>

namespace tarn {

// Any state is a good one, 0 too.
constexpr std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t mixed = (state ^ (state >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31U);
}

// -ln(u), for u in (0, 1), without libm: of a uniform random number it is an exponential one.
constexpr double negative_logarithm(double u) {
  // u = m * 2^-e with m in [0.7, 1.4]; ln m = 2 artanh((m - 1) / (m + 1)).
  int halvings = 0;
  for (; u < 0x1p-32; halvings += 32) u *= 0x1p32;
  for (; u < 0.7071; ++halvings) u *= 2;
  const double z = (u - 1) / (u + 1);
  const double square = z * z;
  double sum = 0;
  for (int n = 13; n > 0; n -= 2) sum = sum * square + 1.0 / n;
  constexpr double ln_2 = 0.693147180559945309;
  return halvings * ln_2 - 2 * z * sum;
}

}  // namespace tarn
