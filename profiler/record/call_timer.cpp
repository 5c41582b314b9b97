// SPDX-License-Identifier: MIT
#include "profiler/record/call_timer.hpp"

#include "base/architecture.hpp"

namespace tarn::profiler::recorder {

namespace {

// The signature that libc registers with rseq(2): RSEQ_SIG.
constexpr std::uint32_t section_signature = arch::restartable_signature;

// The kernel requires the signature in the four bytes before the abort address. It never jumps to that address, as no
// program counter lies within an empty section.
struct abort_place {
  std::uint32_t signature;
  std::uint32_t target;
};
alignas(8) constexpr abort_place abort_address = {section_signature, 0};

// Starts at the abort address and has length 0. Read-only once the library's addresses are relocated (RELRO).
const restartable_section empty_section = {0, 0, reinterpret_cast<std::uint64_t>(&abort_address.target), 0,
                                           reinterpret_cast<std::uint64_t>(&abort_address.target)};

}  // namespace

const restartable_section* section_of_no_length() { return &empty_section; }

}  // namespace tarn::profiler::recorder
