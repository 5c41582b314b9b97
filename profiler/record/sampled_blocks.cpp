// SPDX-License-Identifier: MIT
#include "profiler/record/sampled_blocks.hpp"

#include "profiler/record/call_path.hpp"

namespace tarn::profiler {

bool sampled_blocks::insert(void* block, std::size_t size,
                            std::atomic<const block_filter*>& filter) noexcept {
  const os::lock_guard hold(lock_, *this);
  if (2 * count_ >= size_ && !grow(filter)) return false;
  insert(block, size);
  count(block, 1);
  return true;
}

bool sampled_blocks::take(void* block, std::size_t& size) noexcept {
  const os::lock_guard hold(lock_, *this);
  if (size_ == 0) return false;
  for (std::uint32_t index = filter_hash(block) & (size_ - 1);; index = (index + 1) & (size_ - 1)) {
    if (entries_[index].block == nullptr) return false;
    if (entries_[index].block != block) continue;
    size = entries_[index].size;
    erase(index);
    count(block, -1);
    return true;
  }
}

void sampled_blocks::release() noexcept {
  const os::lock_guard hold(lock_, *this);
  if (entries_ != nullptr) unmap_pages(entries_, size_ * sizeof(entry));
  if (filter_ != nullptr) wipe_pages(filter_, sizeof(block_filter) + filter_->mask + 1);
  entries_ = nullptr;
  filter_ = nullptr;
  size_ = count_ = 0;
}

void sampled_blocks::insert(void* block, std::size_t size) noexcept {
  std::uint32_t index = filter_hash(block) & (size_ - 1);
  while (entries_[index].block != nullptr) index = (index + 1) & (size_ - 1);
  entries_[index] = {block, size};
  ++count_;
}

// Closes the gap (deletion without tombstones in linear probing), so that every entry stays reachable from its first
// slot.
void sampled_blocks::erase(std::uint32_t index) noexcept {
  const std::uint32_t mask = size_ - 1;
  for (std::uint32_t next = (index + 1) & mask; entries_[next].block != nullptr; next = (next + 1) & mask) {
    const std::uint32_t first = filter_hash(entries_[next].block) & mask;
    if (((next - first) & mask) < ((next - index) & mask)) continue;
    entries_[index] = entries_[next];
    index = next;
  }
  entries_[index] = {};
  --count_;
}

void sampled_blocks::count(void* block, int change) noexcept {
  std::uint8_t& here = filter_->counts()[filter_hash(block) & filter_->mask];
  const std::uint8_t old = __atomic_load_n(&here, __ATOMIC_RELAXED);
  if (old == 255) return;
  __atomic_store_n(&here, static_cast<std::uint8_t>(old + change), __ATOMIC_RELAXED);
}

bool sampled_blocks::grow(std::atomic<const block_filter*>& filter) noexcept {
  const std::uint32_t size = size_ == 0 ? first_entries : 2 * size_;
  const std::uint32_t counts = counts_per_entry * size;
  auto* entries = static_cast<entry*>(map_pages(size * sizeof(entry)));
  auto* larger = static_cast<block_filter*>(map_pages(sizeof(block_filter) + counts));
  if (entries == nullptr || larger == nullptr) {
    if (entries != nullptr) unmap_pages(entries, size * sizeof(entry));
    return false;
  }
  larger->mask = counts - 1;
  entry* old = entries_;
  const std::uint32_t old_size = size_;
  entries_ = entries;
  size_ = size;
  count_ = 0;
  filter_ = larger;
  for (std::uint32_t index = 0; index < old_size; ++index) {
    if (old[index].block == nullptr) continue;
    insert(old[index].block, old[index].size);
    count(old[index].block, 1);
  }
  // release: partner of the acquire in wants_free; the old filter stays mapped, as other threads may be reading it
  filter.store(larger, std::memory_order_release);
  if (old != nullptr) unmap_pages(old, old_size * sizeof(entry));
  return true;
}

}  // namespace tarn::profiler
