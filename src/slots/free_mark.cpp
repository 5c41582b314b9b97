// SPDX-License-Identifier: MIT
#include "slots/free_mark.hpp"

#include "os/guarded_memory.hpp"
#include "os/process_random.hpp"

namespace tarn::free_mark {
namespace {

// With the highest bit set and the next one clear, a mark equals neither an address of user space nor a small positive
// or negative number.
constexpr std::uintptr_t always_set = std::uintptr_t{1} << 63;
constexpr std::uintptr_t always_clear = std::uintptr_t{1} << 62;

}  // namespace

constinit secret_page secret{0};

void choose_secret() {
  const std::uintptr_t random = os::process_random(os::random_purpose::free_mark);
  secret.value = (random | always_set) & ~always_clear;
}

// If mprotect is forbidden, the page stays writable.
void protect_secret() { os::forbid_writing(&secret, sizeof secret); }

}  // namespace tarn::free_mark
