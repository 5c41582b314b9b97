// SPDX-License-Identifier: MIT
// jemalloc's allocation functions with flags: mallocx, rallocx, xallocx, sallocx, dallocx, sdallocx, nallocx.
//
// The bits of `flags`: 0 to 5 the alignment's logarithm; 6 zeroed memory; 8 to 19 the cache (0: the thread's, 1: none,
// else an explicit one's index + 2); from 20 on the arena's index + 1 (0: any). Every explicit cache is that of the
// calling thread: "tcache.create" gives a number and nothing else.
//
// Thread safety: any thread. A failed call returns null (xallocx: the old size) and leaves errno alone, as jemalloc's.
#include <cerrno>
#include <cstring>

#include "jemalloc/arena_table.hpp"
#include "jemalloc/exported.hpp"
#include "malloc/entry_points.hpp"
#include "malloc/large_block.hpp"
#include "os/errno_keeper.hpp"
#include "runtime/engine.hpp"

namespace tarn::jemalloc {
namespace {

class flag_word {
 public:
  explicit constexpr flag_word(int flags) : bits_(static_cast<unsigned>(flags)) {}

  [[nodiscard]] std::size_t alignment() const { return std::size_t{1} << (bits_ & 63U); }
  [[nodiscard]] bool zero() const { return (bits_ & 64U) != 0; }
  [[nodiscard]] bool without_cache() const { return (bits_ >> 8U & 0xfffU) == 1; }
  // Of an arena that the program has made; 0: none is asked for, or malloc's.
  [[nodiscard]] unsigned arena() const {
    const unsigned number = bits_ >> 20U;
    return number == 0 ? 0 : number - 1;
  }

 private:
  unsigned bits_;
};

constexpr std::size_t natural_alignment = 16;

std::size_t good_size(std::size_t size, std::size_t alignment) {
  if (size > entry::largest_request || alignment > entry::largest_request) return 0;
  if (size <= largest_class_size && alignment <= page_size) {
    const bool natural =
        alignment < natural_alignment || (alignment == natural_alignment && size >= natural_alignment);
    unsigned c = class_of_size(natural || size > alignment ? size : alignment);
    while (c < size_classes::count && !natural && class_info(c).size % alignment != 0) ++c;
    if (c < size_classes::count) return class_info(c).size;
  }
  return align_up(size == 0 ? 1 : size, page_size);
}

// All of the block, not only the bytes asked for: a block that is made longer has to be zero from its old size on.
void* zeroed(void* block) {
  if (block != nullptr) std::memset(block, 0, tarn::usable_size(block));
  return block;
}

// A block of malloc's heap.
void* allocate_common(std::size_t size, const flag_word& flags) {
  const std::size_t alignment = flags.alignment();
  if (size > entry::largest_request || alignment > entry::largest_request) return nullptr;
  if (flags.without_cache() && alignment <= natural_alignment) {
    void* const block = allocate_uncached(size < alignment ? alignment : size);
    return flags.zero() ? zeroed(block) : block;
  }
  // Of a large block calloc zeroes only what is not zero yet.
  if (alignment <= natural_alignment && flags.zero() && size > largest_class_size)
    return entry::calloc(1, size);
  void* const block = allocate_aligned(alignment, size);
  return flags.zero() ? zeroed(block) : block;
}

TARN_NOINLINE void* allocate_with(std::size_t size, int bits) {
  const os::errno_keeper keeper;
  const flag_word flags(bits);
  if (flags.arena() == 0) return allocate_common(size, flags);
  scope_core* const arena = arenas.find(flags.arena());
  if (arena == nullptr || size > entry::largest_request || flags.alignment() > entry::largest_request)
    return nullptr;
  void* const block = arena->allocate(size, flags.alignment());
  return flags.zero() ? zeroed(block) : block;
}

void free_with(void* block, int flags) {
  if (TARN_UNLIKELY(flag_word(flags).without_cache())) return deallocate_uncached(block);
  deallocate(block);
}

void zero_from(void* block, std::size_t old_size, std::size_t new_size) {
  if (new_size > old_size) std::memset(static_cast<char*>(block) + old_size, 0, new_size - old_size);
}

// Whether the block may stay where it is: it has the alignment, is in the arena, and realloc would not move it either.
bool may_stay(const void* block, std::size_t have, std::size_t size, const flag_word& flags) {
  if (address_of(block) % flags.alignment() != 0) return false;
  const span* const s = scope_core::span_of(block);
  if (flags.arena() != 0 && (s == nullptr || scope_core::owner_of(s).index != flags.arena())) return false;
  return size <= have && size > have / 2;
}

TARN_NOINLINE void* resize_with(void* block, std::size_t size, int bits) {
  const os::errno_keeper keeper;
  const flag_word flags(bits);
  if (size > entry::largest_request) return nullptr;
  const std::size_t have = tarn::usable_size(block);
  if (may_stay(block, have, size, flags)) return block;
  const bool any_place =
      flags.arena() == 0 && flags.alignment() <= natural_alignment && !flags.without_cache();
  if (any_place && scope_core::span_of(block) == nullptr) {
    void* const moved = reallocate(block, size == 0 ? 1 : size);
    if (moved != nullptr && flags.zero()) zero_from(moved, have, tarn::usable_size(moved));
    return moved;
  }
  void* const fresh = allocate_with(size, bits);
  if (fresh == nullptr) return nullptr;
  std::memcpy(fresh, block, have < size ? have : size);
  free_with(block, bits);
  return fresh;
}

// Grows or shrinks a large block where it is, to at least `least` bytes and, if possible, `most`. Its new size.
std::size_t resize_in_place(void* block, std::size_t have, std::size_t least, std::size_t most) {
  if (hardened_build || least <= largest_class_size) return have;
  span* const s = large_block::find(block);
  if (s == nullptr) return have;
  const std::size_t wanted = have > most ? most : least > have ? most : have;
  return large_block::resize_in_place(s, wanted) || large_block::resize_in_place(s, least) ? s->bytes()
                                                                                           : have;
}

}  // namespace
}  // namespace tarn::jemalloc

using namespace tarn;

extern "C" {

TARN_API void* mallocx(size_t size, int flags) noexcept {
  if (TARN_LIKELY(flags == 0)) {
    void* const block = size <= largest_fine ? pop_fine(size) : nullptr;
    if (TARN_LIKELY(block != nullptr)) return block;
  }
  return jemalloc::allocate_with(size, flags);
}

TARN_API void* rallocx(void* block, size_t size, int flags) noexcept {
  return block == nullptr ? jemalloc::allocate_with(size, flags) : jemalloc::resize_with(block, size, flags);
}

TARN_API size_t xallocx(void* block, size_t size, size_t extra, int flags) noexcept {
  const os::errno_keeper keeper;
  const std::size_t have = tarn::usable_size(block);
  const jemalloc::flag_word word(flags);
  if (address_of(block) % word.alignment() != 0 || size > entry::largest_request) return have;
  const std::size_t most = extra > entry::largest_request - size ? entry::largest_request : size + extra;
  const std::size_t now = jemalloc::resize_in_place(block, have, size, most);
  if (word.zero()) jemalloc::zero_from(block, have, now);
  return now;
}

TARN_API size_t sallocx(const void* block, int /*flags*/) noexcept { return tarn::usable_size(block); }

TARN_API void dallocx(void* block, int flags) noexcept { jemalloc::free_with(block, flags); }

TARN_API void sdallocx(void* block, size_t /*size*/, int flags) noexcept {
  jemalloc::free_with(block, flags);
}

TARN_API size_t nallocx(size_t size, int flags) noexcept {
  return jemalloc::good_size(size, jemalloc::flag_word(flags).alignment());
}

}  // extern "C"
