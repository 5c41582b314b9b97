// SPDX-License-Identifier: MIT
#include "malloc/hardened_block.hpp"

#include <cstring>

#include "base/hardened.hpp"
#include "malloc/hardened_quarantine.hpp"
#include "os/process_random.hpp"
#include "os/report.hpp"
#include "runtime/engine.hpp"

namespace tarn::hardened_block {
namespace {

using word __attribute__((may_alias)) = std::uint64_t;

constexpr const char* overflow_text = "a write past the end of a block, seen when it was freed";
constexpr const char* underflow_text = "a write before a block, or past the end of the one before it";
constexpr const char* written_text = "a write to a block after it was freed";

std::uint64_t canary_of(std::uintptr_t object) {
  return (object * 0x9e3779b97f4a7c15U) ^ (free_mark::secret.value * 0xd6e8feb86659fd93U);
}

word* canary_at(std::uintptr_t object, std::size_t size) {
  return reinterpret_cast<word*>(object + size - canary_bytes);
}

bool is_zero(const void* bytes, std::size_t count) {
  const auto* const words = static_cast<const word*>(bytes);
  std::uint64_t any = 0;
  for (std::size_t i = 0; i < count / sizeof(word); ++i) any |= words[i];
  return any == 0;
}

// The bits of `object` in its span's live bits.
struct live_bit {
  std::atomic<std::uint64_t>* bits;
  std::uint64_t mask;

  live_bit(span* s, std::uintptr_t object) {
    const std::size_t index = objects::index_of(s, object);
    bits = &s->live_bits[index / objects::bits_per_word];
    mask = std::uint64_t{1} << (index % objects::bits_per_word);
  }
};

// The object before this one is free, and all zero, or live, with its canary.
bool is_sound_before(const span* s, std::uintptr_t object, std::size_t size) {
  if (object - objects::first_of(s) < size) return true;
  const std::uint64_t found = __atomic_load_n(canary_at(object - size, size), __ATOMIC_RELAXED);
  return found == 0 || found == canary_of(object - size);
}

}  // namespace

void hand_out(void* object, unsigned size_class) {
  const std::size_t size = class_info(size_class).size;
  if (!is_zero(object, size)) os::fatal(written_text, object);
  const live_bit bit(engine::map.span_of(address_of(object)), address_of(object));
  bit.bits->fetch_or(bit.mask, std::memory_order_relaxed);
  __atomic_store_n(canary_at(address_of(object), size), canary_of(address_of(object)), __ATOMIC_RELAXED);
}

const char* fault_of(page_map::entry page, const void* block) {
  span* const s = page.owner();
  const std::size_t size = class_info(static_cast<unsigned>(page.size_class())).size;
  const live_bit bit(s, address_of(block));
  if ((bit.bits->load(std::memory_order_relaxed) & bit.mask) == 0) return "double free";
  if (*canary_at(address_of(block), size) != canary_of(address_of(block))) return overflow_text;
  return is_sound_before(s, address_of(block), size) ? nullptr : underflow_text;
}

void* take_back(page_map::entry page, void* block) {
  const auto size_class = static_cast<unsigned>(page.size_class());
  const std::size_t size = class_info(size_class).size;
  if (const char* const fault = fault_of(page, block)) os::fatal(fault, block);
  // Of two threads that got here with one block, one finds the bit set.
  const live_bit bit(page.owner(), address_of(block));
  if ((bit.bits->fetch_and(~bit.mask, std::memory_order_relaxed) & bit.mask) == 0)
    os::fatal("double free", block);
  std::memset(block, 0, size);
  void* const leaving = hardened_quarantine::exchange(block, size);
  if (leaving == nullptr) return nullptr;
  const auto leaving_class = static_cast<unsigned>(engine::map.class_of(address_of(leaving)));
  if (!is_zero(leaving, class_info(leaving_class).size)) os::fatal(written_text, leaving);
  return leaving;
}

}  // namespace tarn::hardened_block
