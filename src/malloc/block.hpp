// SPDX-License-Identifier: MIT
// block: what a pointer is, and what free, malloc_usable_size, realloc and tarn_move do with it. classify() is the only
// function that asks what a pointer leads to; the fast paths have their own look at the page map's entry
// (allocate.hpp). A new kind of block is a constant here, and a row of the table in block.cpp.
//
// Thread safety: any thread, for blocks that it owns; for any other pointer the answer is that of some moment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/engine.hpp"

namespace tarn {

enum class block_kind : std::uint8_t {
  object,    // in a span cut into objects of a size class
  unlisted,  // the same while the page map has no class for the span's pages (idle_pages.hpp)
  large,     // a large block
  inner,     // behind the start of a large block
  scoped,    // in memory of a scope, or of an arena that the program has made
  sampled,   // in a span of blocks of classes that the heap profile follows
  guarded,   // in the region of guarded blocks
  empty,     // among the blocks of 0 bytes of the hardened build
  pooled,    // in a span of a typed pool
  buffer,    // in a buffer of a buffer pool
  arena,     // in pages of an arena
  unused,    // in memory of tarn that is free
  tagged,    // points into memory of tarn once the tag in its top byte is removed
  foreign,   // none of these
};
inline constexpr std::size_t block_kinds = static_cast<std::size_t>(block_kind::foreign) + 1;

// What a pointer leads to. The kinds `object` and `large` mean that a block begins, or may begin, at the pointer
// itself; the others are those of the span.
struct pointee {
  block_kind kind;
  std::uint8_t size_class;  // of object and unlisted; 0: an unlisted span that is being made or destroyed
  span* owner;              // the span; null: there is none, or it is an object, whose `page` knows it
  page_map::entry page;

  // Of a large block the span, else null.
  [[nodiscard]] span* large() const { return kind == block_kind::large ? owner : nullptr; }
  // Of an object in or out of the page map's classes its span, else null. `block`: the pointer.
  [[nodiscard]] span* cut(const void* block) const {
    return kind == block_kind::object     ? page.owner(address_of(block))
           : kind == block_kind::unlisted ? owner
                                          : nullptr;
  }
};

// The same for an address whose page has no class. Out of line, so that objects pay nothing for it.
pointee classify_unclassed(page_map::entry page, const void* pointer);

TARN_ALWAYS_INLINE pointee classify(const void* pointer) {
  const page_map::entry page = engine::map.find(address_of(pointer));
  const auto size_class = static_cast<std::uint8_t>(page.size_class());
  if (TARN_LIKELY(size_class != 0)) return {block_kind::object, size_class, nullptr, page};
  return classify_unclassed(page, pointer);
}

// Where realloc leaves a block.
enum class resizing : std::uint8_t {
  if_it_stays,  // stays(): more than half of it is used
  if_equal,     // only if it has just that size
  by_pages,     // in_place, or by moving its pages (large_block::resize())
};

// What is done with the blocks of a kind.
struct block_actions {
  static constexpr std::size_t no_block = ~std::size_t{0};

  block_kind kind;
  // Frees the block. False: no live block begins there, so `bad_free` is reported. Some kinds end the process
  // themselves.
  bool (*free)(const pointee& found, void* block);
  // The bytes that may be used; no_block: no live block begins there, as far as can be told without a lock.
  std::size_t (*usable)(const pointee& found, const void* block);
  resizing resize;
  bool moves;              // with tarn_move; a large block, and one of a scope, stays where it is
  const char* bad_free;    // the message of a free that finds no live block there
  const char* bad_resize;  // and of realloc
};

const block_actions& actions_of(block_kind which);

// What freeing or resizing an object shows, as a message, or null. Requires: `page` is the page map's entry for it, and
// has a class.
const char* fault_of(page_map::entry page, const void* block);
// The same for any kind; null for those whose actions look themselves. An unlisted object must be looked at under the
// lock of its depot. Its span may be listed or divided before that: `found` becomes what the pointer is then.
const char* fault_of(pointee& found, const void* block);

// The bytes of a live object that may be used.
std::size_t usable_bytes(unsigned size_class, const void* object);

// Ends the process: `block` was to be freed, but is none.
[[noreturn]] void report_bad_free(const void* block);

// The row of `object` (free.cpp).
bool free_object(const pointee& found, void* object);
// Puts an object into its span, past the thread's cache. Requires: it has no fault.
void put_into_span(unsigned size_class, void* object);

}  // namespace tarn
