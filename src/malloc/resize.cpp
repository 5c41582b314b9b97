// SPDX-License-Identifier: MIT
// realloc().
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/allocation_counts.hpp"
#include "engine/slow_calls.hpp"
#include "malloc/allocate.hpp"
#include "malloc/block.hpp"
#include "malloc/large_block.hpp"
#include "malloc/miss.hpp"
#include "os/report.hpp"

namespace tarn {
namespace {

// realloc asks for no more than the new size from this size on, where a quarter more would only be refused.
constexpr std::size_t grows_ahead_below = std::size_t{1} << 40;

// What to ask for when a block of `have` bytes is to have `size`. A block of a class grows by an eighth at least: one that
// grows in small steps is so copied half as often. In the hardened build, whose large blocks do not grow in place, they get
// a quarter more: the pages take only address space until they are written to.
constexpr std::size_t size_to_grow(std::size_t have, std::size_t size) {
  if (hardened_build && size > largest_class_size && size < grows_ahead_below) return size + size / 4;
  return size > have && have <= largest_class_size ? std::max(size, have + have / 8) : size;
}

void* allocate_to_grow(std::size_t have, std::size_t size) {
  if (const std::size_t more = size_to_grow(have, size); more != size) {
    const int error = errno;
    if (void* const block = allocate_grown(more)) return block;
    errno = error;
  }
  return size > have ? allocate_grown(size) : allocate(size);
}

// Another block with the content, which takes the place of this one.
void* replace(void* block, std::size_t have, std::size_t size) {
  const int error = errno;
  void* const fresh = allocate_to_grow(have, size);
  if (fresh == nullptr) {
    if (size > have) return nullptr;
    errno = error;
    return block;  // no memory is needed for fewer bytes
  }
  std::memcpy(fresh, block, have < size ? have : size);
  free_mark::clear_copied(fresh);
  deallocate(block);
  return fresh;
}

void* resize_by_pages(span* s, void* block, std::size_t size) {
  const std::size_t before = s->pages;
  void* const resized = slow_calls::counted(slow_calls::kind::large_allocation, [=] {
    return take_or_reclaim(size, [=] { return large_block::resize(s, size); });
  });
  // A block of another length is another block to the profile.
  if (resized != nullptr && (resized != block || s->pages != before)) {
    span* const now = resized == block ? s : classify(resized).large();
    engine::samples.remove_large(now);
    large_block::sample(now, size);
  }
  if (TARN_UNLIKELY(allocation_counts::innermost != nullptr) && resized != block)
    allocation_counts::add(size);
  return resized != nullptr ? resized : out_of_memory();
}

bool stays_where_it_is(resizing how, std::size_t have, std::size_t size) {
  return size == have || (how == resizing::if_it_stays && stays(have, size));
}

TARN_NOINLINE void* reallocate_unclassed(page_map::entry page, void* block, std::size_t size) {
  pointee found = classify_unclassed(page, block);
  if (const char* fault = fault_of(found, block)) os::fatal(fault, block);
  if (found.kind == block_kind::object) return reallocate(block, size);
  const block_actions& actions = actions_of(found.kind);
  const std::size_t have = actions.usable(found, block);
  if (have == block_actions::no_block) os::fatal(actions.bad_resize, block);
  if (stays_where_it_is(actions.resize, have, size)) return block;
  if (actions.resize == resizing::by_pages && size > largest_class_size && !engine::is_in_scope())
    return resize_by_pages(found.owner, block, size);
  return replace(block, have, size);
}

}  // namespace

void* reallocate(void* block, std::size_t size) {
  const page_map::entry page = engine::map.find(address_of(block));
  if (TARN_UNLIKELY(page.size_class() == 0)) return reallocate_unclassed(page, block, size);
  if (const char* fault = fault_of(page, block)) os::fatal(fault, block);
  const std::size_t have = usable_bytes(static_cast<unsigned>(page.size_class()), block);
  return stays(have, size) ? block : replace(block, have, size);
}

}  // namespace tarn
