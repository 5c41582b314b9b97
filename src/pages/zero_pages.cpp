// SPDX-License-Identifier: MIT
#include "pages/zero_pages.hpp"

#include <algorithm>
#include <cstring>

#include "os/memory.hpp"
#include "os/sandbox.hpp"

namespace tarn {
namespace {

// Shorter runs are simply overwritten: asking which pages are resident would cost nearly as much.
constexpr std::size_t looked_at_from = 1 * mib;
// Bytes whose residence one system call tells.
constexpr std::size_t looked_at_once = 4 * mib;

std::size_t write_zeroes(std::uintptr_t start, std::uintptr_t end) {
  std::memset(reinterpret_cast<void*>(start), 0, end - start);
  return end - start;
}

// Purging also drops swapped-out pages, which are neither resident nor zero.
std::size_t drop_or_write(std::uintptr_t start, std::uintptr_t end) {
  return os::purge(reinterpret_cast<void*>(start), end - start) ? 0 : write_zeroes(start, end);
}

// Zeroes [start, end), whole system pages, at most looked_at_once bytes; returns the bytes written. If fewer than half
// of the pages are resident, all are dropped in one call; otherwise resident pages are overwritten and the others
// dropped.
std::size_t zero_by_residence(std::uintptr_t start, std::uintptr_t end) {
  unsigned char resident[looked_at_once / (4 * kib)];
  const std::size_t whole = os::system_page_size();
  const std::size_t count = (end - start) / whole;
  if (!os::find_resident(reinterpret_cast<void*>(start), end - start, resident))
    return write_zeroes(start, end);
  const auto is_resident = [&](std::size_t i) { return (resident[i] & 1) != 0; };
  std::size_t backed = 0;
  for (std::size_t i = 0; i < count; ++i) backed += is_resident(i) ? 1 : 0;
  if (backed < count / 2) return drop_or_write(start, end);
  std::size_t written = 0;
  for (std::size_t i = 0; i < count;) {
    const std::size_t run = i;
    while (i < count && is_resident(i) == is_resident(run)) ++i;
    const std::uintptr_t from = start + run * whole;
    const std::uintptr_t to = start + i * whole;
    written += is_resident(run) ? write_zeroes(from, to) : drop_or_write(from, to);
  }
  return written;
}

// Zeroes a run of dirty pages, most of which may never have been touched. Returns the bytes written.
std::size_t zero_run(std::uintptr_t start, std::uintptr_t end) {
  const std::uintptr_t first = align_up(start, os::system_page_size());
  const std::uintptr_t last = align_down(end, os::system_page_size());
  if (end - start < looked_at_from || os::in_sandbox()) return write_zeroes(start, end);
  std::size_t written = write_zeroes(start, first) + write_zeroes(last, end);
  for (std::uintptr_t at = first; at < last; at += looked_at_once) {
    written += zero_by_residence(at, std::min(last, at + looked_at_once));
  }
  return written;
}

}  // namespace

std::size_t zero_dirty_pages(const page_map& map, const span* s) {
  return zero_dirty_pages(map, s, s->start);
}

std::size_t zero_dirty_pages(const page_map& map, const span* s, std::uintptr_t from) {
  if (s->dirty_pages == 0) return 0;
  std::size_t written = 0;
  std::uintptr_t at = from;
  while (at < s->end()) {
    const std::uintptr_t run = at;
    while (at < s->end() && map.backing(at) != page_backing::clean) at += page_size;
    if (at != run) written += zero_run(run, at);
    if (at < s->end()) at += page_size;
  }
  return written;
}

}  // namespace tarn
