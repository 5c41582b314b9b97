// SPDX-License-Identifier: MIT
#include "os/memory.hpp"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/units.hpp"
#include "os/report.hpp"
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
constexpr int private_anonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

long as_long(const void* p) { return static_cast<long>(address_of(p)); }

bool failed(long result) { return result < 0 && result >= -4095; }

long map(void* at, std::size_t bytes, int extra_flags) {
  return system_call(SYS_mmap, as_long(at), static_cast<long>(bytes), readable_writable,
                     private_anonymous | extra_flags, -1, 0);
}

bool advise(void* address, std::size_t bytes, int advice) {
  return system_call(SYS_madvise, as_long(address), static_cast<long>(bytes), advice) == 0;
}

bool is_mapped(const char* page) {
  unsigned char resident = 0;
  return system_call(SYS_mincore, as_long(page), static_cast<long>(page_size()),
                     reinterpret_cast<long>(&resident)) != -ENOMEM;
}

// Maps what is not mapped of the range.
void fill_holes(void* address, std::size_t bytes) {
  auto* const start = static_cast<char*>(address);
  const std::size_t page = page_size();
  for (std::size_t at = 0; at < bytes; at += page) {
    if (is_mapped(start + at)) continue;
    const std::size_t hole = at;
    while (at + page < bytes && !is_mapped(start + at + page)) at += page;
    if (failed(map(start + hole, at + page - hole, MAP_FIXED_NOREPLACE))) {
      fatal("a failed mremap has unmapped memory that cannot be mapped again", start + hole);
    }
  }
}

bool is_zero(const char* bytes, std::size_t count) {
  return bytes[0] == 0 && std::memcmp(bytes, bytes + 1, count - 1) == 0;
}

}  // namespace

std::size_t page_size() {
  static std::size_t size = 0;
  if (size == 0) size = getauxval(AT_PAGESZ);
  return size;
}

std::size_t machine_bytes() {
  struct sysinfo info {};
  if (system_call(SYS_sysinfo, reinterpret_cast<long>(&info)) != 0) return SIZE_MAX;
  return (info.totalram + info.totalswap) * info.mem_unit;
}

void* reserve(std::size_t bytes, std::size_t alignment) {
  const long exact = map(nullptr, bytes, 0);
  if (failed(exact)) return nullptr;
  auto start = static_cast<std::uintptr_t>(exact);
  if ((start & (alignment - 1)) == 0) return reinterpret_cast<void*>(start);

  // Once more with room to align, and the surplus given back at both ends.
  release(reinterpret_cast<void*>(start), bytes);
  const std::size_t with_room = bytes + alignment;
  const long wide = map(nullptr, with_room, 0);
  if (failed(wide)) return nullptr;
  start = static_cast<std::uintptr_t>(wide);
  const std::uintptr_t aligned = align_up(start, alignment);
  const std::size_t before = aligned - start;
  const std::size_t after = with_room - before - bytes;
  if (before != 0) release(reinterpret_cast<void*>(start), before);
  if (after != 0) release(reinterpret_cast<void*>(aligned + bytes), after);
  return reinterpret_cast<void*>(aligned);
}

void release(void* address, std::size_t bytes) {
  system_call(SYS_munmap, as_long(address), static_cast<long>(bytes));
}

// MADV_DONTNEED: the resident set falls at once. MADV_FREE leaves figures that users mistake for a leak.
bool purge(void* address, std::size_t bytes) { return advise(address, bytes, MADV_DONTNEED); }

bool populate(void* address, std::size_t bytes) { return advise(address, bytes, MADV_POPULATE_WRITE); }

bool advise_huge(void* address, std::size_t bytes) { return advise(address, bytes, MADV_HUGEPAGE); }

bool advise_no_huge(void* address, std::size_t bytes) { return advise(address, bytes, MADV_NOHUGEPAGE); }

bool huge_pages_everywhere() {
  char text[64] = {};
  const long file =
      system_call(SYS_openat, AT_FDCWD, reinterpret_cast<long>(huge_setting), O_RDONLY | O_CLOEXEC);
  if (failed(file)) return false;
  system_call(SYS_read, file, reinterpret_cast<long>(text), sizeof(text) - 1);
  system_call(SYS_close, file);
  return std::string_view(text).find("[always]") != std::string_view::npos;
}

bool lock_in_memory(void* address, std::size_t bytes) {
  if (system_call(SYS_mlock, as_long(address), static_cast<long>(bytes)) == 0) return true;
  // Where backing the pages has failed, the range may have been marked already.
  unlock_from_memory(address, bytes);
  return false;
}

void unlock_from_memory(void* address, std::size_t bytes) {
  system_call(SYS_munlock, as_long(address), static_cast<long>(bytes));
}

void set_dumped(void* address, std::size_t bytes, bool dumped) {
  advise(address, bytes, dumped ? MADV_DODUMP : MADV_DONTDUMP);
}

void set_wiped_on_fork(void* address, std::size_t bytes, bool wiped) {
  advise(address, bytes, wiped ? MADV_WIPEONFORK : MADV_KEEPONFORK);
}

bool move_pages(void* from, void* to, std::size_t bytes) {
  // What has not moved then reads as zero in its new place.
  if (!purge(to, bytes)) return false;
  if (!failed(system_call(SYS_mremap, as_long(from), static_cast<long>(bytes), static_cast<long>(bytes),
                          MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, as_long(to)))) {
    return true;
  }
  // Kernels before 6.17 unmap the destination before they find out that they cannot move. Newer ones move a source of
  // several mappings one by one, and stop where one fails: what has moved reads as zero in its old place.
  fill_holes(to, bytes);
  const auto* const source = static_cast<const char*>(from);
  for (std::size_t at = 0; at < bytes; at += page_size()) {
    if (!is_zero(source + at, page_size()))
      std::memcpy(static_cast<char*>(to) + at, source + at, page_size());
  }
  if (!purge(from, bytes)) std::memset(from, 0, bytes);
  return true;
}

bool purge_moved(void* address, std::size_t bytes) {
  return !failed(map(address, bytes, MAP_FIXED)) || purge(address, bytes);
}

}  // namespace tarn::os
