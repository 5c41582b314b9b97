// SPDX-License-Identifier: MIT
#include "samples/followed/call_sites.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "base/units.hpp"
#include "samples/byte_samples.hpp"

namespace tarn {

void site_figures::note_freed(std::uint64_t weight, std::uint64_t weighted_bytes, std::uint64_t lifetime_ns) {
  live_blocks -= weight;
  live_bytes -= weighted_bytes;
  --live_samples;
  // What is left without a sample is the rounding of the sums.
  live_bytes_variance = live_samples == 0 ? 0 : live_bytes_variance - variance_of(weight, weighted_bytes);
  static_assert(weight_unit == 1U << byte_samples::weight_shift);
  lifetime_seconds += static_cast<double>(weight) / weight_unit * static_cast<double>(lifetime_ns) * 1e-9;
  ++lifetimes[std::min<unsigned>(static_cast<unsigned>(std::bit_width(lifetime_ns)), lifetime_classes - 1)];
}

std::uint64_t call_sites::hash_of(const std::uintptr_t* frames, std::size_t count) {
  std::uint64_t hash = count;
  for (std::size_t i = 0; i < count; ++i) hash = std::rotl(hash ^ frames[i], 29) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 32);
}

call_site* call_sites::find(std::uint64_t hash, const std::uintptr_t* frames, std::size_t count,
                            bool& can_add) const {
  can_add = count_ < most_sites;
  if (table_ == nullptr) return nullptr;
  for (std::size_t i = hash % buckets; table_[i] != nullptr; i = (i + 1) % buckets) {
    call_site* const site = table_[i];
    if (site->hash == hash && site->count == count && std::equal(frames, frames + count, site->frames)) {
      return site;
    }
  }
  return nullptr;
}

call_sites::memory call_sites::prepare(metadata_arena& metadata, std::size_t count) {
  memory m;
  if (!has_table_.load(std::memory_order_relaxed)) {
    // Of two threads the second one's table stays unused, and untouched.
    m.table = metadata.allocate_sparse((buckets + most_sites) * sizeof(call_site*), cache_line);
    if (m.table == nullptr) return m;
  }
  m.site = metadata.allocate(sizeof(call_site) + count * sizeof(std::uintptr_t), alignof(call_site));
  return m;
}

call_site* call_sites::add(const memory& m, std::uint64_t hash, const std::uintptr_t* frames,
                           std::size_t count) {
  if (table_ == nullptr) {
    table_ = static_cast<call_site**>(m.table);
    in_order_ = table_ + buckets;
    has_table_.store(true, std::memory_order_relaxed);
  }
  auto* const site = new (m.site) call_site;
  auto* const copy = reinterpret_cast<std::uintptr_t*>(site + 1);
  std::copy_n(frames, count, copy);
  site->hash = hash;
  site->count = static_cast<std::uint32_t>(count);
  site->frames = copy;
  in_order_[count_++] = site;
  site->number = static_cast<std::uint32_t>(count_);
  std::size_t i = hash % buckets;
  while (table_[i] != nullptr) i = (i + 1) % buckets;
  table_[i] = site;
  return site;
}

bool call_sites::finds(const call_site& site) const {
  bool can_add = false;
  return find(site.hash, site.frames, site.count, can_add) == &site;
}

void call_sites::validate() const {
  TARN_INVARIANT("call_sites", this, count_ <= most_sites);
  for (std::size_t i = 0; i < count_; ++i) {
    call_site* const site = in_order_[i];
    TARN_INVARIANT("call_sites", site, finds(*site));
    const site_figures& f = site->figures;
    TARN_INVARIANT("call_sites", site, f.live_blocks <= f.blocks && f.live_bytes <= f.bytes);
    TARN_INVARIANT("call_sites", site, f.live_samples <= f.samples);
  }
}

}  // namespace tarn
