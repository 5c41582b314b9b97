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

#include "engine/engine.hpp"
#include "malloc/block.hpp"
#include "malloc/entry_points.hpp"
#include "malloc/jemalloc/arena_table.hpp"
#include "malloc/jemalloc/exported.hpp"
#include "malloc/large_block.hpp"
#include "os/errno_keeper.hpp"

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

std::size_t good_size(std::size_t size, std::size_t alignment) {
  if (size > entry::largest_request || alignment > entry::largest_request) return 0;
  const unsigned c = aligned_class_of(size, alignment);
  return c < size_classes::count ? class_info(c).size : align_up(size == 0 ? 1 : size, page_size);
}

// All of the block, not only the bytes asked for: a block that is made longer has to be zero from its old size on.
void* zeroed(void* block) {
  if (block != nullptr) std::memset(block, 0, tarn::usable_size(block));
  return block;
}

// A block of malloc's heap that has a class.
void* allocate_object(std::size_t size, const flag_word& flags) {
  return flags.without_cache() ? allocate_uncached(flags.alignment(), size)
                               : allocate_aligned(flags.alignment(), size);
}

// `arena`: null: malloc's heap.
void* allocate_large(std::size_t size, const flag_word& flags, scope_core* arena) {
  if (arena != nullptr) return arena->allocate_large(size, flags.alignment(), flags.zero());
  return flags.zero() ? allocate_zeroed_slow(size, flags.alignment())
                      : allocate_aligned(flags.alignment(), size);
}

TARN_NOINLINE void* allocate_with(std::size_t size, int bits) {
  const os::errno_keeper keeper;
  const flag_word flags(bits);
  scope_core* const arena = flags.arena() != 0 ? arenas.find(flags.arena()) : nullptr;
  if (arena == nullptr && flags.arena() != 0) return nullptr;
  if (size > entry::largest_request || flags.alignment() > entry::largest_request) return nullptr;
  if (has_no_class(size, flags.alignment())) return allocate_large(size, flags, arena);
  void* const block =
      arena != nullptr ? arena->allocate(size, flags.alignment()) : allocate_object(size, flags);
  return flags.zero() ? zeroed(block) : block;
}

void free_with(void* block, int flags) {
  if (TARN_UNLIKELY(flag_word(flags).without_cache())) return deallocate_uncached(block);
  deallocate(block);
}

// Zeroes what the block has got behind its old size.
void zero_from(void* block, std::size_t old_size) {
  const std::size_t now = tarn::usable_size(block);
  if (now <= old_size) return;
  const span* const s = classify(block).large();
  const std::size_t known = s != nullptr ? align_up(old_size, page_size) : now;
  std::memset(static_cast<char*>(block) + old_size, 0, known - old_size);
  if (s != nullptr) large_block::zero_from(s, known);
}

// Grows or shrinks a large block where it is, to at least `least` bytes and, if possible, `most`. Its new size. `s`: its
// span; null: it is another block.
std::size_t resize_in_place(span* s, std::size_t have, std::size_t least, std::size_t most) {
  if (hardened_build || s == nullptr || least <= largest_class_size) return have;
  const std::size_t wanted = have > most ? most : least > have ? most : have;
  return large_block::resize_in_place(s, wanted) || large_block::resize_in_place(s, least) ? s->bytes()
                                                                                           : have;
}

// Whether the block's place is one that the flags allow.
bool may_stay(const pointee& found, const void* block, const flag_word& flags) {
  if (!keeps_alignment(block, flags.alignment())) return false;
  if (flags.arena() == 0) return true;
  return found.kind == block_kind::scoped && scope_core::owner_of(found.owner).index == flags.arena();
}

// A block elsewhere, with the content of this one as far as it has room, which is freed. Null: no memory; nothing has
// changed.
void* move_with(void* block, std::size_t have, std::size_t size, int bits) {
  void* const fresh = allocate_with(size, bits);
  if (fresh == nullptr) return nullptr;
  const std::size_t room = tarn::usable_size(fresh);
  std::memcpy(fresh, block, have < room ? have : room);
  free_with(block, bits);
  return fresh;
}

// To the caller a block that stays has the size of nallocx(), and is longer only from its next request on.
void zero_slack(void* block, std::size_t size, std::size_t alignment) {
  const std::size_t known = good_size(size, alignment);
  const std::size_t have = tarn::usable_size(block);
  if (known < have) std::memset(static_cast<char*>(block) + known, 0, have - known);
}

bool is_resized_in_place(span* s, std::size_t have, std::size_t size) {
  return size > largest_class_size && s != nullptr && resize_in_place(s, have, size, size) >= size;
}

TARN_NOINLINE void* resize_with(void* block, std::size_t size, int bits) {
  const os::errno_keeper keeper;
  const flag_word flags(bits);
  if (size > entry::largest_request) return nullptr;
  const std::size_t have = tarn::usable_size(block);
  const pointee found = classify(block);
  if (!may_stay(found, block, flags)) return move_with(block, have, size, bits);
  if (!is_resized_in_place(found.large(), have, size) && !stays(have, size)) {
    // Of a shorter block realloc copies what was asked for, and what lies behind it may not be zero.
    const bool any_place = flags.alignment() <= 16 && flags.arena() == 0 && !flags.without_cache() &&
                           !(flags.zero() && size < have) && found.kind != block_kind::scoped;
    if (!any_place) {
      void* const moved = move_with(block, have, size, bits);
      return moved == nullptr && size <= have ? block : moved;  // no memory is needed for fewer bytes
    }
    // A block of 16 bytes and more is aligned to 16.
    block = reallocate(block, size < flags.alignment() ? flags.alignment() : size);
  } else if (flags.zero()) {
    zero_slack(block, size, flags.alignment());
  }
  if (block != nullptr && flags.zero()) zero_from(block, have);
  return block;
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
  if (!keeps_alignment(block, word.alignment()) || size > entry::largest_request) return have;
  const std::size_t most = extra > entry::largest_request - size ? entry::largest_request : size + extra;
  const std::size_t now = jemalloc::resize_in_place(classify(block).large(), have, size, most);
  if (word.zero()) jemalloc::zero_from(block, have);
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
