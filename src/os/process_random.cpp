// SPDX-License-Identifier: MIT
#include "os/process_random.hpp"

#include <sys/auxv.h>

#include <bit>
#include <cstring>

namespace tarn::os {
namespace {

struct sip_state {
  std::uint64_t a, b, c, d;

  void round() {
    a += b;
    b = std::rotl(b, 13) ^ a;
    a = std::rotl(a, 32);
    c += d;
    d = std::rotl(d, 16) ^ c;
    a += d;
    d = std::rotl(d, 21) ^ a;
    c += b;
    b = std::rotl(b, 17) ^ c;
    c = std::rotl(c, 32);
  }
  void take_in(std::uint64_t word) {
    d ^= word;
    round();
    round();
    a ^= word;
  }
};

}  // namespace

// SipHash-2-4 of the eight bytes of `message`. (Aumasson, Bernstein, "SipHash: a fast short-input PRF", 2012.)
std::uint64_t keyed_hash(const void* key, std::uint64_t message) {
  std::uint64_t k[2];
  std::memcpy(k, key, sizeof k);
  sip_state s{k[0] ^ 0x736f6d6570736575U, k[1] ^ 0x646f72616e646f6dU, k[0] ^ 0x6c7967656e657261U,
              k[1] ^ 0x7465646279746573U};
  s.take_in(message);
  s.take_in(std::uint64_t{sizeof message} << 56);
  s.c ^= 0xff;
  for (int i = 0; i < 4; ++i) s.round();
  return s.a ^ s.b ^ s.c ^ s.d;
}

std::uint64_t process_random(random_purpose purpose, std::uint32_t index) {
  const auto* const key = reinterpret_cast<const void*>(getauxval(AT_RANDOM));
  // Every supported kernel provides the bytes; an emulator may not. The numbers are then the same in every process.
  constexpr std::uint64_t none[2] = {};
  return keyed_hash(key != nullptr ? key : none, (static_cast<std::uint64_t>(purpose) << 32) | index);
}

}  // namespace tarn::os
