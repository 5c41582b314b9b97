// SPDX-License-Identifier: MIT
#include "os/memory.hpp"

#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/units.hpp"
#include "os/clock.hpp"
#include "os/input_file.hpp"
#include "os/memory_calls.hpp"
#include "os/sandbox.hpp"
#include "os/syscall.hpp"

// Linux 5.14 and 5.7; older kernels answer EINVAL.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

namespace tarn::os {
namespace {

constexpr int readable_writable = PROT_READ | PROT_WRITE;
constexpr const char* huge_setting = "/sys/kernel/mm/transparent_hugepage/enabled";
constexpr int private_anonymous = MAP_PRIVATE | MAP_ANONYMOUS;

long map(std::size_t bytes, int protection, int extra_flags) {
  return system_call(SYS_mmap, 0, bytes, protection, private_anonymous | extra_flags, -1, 0);
}

bool advise(void* address, std::size_t bytes, int advice) {
  return !in_strict_mode() && system_call(SYS_madvise, address, bytes, advice) == 0;
}

// The effect of MADV_DONTNEED on a fresh page.
enum class dropping : std::uint8_t {
  works,
  refused,    // new memory is locked (mlockall), or the call is not allowed
  pretended,  // the call succeeds and does nothing, as in some sandboxes and emulators
};

// ThreadSanitizer does not know that the page is new, whatever was at its address before.
__attribute__((no_sanitize("thread"))) dropping try_dropping() {
  const long page = map(system_page_size(), readable_writable, MAP_NORESERVE);
  if (is_error(page)) return dropping::refused;
  auto* const byte = reinterpret_cast<volatile unsigned char*>(page);
  *byte = 1;
  dropping found = dropping::refused;
  if (advise(reinterpret_cast<void*>(page), system_page_size(), MADV_DONTNEED))
    found = *byte == 0 ? dropping::works : dropping::pretended;
  release_own(reinterpret_cast<void*>(page), system_page_size());
  return found;
}

// Repeats the test every 100 ms, since a sandbox may be entered later. Relaxed: concurrent callers find the same.
dropping dropping_now() {
  constexpr std::int64_t holds_for_ms = 100;
  static std::atomic<std::int64_t> next_try{0};
  static std::atomic<dropping> found{dropping::works};
  const std::int64_t now = now_ms();
  if (now >= next_try.load(std::memory_order_relaxed)) {
    found.store(try_dropping(), std::memory_order_relaxed);
    next_try.store(now + holds_for_ms, std::memory_order_relaxed);
  }
  return found.load(std::memory_order_relaxed);
}

bool is_zero(const char* bytes, std::size_t count) {
  return bytes[0] == 0 && std::memcmp(bytes, bytes + 1, count - 1) == 0;
}

// Maps `bytes` bytes that begin `lead` bytes before an aligned address.
void* map_aligned(std::size_t bytes, std::size_t alignment, std::size_t lead, int protection, int flags) {
  std::uintptr_t start = 0;
  if (lead == 0) {
    const long exact = map(bytes, protection, flags);
    if (is_error(exact)) return nullptr;
    start = static_cast<std::uintptr_t>(exact);
    if ((start & (alignment - 1)) == 0) return reinterpret_cast<void*>(start);
    release_own(reinterpret_cast<void*>(start), bytes);
  }
  // Map enough to align, and unmap the surplus at both ends.
  const std::size_t with_room = bytes + alignment;
  const long wide = map(with_room, protection, flags);
  if (is_error(wide)) return nullptr;
  start = static_cast<std::uintptr_t>(wide);
  const std::uintptr_t aligned = align_up(start + lead, alignment) - lead;
  const std::size_t before = aligned - start;
  const std::size_t after = with_room - before - bytes;
  if (before != 0) release_own(reinterpret_cast<void*>(start), before);
  if (after != 0) release_own(reinterpret_cast<void*>(aligned + bytes), after);
  return reinterpret_cast<void*>(aligned);
}

}  // namespace

std::size_t system_page_size() {
  static std::size_t size = 0;
  if (size == 0) size = getauxval(AT_PAGESZ);
  return size;
}

std::size_t machine_bytes() {
  // Relaxed: concurrent callers find the same.
  static std::atomic<std::size_t> found{0};
  std::size_t bytes = found.load(std::memory_order_relaxed);
  if (bytes != 0) return bytes;
  if (in_sandbox()) return SIZE_MAX;
  struct sysinfo info {};
  bytes = system_call(SYS_sysinfo, &info) == 0 ? (info.totalram + info.totalswap) * info.mem_unit : SIZE_MAX;
  found.store(bytes, std::memory_order_relaxed);
  return bytes;
}

std::size_t last_level_cache_bytes() {
  // libc has asked the processor when it was loaded.
  const long third = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const long last = third > 0 ? third : sysconf(_SC_LEVEL2_CACHE_SIZE);
  return last > 0 ? static_cast<std::size_t>(last) : 0;
}

void* reserve(std::size_t bytes, std::size_t alignment) {
  return map_aligned(bytes, alignment, 0, readable_writable, MAP_NORESERVE);
}

bool has_address_space(std::size_t bytes) {
  void* const room = reserve_inaccessible(bytes, system_page_size());
  if (room != nullptr) release_own(room, bytes);
  return room != nullptr;
}

// By the two steps of reserve_guarded(): the limit of address space counts inaccessible memory, too; the limit of
// writable memory and the strict overcommit policy count it when it becomes writable, which would back memory that is
// locked.
bool can_reserve(std::size_t bytes) {
  bytes = align_up(bytes, system_page_size());
  void* const room = reserve_inaccessible(bytes, system_page_size());
  if (room == nullptr) return false;
  if (dropping_now() == dropping::refused) unlock_from_memory(room, bytes);
  const long result = system_call(SYS_mprotect, room, bytes, readable_writable);
  release_own(room, bytes);
  if (result == 0 || result == -ENOMEM) return result == 0;
  // A sandbox forbids mprotect: reserve_guarded() then reserves memory without guards.
  void* const writable = reserve(bytes, system_page_size());
  if (writable != nullptr) release_own(writable, bytes);
  return writable != nullptr;
}

void* map_block(std::size_t bytes, std::size_t alignment, std::size_t lead) {
  return map_aligned(bytes, alignment, lead, readable_writable, 0);
}

bool release(void* address, std::size_t bytes) { return unmap_heard(address, bytes); }

// MADV_DONTNEED, because the resident set shrinks at once. After MADV_FREE users see figures that look like a leak.
bool purge(void* address, std::size_t bytes) {
  return drop_heard(address, bytes) && dropping_now() != dropping::pretended;
}

bool release_own(void* address, std::size_t bytes) { return system_call(SYS_munmap, address, bytes) == 0; }

bool purge_own(void* address, std::size_t bytes) {
  return advise(address, bytes, MADV_DONTNEED) && dropping_now() != dropping::pretended;
}

bool purge_free(void* address, std::size_t bytes) {
  if (drop_heard(address, bytes)) return dropping_now() != dropping::pretended;
  if (in_strict_mode() || must_not_be_heard() || dropping_now() != dropping::works) return false;
  unlock_from_memory(address, bytes);
  return drop_heard(address, bytes);
}

bool find_resident(void* address, std::size_t bytes, unsigned char* pages) {
  return !in_strict_mode() && system_call(SYS_mincore, address, bytes, pages) == 0;
}

bool populate(void* address, std::size_t bytes) { return advise(address, bytes, MADV_POPULATE_WRITE); }

bool advise_huge(void* address, std::size_t bytes) { return advise(address, bytes, MADV_HUGEPAGE); }

bool advise_no_huge(void* address, std::size_t bytes) { return advise(address, bytes, MADV_NOHUGEPAGE); }

bool huge_pages_everywhere() {
  char text[64];
  input_file file(huge_setting);
  return std::string_view(text, file.read(text, sizeof text)).find("[always]") != std::string_view::npos;
}

bool lock_in_memory(void* address, std::size_t bytes) {
  if (system_call(SYS_mlock, address, bytes) == 0) return true;
  // mlock may have marked the range as locked before it failed to back the pages.
  unlock_from_memory(address, bytes);
  return false;
}

void unlock_from_memory(void* address, std::size_t bytes) { system_call(SYS_munlock, address, bytes); }

void set_dumped(void* address, std::size_t bytes, bool dumped) {
  advise(address, bytes, dumped ? MADV_DODUMP : MADV_DONTDUMP);
}

void set_wiped_on_fork(void* address, std::size_t bytes, bool wiped) {
  advise(address, bytes, wiped ? MADV_WIPEONFORK : MADV_KEEPONFORK);
}

// PROT_NONE: mlockall(MCL_FUTURE) would otherwise back the range at once.
void* reserve_inaccessible(std::size_t bytes, std::size_t alignment, std::size_t lead) {
  return map_aligned(bytes, alignment, lead, PROT_NONE, MAP_NORESERVE);
}

void* move_mapping(void* from, std::size_t bytes, void* wanted) {
  // With MREMAP_DONTUNMAP and without MREMAP_FIXED, the new address is a hint.
  const long moved = system_call(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, wanted);
  return is_error(moved) ? nullptr : reinterpret_cast<void*>(moved);
}

bool extend_mapping(void* end, std::size_t bytes) {
  // Grows the mapping of the last page: the range may consist of several mappings.
  const std::size_t last = system_page_size();
  return !is_error(system_call(SYS_mremap, address_of(end) - last, last, last + bytes, 0));
}

void copy_to_zeroes(void* to, const void* from, std::size_t bytes) {
  const auto* const source = static_cast<const char*>(from);
  for (std::size_t at = 0; at < bytes; at += system_page_size()) {
    const std::size_t count = std::min(bytes - at, system_page_size());
    if (!is_zero(source + at, count)) std::memcpy(static_cast<char*>(to) + at, source + at, count);
  }
}

}  // namespace tarn::os
