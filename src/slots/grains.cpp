// SPDX-License-Identifier: MIT
#include "slots/grains.hpp"

#include <algorithm>

#include "slots/free_mark.hpp"
#include "slots/objects.hpp"

namespace tarn {
namespace {

// Per refill: spans searched in each occupancy list, and spans divided.
constexpr std::size_t looks = 16;
constexpr std::size_t divisions = 4;
// How many sixteenths of the memory of all classes may lie free in spans before blocks of this size are made of grains.
// The cost of such a block, a search and several cache misses, hardly depends on its size; per byte saved, small blocks
// cost most.
constexpr unsigned tolerated(std::size_t bytes) {
  constexpr std::size_t most = 6;
  constexpr std::size_t most_times_size = 800;
  return static_cast<unsigned>(std::min(most, most_times_size / bytes));
}
// No more than this is tolerated: in a larger heap, other sizes use what lies free however small they are.
constexpr std::size_t most_tolerated = 16 * mib;
// How many eighths of a span are free at least if it serves such blocks: of a fuller one, too few are found at a time.
constexpr unsigned least_free(std::size_t bytes) { return std::min(tolerated(bytes), 4U); }

static_assert(2 * objects::words(size_classes::most_grains) * sizeof(std::uint64_t) <=
              objects::bytes_outside);
// Whether the bits and ties of a span of this many grains do not fit into span::inline_bits.
constexpr bool has_grain_bits_outside(std::size_t grains) {
  return 2 * objects::words(grains) > span::inline_words;
}

// Changes a span's class to `grain`; each object that is not free becomes a block of grains. `bits`: room for the free
// bits and the ties.
void divide(span* s, unsigned grain, std::uint64_t* bits) {
  const std::size_t of_object = class_info(s->size_class).size / class_info(grain).size;
  const std::size_t count = s->capacity;
  std::uint64_t was_free[span::inline_words];
  std::copy_n(s->free_bits, objects::words(count), was_free);
  s->size_class = static_cast<std::uint8_t>(grain);
  s->capacity = static_cast<std::uint16_t>(s->bytes() / class_info(grain).size);
  s->free_bits = bits;
  std::fill_n(bits, 2 * objects::words(s->capacity), std::uint64_t{0});
  objects::set_all_free(bits, s->capacity);
  const std::size_t lead = s->capacity - count * of_object;
  for (std::size_t i = 0; i < count; ++i) {
    if (!objects::is_set(was_free, i)) objects::tie(s, lead + i * of_object, of_object);
  }
  s->free_objects = static_cast<std::uint16_t>(objects::count_free(s));
  s->no_run_of = 0;
}

}  // namespace

// Divides the class's partial span with the most free objects. False: there is none, or no memory.
bool grains::divide_span(slot_depot& from, unsigned size_class) {
  const unsigned grain = size_classes::grain_of(size_class);
  if (grain == 0) return false;
  const std::size_t size = class_info(grain).size;
  const std::size_t count = (std::size_t{class_info(size_class).span_pages} << page_shift) / size;
  void* const outside = has_grain_bits_outside(count) ? blocks_.allocate(objects::bytes_outside) : nullptr;
  if (has_grain_bits_outside(count) && outside == nullptr) return false;
  slot_depot& to = depots_.at(grain);
  span* s = nullptr;
  {
    // Both locks, in the order in which fork takes them.
    os::lock_guard guard(from.lock, from);
    os::lock_guard grain_guard(to.lock, to);
    s = from.spans.sparsest();
    if (s != nullptr) {
      if (TARN_UNLIKELY(s->free_when_looked != 0)) free_mark::list_again(map_, s);
      from.spans.remove(s);
      s->owner.store(&to, std::memory_order_relaxed);
      divide(s, grain, outside != nullptr ? static_cast<std::uint64_t*>(outside) : s->inline_bits);
      // release: partner of the acquire in class_front::elsewhere(). The depot of grains has home 0.
      s->home.store(0, std::memory_order_release);
      free_mark::clear_outside(map_, s);
      map_.set_objects(s, size);
      to.spans.adopt(s);
      has_divided_.store(true, std::memory_order_relaxed);
      depots_.review(from, size_class);
    }
  }
  if (s == nullptr && outside != nullptr) blocks_.deallocate(outside, objects::bytes_outside);
  return s != nullptr;
}

// Takes at most `most` blocks for the class from the free grains of one grain class. Returns their number.
std::size_t grains::take_runs(unsigned grain, unsigned size_class, void** out, std::size_t most) {
  const std::size_t bytes = class_info(size_class).size;
  const std::size_t size = class_info(grain).size;
  const std::size_t length = (bytes + size - 1) / size;
  slot_depot& d = depots_.at(grain);
  std::size_t found = 0;
  {
    os::lock_guard guard(d.lock, d);
    d.spans.for_each_partial(least_free(bytes), length, looks, [&](span* s) TARN_REQUIRES(d.lock) {
      if (s->no_run_of != 0 && s->no_run_of <= length) return true;
      std::size_t taken = 0;
      for (std::size_t i = 0; found < most; i += length) {
        i = objects::find_run(s, i, length);
        if (i >= s->capacity) {
          s->no_run_of = static_cast<std::uint16_t>(length);
          break;
        }
        objects::tie(s, i, length);
        out[found++] = objects::at(s, i);
        taken += length;
      }
      if (taken != 0) d.spans.change_free_count(s, -static_cast<int>(taken));
      return found < most;
    });
    depots_.review(d, grain);
  }
  // Clear the marks of objects that were free here before, so that the program cannot read one, and mark each block.
  for (std::size_t i = 0; i < found; ++i) {
    for (std::size_t at = 0; at < length * size; at += size) {
      char* const word = static_cast<char*>(out[i]) + at;
      if (free_mark::is_set(word)) free_mark::clear(word);
    }
    free_mark::set(out[i]);
  }
  return found;
}

// Divides a few spans of other sparse classes whose spans are at least as long as an object of the class. Returns their
// number.
std::size_t grains::divide_sparse_spans(unsigned size_class) {
  const std::size_t bytes = class_info(size_class).size;
  std::size_t divided = 0;
  for (unsigned home = 0; home < home_counts::most; ++home) {
    if (!depots_.has_sparse(home)) continue;
    for (unsigned c = 1; c < size_classes::count && divided < divisions; ++c) {
      if (c == size_class || span_bytes(c) < bytes) continue;
      while (divided < divisions && depots_.is_sparse(c, home) && divide_span(depots_.at(c, home), c))
        ++divided;
    }
  }
  return divided;
}

// Whether spans can be divided, or have been.
bool grains::may_exist() const {
  if (has_divided_.load(std::memory_order_relaxed)) return true;
  for (unsigned home = 0; home < home_counts::most; ++home) {
    if (depots_.has_sparse(home)) return true;
  }
  return false;
}

// Whether more than so many sixteenths of the memory of all classes lie free in spans that are not spare.
bool grains::has_more_free(unsigned sixteenths) {
  if (sixteenths == 0) return true;
  std::size_t free = 0;
  std::size_t taken = 0;
  for (unsigned c = 1; c < size_classes::all; ++c) {
    depots_.for_each(c, [&](const slot_depot& d) {
      free += d.free_hint.load(std::memory_order_relaxed);
      taken += d.taken_hint.load(std::memory_order_relaxed);
    });
  }
  return free > std::min((free + taken) / 16 * sixteenths, most_tolerated);
}

std::size_t grains::take(unsigned size_class, void** out, std::size_t most) {
  if constexpr (hardened_build) return 0;
  const std::size_t bytes = class_info(size_class).size;
  if (bytes < size_classes::least_grain || bytes > size_classes::largest_of_grains) return 0;
  if (!may_exist() || !has_more_free(tolerated(bytes))) return 0;
  std::size_t found = 0;
  const auto take = [&] {
    for (unsigned g = size_classes::count; g < size_classes::all && found < most; ++g) {
      found += take_runs(g, size_class, out + found, most - found);
    }
  };
  take();
  if (found < most && divide_sparse_spans(size_class) != 0) take();
  return found;
}

std::size_t grains::bytes_of(unsigned size_class, std::uintptr_t address) {
  // The span was divided under this lock.
  os::lock_guard guard(depots_.at(size_class).lock, depots_.at(size_class));
  span* const s = map_.span_of(address);
  return objects::run_length(s, objects::index_of(s, address)) * class_info(size_class).size;
}

}  // namespace tarn
