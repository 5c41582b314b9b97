// SPDX-License-Identifier: MIT
// The functions of tarn/malloc.h.
#include "tarn/malloc.h"

#include <cerrno>
#include <cstddef>

#include "base/known_part.hpp"
#include "engine/allocation_counts.hpp"
#include "engine/options.hpp"
#include "malloc/entry_points.hpp"
#include "malloc/hardened_block.hpp"
#include "malloc/moving.hpp"
#include "malloc/pinning.hpp"
#include "observe/heap_profile.hpp"
#include "observe/statistics.hpp"

using namespace tarn;

void* tarn_malloc(size_t size) noexcept { return entry::malloc(size); }
void* tarn_calloc(size_t count, size_t size) noexcept { return entry::calloc(count, size); }
void* tarn_realloc(void* block, size_t size) noexcept { return entry::realloc(block, size); }
void* tarn_reallocarray(void* block, size_t count, size_t size) noexcept {
  return entry::reallocarray(block, count, size);
}
void tarn_free(void* block) noexcept { deallocate(block); }
void tarn_free_sized(void* block, size_t size) noexcept { entry::free_sized(block, 1, size); }
void tarn_free_aligned_sized(void* block, size_t alignment, size_t size) noexcept {
  entry::free_sized(block, alignment, size);
}

int tarn_posix_memalign(void** out, size_t alignment, size_t size) noexcept {
  return entry::posix_memalign(out, alignment, size);
}
void* tarn_aligned_alloc(size_t alignment, size_t size) noexcept {
  return entry::aligned_alloc(alignment, size);
}
void* tarn_memalign(size_t alignment, size_t size) noexcept { return entry::aligned_alloc(alignment, size); }
void* tarn_valloc(size_t size) noexcept { return entry::valloc(size); }
void* tarn_pvalloc(size_t size) noexcept { return entry::pvalloc(size); }

size_t tarn_usable_size(const void* block) noexcept { return entry::usable_size(block); }

size_t tarn_good_size(size_t size) noexcept {
  if constexpr (hardened_build) {
    if (size <= largest_class_size - canary_bytes) {
      return class_info(class_of_size(hardened_block::padded(size))).size - canary_bytes;
    }
  } else if (size <= largest_class_size) {
    return class_info(class_of_size(size)).size;
  }
  return size > entry::largest_request ? size : align_up(size, page_size);
}

size_t tarn_trim(size_t keep) noexcept { return entry::trim(keep); }

int tarn_would_move(const void* block, double ratio) noexcept {
  return moving::would_help(block, ratio) ? 1 : 0;
}
size_t tarn_would_move_each(const void* const* blocks, size_t count, double ratio,
                            unsigned char* results) noexcept {
  size_t ones = 0;
  for (size_t i = 0; i < count; ++i) {
    results[i] = moving::would_help(blocks[i], ratio) ? 1 : 0;
    ones += results[i];
  }
  return ones;
}
void* tarn_move(void* block) noexcept { return moving::move(block); }

void tarn_visit_pinned(void (*visit)(void*, const tarn_pinned*), void* context) noexcept {
  pinning::visit(visit, context);
}
size_t tarn_pinned_by(const void* block) noexcept { return pinning::bytes_by(block); }

size_t tarn_get_stats_sized(tarn_stats* out, size_t size) noexcept {
  tarn_stats all = {};
  statistics::collect(all);
  put_known(all, out, size);
  return sizeof all;
}

void tarn_get_stats(tarn_stats* out) noexcept {
  // Of version 2 of the structure: programs have no room for more.
  constexpr size_t size = offsetof(tarn_stats, guarded_blocks) + sizeof out->guarded_blocks;
  static_assert(size == 160);
  tarn_get_stats_sized(out, size);
}

size_t tarn_stats_json(char* buffer, size_t capacity) noexcept {
  text_writer out(buffer, capacity == 0 ? 0 : capacity - 1);
  statistics::write_json(out, false);
  if (capacity != 0) buffer[out.stored()] = '\0';
  return out.size();
}

int tarn_profile_start(size_t rate) noexcept { return heap_profile::start(rate) ? 0 : EINVAL; }
void tarn_profile_stop() noexcept { heap_profile::stop(); }

int tarn_profile_write(void (*write)(void*, const char*, size_t), void* context) noexcept {
  return heap_profile::write(heap_profile::view::heap, write, context) ? 0 : ENOMEM;
}

int tarn_profile_dump(int fd) noexcept { return heap_profile::dump(fd); }

int tarn_visit_profile(void (*visit)(void*, const tarn_profile_site*), void* context) noexcept {
  return heap_profile::visit_sites(visit, context) ? 0 : ENOMEM;
}

void tarn_count_begin(tarn_allocation_count* count) noexcept {
  engine::attach_thread();
  allocation_counts::begin(*count);
}
void tarn_count_end(tarn_allocation_count* count) noexcept { allocation_counts::end(*count); }

int tarn_option_at(size_t index, tarn_option* out) noexcept {
  engine::attach_thread();  // reads the options in the environment, if no earlier call has
  return options::describe(index, *out);
}

int tarn_set_option(const char* name, const char* value) noexcept {
  engine::attach_thread();
  return options::set(name, value);
}

const char* tarn_version() noexcept { return TARN_VERSION; }
