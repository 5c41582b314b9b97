// SPDX-License-Identifier: MIT
#include "os/guarded_memory.hpp"

#include <sys/auxv.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/compiler.hpp"
#include "base/units.hpp"
#include "os/memory.hpp"
#include "os/process_random.hpp"
#include "os/syscall.hpp"

namespace tarn::os {
namespace {

constexpr int inaccessible = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
// Random addresses tried in the preferred window, and anywhere before the system chooses one.
constexpr int window_tries = 64;
constexpr int random_tries = 3;

long map_inaccessible(std::uintptr_t at, std::size_t bytes) {
  return system_call(SYS_mmap, at, bytes, PROT_NONE, inaccessible | (at != 0 ? MAP_FIXED_NOREPLACE : 0), -1,
                     0);
}

void unmap(std::uintptr_t at, std::size_t bytes) {
  if (bytes != 0) system_call(SYS_munmap, at, bytes);
}

bool protect(void* address, std::size_t bytes, int protection) {
  return system_call(SYS_mprotect, address, bytes, protection) == 0;
}

std::uint64_t random_number() {
  static std::atomic<std::uint32_t> count{
      1};  // not 0: beside data that is written at load, on no page of its own
  return process_random(random_purpose::address, count.fetch_add(1, std::memory_order_relaxed));
}

// A random address for the first byte between the guards, below the system's own mappings and far above loaded
// programs; 0: the system is to choose. With 47 bits of address: 2 to 10 TiB below the end of the stack, in 2 MiB
// steps.
std::uintptr_t random_address() {
  const std::uintptr_t top = getauxval(AT_RANDOM);  // an address on the first thread's stack
  // ThreadSanitizer knows only the ranges where the system puts memory.
  if (TARN_TSAN || top == 0) return 0;
  const std::uintptr_t room = top / 16;
  return align_down(top - top / 64 - random_number() % room, huge_page_size);
}

// The same in a window; 0: the window is too short.
std::uintptr_t random_place_in(const address_window& window, std::size_t bytes, std::size_t alignment) {
  const std::uintptr_t first = align_up(window.start + guard_bytes, alignment);
  const std::uintptr_t end = window.start + window.bytes;
  if (TARN_TSAN || window.bytes < bytes || first + bytes + guard_bytes > end) return 0;
  const std::uint64_t choices = (end - guard_bytes - bytes - first) / alignment + 1;
  return first + random_number() % choices * alignment;
}

// Maps [start, start + bytes) and its guards inaccessible, at exactly this address. 0: it is taken, or there is no
// memory; then no_memory is set.
std::uintptr_t reserve_at(std::uintptr_t start, std::size_t bytes, bool& no_memory) {
  const std::size_t all = bytes + 2 * guard_bytes;
  const std::uintptr_t first = start - guard_bytes;
  const long result = map_inaccessible(first, all);
  no_memory = result == -ENOMEM;
  if (is_error(result)) return 0;
  // An emulator may treat the address as a hint only.
  if (static_cast<std::uintptr_t>(result) == first) return start;
  unmap(static_cast<std::uintptr_t>(result), all);
  return 0;
}

// The same at an address that the system chooses.
std::uintptr_t reserve_anywhere(std::size_t bytes, std::size_t alignment) {
  const std::size_t exact = bytes + 2 * guard_bytes;
  for (const std::size_t room : {exact, exact + alignment}) {
    const long result = map_inaccessible(0, room);
    if (is_error(result)) return 0;
    const auto first = static_cast<std::uintptr_t>(result);
    const std::uintptr_t start = align_up(first + guard_bytes, alignment);
    if (start - guard_bytes + exact <= first + room) {
      unmap(first, start - guard_bytes - first);
      unmap(start + bytes + guard_bytes, first + room - (start + bytes + guard_bytes));
      return start;
    }
    unmap(first, room);
  }
  return 0;
}

std::uintptr_t find_address(std::size_t bytes, std::size_t alignment, const address_window& preferred) {
  bool no_memory = false;
  for (int tries = 0; tries < window_tries + random_tries && !no_memory; ++tries) {
    const std::uintptr_t address =
        tries < window_tries ? random_place_in(preferred, bytes, std::max(alignment, huge_page_size))
                             : align_up(random_address(), alignment);
    if (address == 0) continue;
    if (const std::uintptr_t start = reserve_at(address, bytes, no_memory)) return start;
  }
  return reserve_anywhere(bytes, alignment);
}

}  // namespace

guarded_range reserve_guarded(std::size_t bytes, std::size_t alignment, memory_access how,
                              address_window preferred) {
  if (bytes + alignment + 2 * guard_bytes < bytes) return {};
  const std::uintptr_t start = find_address(bytes, alignment, preferred);
  void* const memory = reinterpret_cast<void*>(start);
  if (start != 0 && (how == memory_access::none || allow_access(memory, bytes)))
    return {memory, bytes, true, false};
  if (start != 0) unmap(start - guard_bytes, bytes + 2 * guard_bytes);
  if (how == memory_access::none) return {};
  // The table of mappings is full, or mprotect is forbidden: memory without guards is better than none.
  void* const plain = reserve(bytes, alignment);
  return {plain, plain != nullptr ? bytes : 0, false, false};
}

guarded_range extend_guarded(std::uintptr_t end, std::size_t bytes) {
  // ThreadSanitizer knows only the ranges where the system puts memory.
  if (TARN_TSAN || bytes < guard_bytes) return {};
  const std::uintptr_t behind = end + guard_bytes;
  const long result = map_inaccessible(behind, bytes);
  if (is_error(result)) return {};
  void* const start = reinterpret_cast<void*>(end);
  if (static_cast<std::uintptr_t>(result) == behind && allow_access(start, bytes)) {
    return {start, bytes, true, true};
  }
  unmap(static_cast<std::uintptr_t>(result), bytes);
  return {};
}

void release(const guarded_range& range) {
  const std::uintptr_t start = address_of(range.start);
  if (range.extends) {
    protect(range.start, guard_bytes, PROT_NONE);
    unmap(start + guard_bytes, range.bytes);
  } else {
    const std::size_t guard = range.guarded ? guard_bytes : 0;
    unmap(start - guard, range.bytes + 2 * guard);
  }
}

bool allow_access(void* address, std::size_t bytes) {
  return protect(address, bytes, PROT_READ | PROT_WRITE);
}

bool forbid_access(void* address, std::size_t bytes) { return protect(address, bytes, PROT_NONE); }

bool forbid_writing(void* address, std::size_t bytes) { return protect(address, bytes, PROT_READ); }

}  // namespace tarn::os
