// SPDX-License-Identifier: MIT
#include "malloc/hardened_size.hpp"

#include "malloc/allocate.hpp"
#include "malloc/block.hpp"
#include "os/memory.hpp"
#include "os/report.hpp"

namespace tarn::hardened_size {
namespace {

constexpr const char* size_text = "free of a block with a size that it does not have";

// Whether a request gets a block of this class, or a large block of that many usable bytes.
bool serves(std::size_t size, std::size_t alignment, unsigned size_class, std::size_t usable) {
  if (alignment == 16 && size < 16) size = 16;
  const bool is_large = has_no_class(size, alignment);
  if (size_class != 0) return !is_large && aligned_class_of(object_size(size), alignment) == size_class;
  return is_large && usable == align_up(size == 0 ? 1 : size, os::page_unit());
}

}  // namespace

void check(const void* block, std::size_t size, std::size_t alignment, how_named how) {
  const pointee found = classify(block);
  const unsigned size_class = found.kind == block_kind::object ? found.size_class : 0;
  if (TARN_LIKELY(size_class != 0 && alignment <= 8 && size <= largest_fine &&
                  fine_class_of(object_size(size)) == size_class))
    return;
  if (found.kind == block_kind::empty && size != 0) os::fatal(size_text, block);
  // Guarded blocks, and those of a scope or that the heap profile follows, may be longer than the request.
  if (size_class == 0 && found.kind != block_kind::large) return;
  const std::size_t usable = usable_size(block);
  if (serves(size, alignment, size_class, usable)) return;
  if (how == how_named::exact || !stays(usable, size)) os::fatal(size_text, block);
}

}  // namespace tarn::hardened_size
