// SPDX-License-Identifier: MIT
#include "pages/fill_evidence.hpp"

#include <algorithm>

#include "os/memory.hpp"
#include "os/sandbox.hpp"

namespace tarn {

bool fill_evidence::is_filled(std::uintptr_t start, std::size_t bytes) {
  unsigned char resident[fill_evidence::longest / (4 * kib)];
  const os::address_range whole = os::whole_units(start, start + bytes);
  if (whole.empty() || !os::find_resident(whole.memory(), whole.bytes(), resident)) return false;
  const std::size_t pages = whole.bytes() / os::system_page_size();
  const auto gaps = static_cast<std::size_t>(
      std::count_if(resident, resident + pages, [](unsigned char p) { return (p & 1) == 0; }));
  return gaps <= pages / gap_divisor;
}

bool fill_evidence::foresees(std::size_t bytes, std::size_t heap_bytes) {
  if (bytes > longest) return false;
  record& r = record_of(bytes);
  if (r.left.load(std::memory_order_relaxed) >= bytes) return true;
  if (r.sample.load(std::memory_order_relaxed) == 0 || os::is_filtered()) return false;
  const std::uintptr_t sample = r.sample.exchange(0, std::memory_order_relaxed);
  const std::size_t length = r.sample_bytes.load(std::memory_order_relaxed);
  if (sample == 0) return false;
  const bool filled = is_filled(sample, length);
  const std::size_t before = r.trust.load(std::memory_order_relaxed);
  const std::uint32_t streak = filled ? r.streak.load(std::memory_order_relaxed) + 1 : 0;
  const std::uint32_t wanted = r.wanted.load(std::memory_order_relaxed);
  const std::size_t most = std::max(heap_bytes / heap_divisor, bytes);
  const std::size_t trust = filled && streak >= wanted ? std::min(2 * std::max(before, bytes), most) : 0;
  r.streak.store(std::min(streak, longest_streak), std::memory_order_relaxed);
  r.trust.store(trust, std::memory_order_relaxed);
  r.left.store(trust, std::memory_order_relaxed);
  if (!filled && before != 0) r.wanted.store(std::min(2 * wanted, longest_streak), std::memory_order_relaxed);
  const std::uint32_t pause = r.pause.load(std::memory_order_relaxed);
  r.pause.store(filled ? 0 : std::min(2 * pause + 1, longest_pause), std::memory_order_relaxed);
  r.passed.store(0, std::memory_order_relaxed);
  return trust != 0;
}

void fill_evidence::note_fresh(std::uintptr_t start, std::size_t bytes, bool foreseen) {
  if (bytes > longest) return;
  record& r = record_of(bytes);
  if (foreseen) {
    const std::size_t left = r.left.load(std::memory_order_relaxed);
    r.left.store(left - std::min(left, bytes), std::memory_order_relaxed);
  } else if (const std::uint32_t passed = r.passed.load(std::memory_order_relaxed);
             passed < r.pause.load(std::memory_order_relaxed)) {
    r.passed.store(passed + 1, std::memory_order_relaxed);
  } else if (r.sample.load(std::memory_order_relaxed) == 0) {
    r.sample_bytes.store(bytes, std::memory_order_relaxed);
    r.sample.store(start, std::memory_order_relaxed);
  }
}

}  // namespace tarn
