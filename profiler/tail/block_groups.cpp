// SPDX-License-Identifier: MIT
#include "profiler/tail/block_groups.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstddef>

#include "os/syscall.hpp"

namespace tarn::profiler::tail {

namespace {

constexpr unsigned address_bits = 48;  // a tag above them is not part of the address
constexpr unsigned table_bits = 26;    // a table is of 64 MiB of memory
constexpr unsigned block_bits = 4;
constexpr std::size_t table_bytes = std::size_t{1} << (table_bits - block_bits);

// Accessed as atomic. Pages of it that are not used take no memory.
std::uint8_t* tables[std::size_t{1} << (address_bits - table_bits)] = {};

std::uintptr_t address_of(const void* block) {
  return reinterpret_cast<std::uintptr_t>(block) & ((std::uintptr_t{1} << address_bits) - 1);
}

std::size_t place_of(std::uintptr_t address) { return (address >> block_bits) & (table_bytes - 1); }

// Null: there is no memory.
std::uint8_t* make_table(std::atomic_ref<std::uint8_t*> place) {
  const long memory = os::system_call(SYS_mmap, 0, table_bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (os::is_error(memory)) return nullptr;
  auto* const made = reinterpret_cast<std::uint8_t*>(memory);
  std::uint8_t* other = nullptr;
  // relaxed: a byte is written before its block is handed on, by which the next owner finds the table too, whose memory is
  // zero from the start
  if (place.compare_exchange_strong(other, made, std::memory_order_relaxed)) return made;
  os::system_call(SYS_munmap, made, table_bytes);
  return other;
}

}  // namespace

void note_group(const void* block, std::uint8_t group) {
  if (block == nullptr) return;
  const std::uintptr_t address = address_of(block);
  const std::atomic_ref<std::uint8_t*> place(tables[address >> table_bits]);
  std::uint8_t* table = place.load(std::memory_order_relaxed);
  if (table == nullptr && group != 0) table = make_table(place);
  if (table == nullptr) return;
  // The block that was there before may have been freed past this library.
  std::uint8_t& noted = table[place_of(address)];
  if (noted != group) noted = group;
}

std::uint8_t take_group(const void* block) {
  const std::uintptr_t address = address_of(block);
  const std::atomic_ref<std::uint8_t*> place(tables[address >> table_bits]);
  std::uint8_t* const table = place.load(std::memory_order_relaxed);
  if (table == nullptr) return 0;
  std::uint8_t& group = table[place_of(address)];
  const std::uint8_t found = group;
  if (found != 0) group = 0;
  return found;
}

}  // namespace tarn::profiler::tail
